//! Keeps one network's checks asked: holds what is watched there, and a probe that asks it.
//!
//! The probe is absent, being launched, or running. Whatever ends one, the next is told of all checks again; the
//! checks themselves never hear of it.

use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::driver::{NOTHING, Shared};
use super::heartbeat::{self, Step, after};
use super::run::{Event, Launch, Outgoing, ProbeRun, Process, would_block};
use super::watched::{Entry, Watched};
use super::{Place, ProberStatus, Report};
use kelson_helper::Launched;
use kelson_helper::probe::{self as wire, FromProbe, Verdict, WireError};
use kelson_helper::random::Random;

/// Pauses before the next probe: none after a sound one, then this, doubled each time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// One that answered and lived so long was sound.
const SOUND: Duration = Duration::from_secs(5);
/// Making a process takes no longer.
const LAUNCH: Duration = Duration::from_secs(5);
/// The end of a process shows at its socket first; so long its exit may take to tell how it ended.
const EXIT: Duration = Duration::from_millis(50);
/// So long the host's probe stays when there is nothing to ask: services that restart bring their checks back.
const STAYS: Duration = Duration::from_secs(10);
/// A probe holds nothing that it would have to finish.
const ORDERLY: Duration = Duration::from_secs(1);
/// So many checks one probe is given.
const CHECKS_MAX: usize = 16_384;
/// Read from the socket at once, and so often before others have their turn.
const READ: usize = 16 << 10;
const READS: usize = 8;

/// What a keeper is asked to do.
pub enum Order {
    Watch(Box<Entry>),
    End(u64),
    Restart,
    Shutdown(Instant),
}

pub struct Supervisor {
    place: Place,
    shared: Arc<Shared>,
    orders: mpsc::UnboundedReceiver<Order>,
    watched: Watched,
    process: Process,
    pause: Duration,
    /// When the probe is let go, since there is nothing to ask.
    leave: Option<Instant>,
    shutdown: Option<Instant>,
    /// Why the last probe was replaced, until the next one answers.
    replaced: Option<String>,
    /// What was last told of starting one.
    told: Option<String>,
    refused: bool,
    silence: Option<Duration>,
    buffer: Box<[u8]>,
    random: Random,
}

impl Supervisor {
    pub fn new(place: Place, shared: Arc<Shared>, orders: mpsc::UnboundedReceiver<Order>) -> Supervisor {
        Supervisor {
            place,
            shared,
            orders,
            watched: Watched::default(),
            process: Process::Absent { retry: None },
            pause: Duration::ZERO,
            leave: None,
            shutdown: None,
            replaced: None,
            told: None,
            refused: false,
            silence: None,
            buffer: vec![0; READ].into_boxed_slice(),
            random: Random::seeded(),
        }
    }

    /// Ends once nothing is asked here and the probe has ended.
    pub async fn run(mut self) -> Place {
        loop {
            let event = self.next_event().await;
            let now = Instant::now();
            match event {
                Event::Order(None) => return self.place.clone(),
                Event::Order(Some(order)) => {
                    self.order(order, now);
                    // A boot brings all its checks at once.
                    while let Ok(order) = self.orders.try_recv() {
                        self.order(order, now);
                    }
                }
                Event::Launched(Ok(process)) => self.launched(process, now),
                Event::Launched(Err(error)) => {
                    self.not_launched(&format!("could not be started: {error}"), now)
                }
                Event::Exited(how) => self.gone(&how, now),
                Event::Ready | Event::Tick => {}
            }
            // A late timer must not be taken for a dead probe while its answer lies unread in the socket.
            self.read(now);
            self.tick(now);
            self.send(now);
            if self.over() {
                return self.place.clone();
            }
        }
    }

    fn over(&self) -> bool {
        let absent = matches!(self.process, Process::Absent { retry: None });
        absent && (self.shutdown.is_some() || self.watched.is_empty()) && self.orders.is_empty()
    }

    async fn next_event(&mut self) -> Event {
        let deadline = self.deadline();
        let tick = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            order = self.orders.recv() => Event::Order(order),
            event = self.process.event() => event,
            () = tick => Event::Tick,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let process = match &self.process {
            Process::Absent { retry } => *retry,
            Process::Launching(launch) => Some(launch.by),
            Process::Running(run) => {
                run.heartbeat.next(self.silence).into_iter().chain(run.stop_by).chain(run.exit_by).min()
            }
        };
        process.into_iter().chain(self.leave).min()
    }

    fn order(&mut self, order: Order, now: Instant) {
        match order {
            Order::Watch(entry) => self.add(*entry, now),
            Order::End(id) => self.remove(id, now),
            Order::Restart => match &mut self.process {
                Process::Running(run) => run.stop(ORDERLY, now),
                Process::Absent { retry: Some(retry) } => *retry = now,
                _ => {}
            },
            Order::Shutdown(deadline) => self.shut_down(deadline, now),
        }
    }

