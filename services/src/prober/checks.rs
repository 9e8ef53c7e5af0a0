//! The checks of one place: the commands to its probe, and the meaning of its messages.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_helper::Start;
use kelson_helper::probe::Verdict;
use kelson_helper::random::Random;
use kelson_helper::supervisor::{
    self, AnswerTimes, Duty, End, Expectations, Next, Order, Policy, Reply, Status, Supervisor, Wake, after,
};
use kelson_helper::transport::Packet;
use kelson_proto::v1::{self, probe_command, probe_report};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::watched::{Entry, Watched};
use super::{Launchers, Place, ProberStatus, Report};

/// Why no probe runs where there is no check.
pub const NOTHING: &str = "nothing to ask";
/// At once after a sound one, then after pauses that grow.
const POLICY: Policy = Policy {
    answer: AnswerTimes { usual: Duration::from_secs(2), first: Duration::from_secs(5) },
    pause: Duration::ZERO,
    tolerated: 0,
    longest_alive: Duration::from_secs(5),
};
/// The silence before a ping: half the shortest interval, within these.
const SILENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// So long a probe of the host stays when there is nothing to ask: services that restart bring their checks back.
const STAYS: Duration = Duration::from_secs(10);
/// How many checks one probe gets.
const CHECKS_MAX: usize = 16_384;

/// The parts that all networks have in common.
pub struct Shared {
    pub launchers: Launchers,
    pub status: watch::Sender<ProberStatus>,
    pub reports: mpsc::Sender<Report>,
}

impl Shared {
    pub fn report(&self, report: Report) {
        // The receiver is slow or gone; the status has the number of restarts.
        let _ = self.reports.try_send(report);
    }
}

/// A request to the checks of one network.
pub enum Request {
    Watch(Box<Entry>),
    End(u64),
    Restart,
    Shutdown(Instant),
}

/// The orders to the probe beside pings.
#[derive(Debug, Clone, Copy)]
pub enum Outgoing {
    /// `again`: an earlier probe had it.
    Begin {
        id: u64,
        again: bool,
    },
    End(u64),
}

pub struct Checks {
    place: Place,
    shared: Arc<Shared>,
    watched: Watched,
    silence: Option<Duration>,
    /// When the probe is let go, since there is nothing to ask.
    leave: Option<Instant>,
    /// Why the last probe was replaced, until the next one answers.
    replaced: Option<String>,
    /// Why none can be started, as it was last reported.
    told: Option<String>,
    refused: bool,
    closing: bool,
    random: Random,
}

impl Checks {
    pub fn new(place: Place, shared: Arc<Shared>) -> Checks {
        Checks {
            place,
            shared,
            watched: Watched::default(),
            silence: None,
            leave: None,
            replaced: None,
            told: None,
            refused: false,
            closing: false,
            random: Random::seeded(),
        }
    }

    /// Ends once nothing is asked here and the probe has ended.
    pub async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) -> Place {
        let launchers = &self.shared.launchers;
        let launcher = Arc::clone(match &self.place {
            Place::Host | Place::NetworkOf(_) => &launchers.networks,
            Place::Sockets => &launchers.sockets,
        });
        let mut probe = Probe(Supervisor::new(launcher, POLICY, Status::new(NOTHING), NOTHING));
        let probe = &mut probe.0;
        loop {
            let (mut request, wake) = tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(request) => (Some(request), Wake::Ready),
                    None => return self.place.clone(),
                },
                wake = probe.next(&self, self.leave) => (None, wake),
            };
            let now = Instant::now();
            // A boot brings all its checks at once.
            while let Some(one) = request {
                self.take(one, probe, now);
                request = requests.try_recv().ok();
            }
            if self.leave.is_some_and(|leave| now >= leave) {
                self.leave = None;
                probe.stop(&mut self, now);
            }
            probe.advance(wake, &mut self, now);
            let over = probe.is_idle() && (self.closing || self.watched.is_empty());
            if over && requests.is_empty() {
                return self.place.clone();
            }
        }
    }

    fn take(&mut self, request: Request, probe: &mut Supervisor<Checks>, now: Instant) {
        match request {
            Request::Watch(entry) => self.add(*entry, probe, now),
            Request::End(id) => self.remove(id, probe, now),
            Request::Restart => probe.stop(self, now),
            Request::Shutdown(deadline) => {
                self.closing = true;
                probe.shut_down(deadline, None, self, now);
            }
        }
    }

    fn add(&mut self, mut entry: Entry, probe: &mut Supervisor<Checks>, now: Instant) {
        if self.watched.len() >= CHECKS_MAX {
            let text = format!("not asked: there are {CHECKS_MAX} network checks already");
            if !std::mem::replace(&mut self.refused, true) {
                self.trouble(text.clone());
            }
            return entry.answer(SystemTime::now(), Duration::ZERO, Verdict::Fails, Some(&text));
        }
        let id = entry.id;
        self.watched.add(entry);
        self.shared.status.send_modify(|status| status.checks = status.checks.saturating_add(1));
        self.measure_silence();
        self.leave = None;
        probe.enqueue(Outgoing::Begin { id, again: false });
        if probe.want(self, now) {
            probe.publish("being started", self);
        }
    }

    fn remove(&mut self, id: u64, probe: &mut Supervisor<Checks>, now: Instant) {
        if !self.watched.remove(id) {
            return;
        }
        self.refused = false;
        self.shared.status.send_modify(|status| status.checks = status.checks.saturating_sub(1));
        self.measure_silence();
        probe.enqueue(Outgoing::End(id));
        if self.watched.is_empty() {
            let stays = match self.place {
                Place::Host | Place::Sockets => STAYS,
                Place::NetworkOf(_) => Duration::ZERO,
            };
            self.leave = Some(after(now, stays));
            probe.unwant(self, now);
        }
    }

    fn measure_silence(&mut self) {
        let shortest = self.watched.shortest_interval();
        self.silence = shortest.map(silence);
    }

    fn trouble(&self, text: String) {
        self.shared.report(Report::Trouble { place: self.place.clone(), text });
    }
}