    fn add(&mut self, mut entry: Entry, now: Instant) {
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
        self.leave = None;
        self.silence = self.watched.shortest_interval().map(heartbeat::silence);
        match &mut self.process {
            Process::Absent { retry: None } if self.shutdown.is_none() => {
                self.launch(now);
                if matches!(self.process, Process::Launching(_)) {
                    self.publish("being started", |_| {});
                }
            }
            Process::Running(run) => run.enqueue(Outgoing::Begin { id, again: false }),
            // The next one is told of all.
            _ => {}
        }
    }

    fn remove(&mut self, id: u64, now: Instant) {
        if !self.watched.remove(id) {
            return;
        }
        self.refused = false;
        self.shared.status.send_modify(|status| status.checks = status.checks.saturating_sub(1));
        self.silence = self.watched.shortest_interval().map(heartbeat::silence);
        if let Process::Running(run) = &mut self.process {
            run.enqueue(Outgoing::End(id));
        }
        if self.watched.is_empty() {
            let stays = if self.place == Place::Host { STAYS } else { Duration::ZERO };
            self.leave = Some(after(now, stays));
        }
    }

    fn shut_down(&mut self, deadline: Instant, now: Instant) {
        self.shutdown = Some(deadline);
        match &mut self.process {
            Process::Running(run) => {
                let within = deadline.saturating_duration_since(now);
                run.stop(within, now);
                run.stop_by = run.stop_by.map(|by| by.min(deadline));
            }
            // What is being started finds its socket closed.
            Process::Launching(_) | Process::Absent { .. } => self.absent(None, "stopped"),
        }
    }

    fn launch(&mut self, now: Instant) {
        let pair = StdStream::pair().and_then(|(control, theirs)| {
            control.set_nonblocking(true)?;
            Ok((control, theirs))
        });
        match pair {
            Ok((control, theirs)) => {
                let future = self.shared.launcher.launch(theirs.into(), &self.place);
                self.process = Process::Launching(Launch { future, control, by: after(now, LAUNCH) });
            }
            Err(error) => self.not_launched(&format!("could not be started: {error}"), now),
        }
    }

    fn launched(&mut self, process: Launched, now: Instant) {
        let Process::Launching(launch) =
            std::mem::replace(&mut self.process, Process::Absent { retry: None })
        else {
            return;
        };
        let pid = process.pid;
        let mut run = match ProbeRun::new(launch.control, process, now) {
            Ok(run) => Box::new(run),
            Err((process, error)) => {
                (process.kill)();
                return self.not_launched(&format!("could not be reached: {error}"), now);
            }
        };
        let again = self.replaced.is_some();
        for id in self.watched.ids() {
            run.enqueue(Outgoing::Begin { id, again });
        }
        self.process = Process::Running(run);
        self.publish("started", |status| status.pid = Some(pid));
    }

    fn not_launched(&mut self, why: &str, now: Instant) {
        if self.shutdown.is_some() {
            return self.absent(None, "stopped");
        }
        self.pause = longer(self.pause);
        let waiting = self.watched.len();
        let message = format!("{why}; trying again in {} ms", self.pause.as_millis());
        self.absent(Some(after(now, self.pause)), &message);
        self.replaced.get_or_insert_with(|| why.to_owned());
        if self.told.as_deref() != Some(why) {
            self.told = Some(why.to_owned());
            self.trouble(format!("{why}; {waiting} checks wait for it"));
        }
    }

    /// The running probe has ended, or is given up.
    fn gone(&mut self, how: &str, now: Instant) {
        let Process::Running(run) = std::mem::replace(&mut self.process, Process::Absent { retry: None })
        else {
            return;
        };
        if self.shutdown.is_some() {
            return self.absent(None, "stopped");
        }
        let asked = run.stop_by.is_some();
        if run.answered && now.duration_since(run.born) >= SOUND {
            self.pause = Duration::ZERO;
        }
        drop(run);
        if self.watched.is_empty() {
            return self.absent(None, NOTHING);
        }
        if asked {
            self.absent(None, "restarting as an operator asked");
            return self.launch(now);
        }
        let pause = self.pause;
        self.pause = longer(pause);
        self.replaced = Some(how.to_owned());
        let message = match pause.as_millis() {
            0 => format!("{how}; the next is started at once"),
            pause => format!("{how}; the next is started in {pause} ms"),
        };
        self.absent(Some(after(now, pause)), &message);
        self.shared.status.send_modify(|status| status.restarts = status.restarts.saturating_add(1));
    }

    fn absent(&mut self, retry: Option<Instant>, message: &str) {
        self.process = Process::Absent { retry };
        self.publish(message, |_| {});
    }

    fn kill(&mut self, why: &str, now: Instant) {
        // Dropping it kills it.
        self.gone(why, now);
    }

    /// Takes in what the probe has sent.
    fn read(&mut self, now: Instant) {
        for _ in 0..READS {
            let Process::Running(run) = &mut self.process else { return };
            if run.exit_by.is_some() {
                return;
            }
            let count = match run.stream.try_read(&mut self.buffer) {
                Ok(0) => return self.closed(now),
                Ok(count) => count,
                Err(error) if would_block(&error) => return,
                Err(_) => return self.closed(now),
            };
            run.heartbeat.received(now);
            run.incoming.push(self.buffer.get(..count).unwrap_or_default());
            if !std::mem::replace(&mut run.answered, true) {
                self.answered(now);
            }
            if let Err(error) = self.take_frames(now) {
                return self.kill(&format!("sent what is no answer ({error}) and was killed"), now);
            }
        }
    }

    fn take_frames(&mut self, now: Instant) -> Result<(), WireError> {
        let Process::Running(run) = &mut self.process else { return Ok(()) };
        while let Some(frame) = run.incoming.frame()? {
            let (message, mut rest) = wire::read_piece(frame)?;
            match message {
                FromProbe::Results => {
                    while !rest.is_empty() {
                        let (record, more) = wire::read_piece(rest)?;
                        self.watched.take(&record, now);
                        rest = more;
                    }
                }
                // That it sent something was all.
                FromProbe::Pong(_) => {}
                FromProbe::Trouble(text) => {
                    let report = Report::Trouble { place: self.place.clone(), text: text.to_owned() };
                    self.shared.report(report);
                }
                FromProbe::Dropped(count) => {
                    self.shared
                        .status
                        .send_modify(|status| status.dropped = status.dropped.saturating_add(count));
                }
            }
        }
        Ok(())
    }

    /// A new probe has sent its first word.
    fn answered(&mut self, now: Instant) {
        self.told = None;
        self.publish("running", |status| status.up = true);
        if let Some(reason) = self.replaced.take() {
            let late = self.watched.late(now);
            self.shared.report(Report::Replaced { place: self.place.clone(), reason, late });
        }
    }

    /// It has ended, or will soon; its exit tells how, but the checks need not wait long for that.
    fn closed(&mut self, now: Instant) {
        if let Process::Running(run) = &mut self.process {
            let by = run.stop_by.unwrap_or_else(|| after(now, EXIT));
            run.exit_by.get_or_insert(by);
        }
    }

    fn tick(&mut self, now: Instant) {
        if self.leave.is_some_and(|leave| now >= leave) {
            self.leave = None;
            match &mut self.process {
                Process::Running(run) => run.stop(ORDERLY, now),
                Process::Launching(_) | Process::Absent { .. } => return self.absent(None, NOTHING),
            }
        }
        match &mut self.process {
            Process::Absent { retry: Some(retry) } if now >= *retry => self.launch(now),
            Process::Absent { .. } => {}
            Process::Launching(launch) if now >= launch.by => {
                let seconds = LAUNCH.as_secs();
                self.not_launched(&format!("could not be started in {seconds} s"), now)
            }
            Process::Launching(_) => {}
            Process::Running(run) => {
                if run.stop_by.is_some_and(|by| now >= by) {
                    return self.kill("did not end in time and was killed", now);
                }
                if run.exit_by.is_some_and(|by| now >= by) {
                    return self.kill("closed its socket and was killed", now);
                }
                match run.heartbeat.tick(now, self.silence) {
                    Step::Nothing => {}
                    Step::Ping(number) => run.enqueue(Outgoing::Ping(number)),
                    Step::Dead => self.kill("did not answer its ping and was killed", now),
                }
            }
        }
    }

    fn send(&mut self, now: Instant) {
        let Process::Running(run) = &mut self.process else { return };
        if run.exit_by.is_some() {
            return;
        }
        match run.send(&self.watched, &mut self.random, now) {
            Ok(refused) => {
                for (id, error) in refused {
                    if let Some(entry) = self.watched.get_mut(id) {
                        let text = format!("cannot be asked: {error}");
                        entry.answer(SystemTime::now(), Duration::ZERO, Verdict::Fails, Some(&text));
                    }
                }
            }
            Err(_) => self.closed(now),
        }
    }

    fn trouble(&self, text: String) {
        self.shared.report(Report::Trouble { place: self.place.clone(), text });
    }

    /// The status is that of the host's probe; `up` and `pid` follow from where it is.
    fn publish(&self, message: &str, change: impl FnOnce(&mut ProberStatus)) {
        if self.place != Place::Host {
            return;
        }
        let running = matches!(self.process, Process::Running(_));
        let wanted = !self.watched.is_empty() && self.shutdown.is_none();
        self.shared.status.send_modify(|status| {
            if !running {
                status.pid = None;
                status.up = false;
            }
            status.wanted = wanted;
            status.since = Instant::now();
            status.message = message.into();
            change(status);
        });
    }
}

/// What is watched no more is counted no more, also where the driver is dropped.
impl Drop for Supervisor {
    fn drop(&mut self) {
        let checks = self.watched.len();
        self.shared.status.send_if_modified(|status| {
            status.checks = status.checks.saturating_sub(checks);
            checks > 0
        });
    }
}

fn longer(pause: Duration) -> Duration {
    pause.saturating_mul(2).clamp(PAUSE, LONGEST_PAUSE)
}