impl Expectations for Checks {
    fn silence(&self) -> Option<Duration> {
        self.silence
    }
}

impl Duty for Checks {
    type Order = Outgoing;
    type Command = v1::ProbeCommand;
    type Report = v1::ProbeReport;

    fn start(&self, control: OwnedFd) -> io::Result<Start> {
        let network = match &self.place {
            Place::Host | Place::Sockets => None,
            Place::NetworkOf(network) => Some(network.namespace.try_clone()?),
        };
        Ok(Start { network, ..Start::new(Vec::new(), control) })
    }

    fn orders(&self) -> Vec<Outgoing> {
        let again = self.replaced.is_some();
        self.watched.ids().into_iter().map(|id| Outgoing::Begin { id, again }).collect()
    }

    fn command(
        &mut self,
        order: &Order<Outgoing>,
        now: Instant,
    ) -> Option<(v1::ProbeCommand, Vec<BorrowedFd<'_>>)> {
        use probe_command::Command;
        let command = match order {
            Order::Ping => Command::Ping(supervisor::ping()),
            Order::Stop { within } => Command::Stop(supervisor::stop(*within)),
            Order::Own(Outgoing::Begin { id, again }) => {
                Command::Begin(self.watched.get(*id)?.begin(now, *again, &mut self.random)?)
            }
            Order::Own(Outgoing::End(id)) => Command::End(*id),
        };
        Some((v1::ProbeCommand { command: Some(command) }, Vec::new()))
    }

    fn sent(&mut self, order: Order<Outgoing>, result: io::Result<()>, _now: Instant) {
        if let (Order::Own(Outgoing::Begin { id, .. }), Err(error)) = (order, result)
            && let Some(entry) = self.watched.get_mut(id)
        {
            let text = format!("cannot be asked: {error}");
            entry.answer(SystemTime::now(), Duration::ZERO, Verdict::Fails, Some(&text));
        }
    }

    fn received(&mut self, packet: Packet<v1::ProbeReport>, now: Instant) -> Reply<Outgoing> {
        match packet.message.report {
            Some(probe_report::Report::Pong(pong)) => return Reply::Pong(pong),
            Some(probe_report::Report::Results(results)) => {
                for result in &results.results {
                    self.watched.take(result, now);
                }
            }
            Some(probe_report::Report::Trouble(text)) => self.trouble(text),
            Some(probe_report::Report::Dropped(count)) => {
                self.shared
                    .status
                    .send_modify(|status| status.dropped = status.dropped.saturating_add(count));
            }
            None => {}
        }
        Reply::Nothing
    }

    fn up(&mut self, now: Instant) {
        self.told = None;
        if let Some(reason) = self.replaced.take() {
            let late = self.watched.late(now);
            self.shared.report(Report::Replaced { place: self.place.clone(), reason, late });
        }
    }

    fn ended(&mut self, end: &End, _now: Instant) {
        match end.next {
            Next::After(_) => {
                self.shared.status.send_modify(|status| status.restarts = status.restarts.saturating_add(1));
                self.replaced = Some(end.how.clone());
            }
            Next::Retry(_) => {
                self.replaced.get_or_insert_with(|| end.how.clone());
                if self.told.as_ref() != Some(&end.how) {
                    self.told = Some(end.how.clone());
                    self.trouble(format!("{}; {} checks wait for it", end.how, self.watched.len()));
                }
            }
            Next::Stopped | Next::Idle | Next::AtOnce => {}
        }
    }

    /// The status is that of the host's probe.
    fn publish(&mut self, helper: &Status) {
        if self.place == Place::Host {
            let wanted = !self.watched.is_empty() && !self.closing;
            self.shared.status.send_modify(|status| {
                (status.helper, status.wanted) = (helper.clone(), wanted);
            });
        }
    }
}

/// How long a probe may be silent, by the shortest interval of its checks.
fn silence(shortest_interval: Duration) -> Duration {
    shortest_interval.checked_div(2).unwrap_or_default().clamp(SILENCE.0, SILENCE.1)
}

/// A check that is no longer watched is no longer counted, also where the driver is dropped.
impl Drop for Checks {
    fn drop(&mut self) {
        let checks = self.watched.len();
        self.shared.status.send_if_modified(|status| {
            status.checks = status.checks.saturating_sub(checks);
            checks > 0
        });
    }
}

/// A probe holds nothing that it would have to finish: it ends with what asks it.
struct Probe(Supervisor<Checks>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silence_follows_the_shortest_interval_within_bounds() {
        let of = |millis| silence(Duration::from_millis(millis)).as_millis();
        assert_eq!([of(100), of(5_000), of(60_000)], [1_000, 2_500, 5_000]);
    }
}
