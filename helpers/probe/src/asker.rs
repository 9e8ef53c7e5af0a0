//! Asks each check when it is due, never twice at once, and not more at a time than there are descriptors for.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::agenda::Agenda;
use crate::ask::{Answer, Attempt, Deadline, Question, harmless};
use crate::fault::{self, since_1970};
use crate::link::Link;
use kelson_helper::probe::timing::{Eager, jitter};
use kelson_helper::random::Random;
use kelson_helper::supervisor;
use kelson_proto::v1::ProbeBegin;
use kelson_proto::v1::probe_command::Command;
use kelson_proto::v1::probe_report::Report;
use kelson_spec::wire;

/// Checks that are due within so long are asked together: a thousand a second wake us a hundred times.
const TOGETHER: Duration = Duration::from_millis(10);
/// The most by which the first asking is later than it might be.
const FIRST: Duration = Duration::from_millis(100);
/// Checks asked before the next message of PID 1 is read.
const BATCH: usize = 256;
/// The probe reports no more often that checks wait for their turn.
const SAY: Duration = Duration::from_secs(60);

pub struct Asker {
    link: Link,
    checks: HashMap<u64, Check>,
    agenda: Agenda,
    /// When the agenda was last looked at.
    looked: Option<Instant>,
    under_way: JoinSet<Done>,
    /// Due, but as many connections are open as may be.
    waiting: VecDeque<u64>,
    connections: usize,
    said: Option<Instant>,
    random: Random,
    leaving: bool,
}

struct Check {
    question: Arc<Question>,
    interval: Duration,
    timeout: Duration,
    eager: Eager,
    /// It is being asked.
    asking: Option<AbortHandle>,
}

/// The result of a task that asks.
struct Done {
    id: u64,
    at: SystemTime,
    took: Duration,
    answer: Answer,
}

impl Asker {
    pub fn new(link: Link, connections: usize) -> Asker {
        Asker {
            link,
            checks: HashMap::new(),
            agenda: Agenda::default(),
            looked: None,
            under_way: JoinSet::new(),
            waiting: VecDeque::new(),
            connections,
            said: None,
            random: Random::seeded(),
            leaving: false,
        }
    }

    /// Until PID 1 asks it to end or is gone.
    ///
    /// # Errors
    /// PID 1 said what is no message of ours.
    pub async fn run(&mut self) -> io::Result<()> {
        match self.ask_all().await {
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => Ok(()),
            ended => ended,
        }
    }

    async fn ask_all(&mut self) -> io::Result<()> {
        loop {
            let now = Instant::now();
            self.ask_due(now);
            let checks = &self.checks;
            self.link.flush(now, |id| checks.contains_key(&id))?;
            if self.leaving {
                return Ok(());
            }
            let wake = self.wake(now);
            let tick = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.link.ready() => self.hear()?,
                Some(done) = self.under_way.join_next() => {
                    let mut next = Some(done);
                    while let Some(done) = next {
                        // Another one was aborted with its check.
                        if let Ok(done) = done {
                            self.answered(done);
                        }
                        next = self.under_way.try_join_next();
                    }
                }
                () = tick => {}
            }
        }
    }

    /// The next time at which something is to be done; nobody is woken for a single check before its time, nor for each
    /// of many.
    fn wake(&self, now: Instant) -> Option<Instant> {
        let free = self.under_way.len() < self.connections;
        let waiting = (free && !self.waiting.is_empty()).then_some(now);
        let due = self.agenda.next().filter(|_| free);
        let not_before = self.looked.and_then(|at| at.checked_add(TOGETHER)).unwrap_or(now);
        due.map(|due| due.max(not_before)).into_iter().chain(waiting).chain(self.link.next(now)).min()
    }

    fn hear(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let mut ended = false;
        while let Some(command) = self.link.read()? {
            match command {
                Command::Begin(begin) => {
                    let check = Check::new(&begin, now).map_err(io::Error::other)?;
                    let spread = check.interval.checked_div(10).unwrap_or_default().min(FIRST);
                    let delay =
                        Duration::from_micros(begin.delay).saturating_add(self.random.part_of(spread));
                    self.agenda.add(after(now, delay), begin.id);
                    self.checks.insert(begin.id, check);
                }
                Command::End(id) => {
                    if let Some(asking) = self.checks.remove(&id).and_then(|check| check.asking) {
                        asking.abort();
                    }
                    self.link.outbox.forget(id);
                    ended = true;
                }
                Command::Ping(ping) => self.link.say(Report::Pong(supervisor::pong(&ping))),
                Command::Stop(_) => self.leaving = true,
            }
        }
        if ended {
            let checks = &self.checks;
            self.agenda.tidy(checks.len(), |id| checks.contains_key(&id));
        }
        Ok(())
    }

    fn ask_due(&mut self, now: Instant) {
        if self.looked.and_then(|at| at.checked_add(TOGETHER)).is_some_and(|at| now < at)
            && self.waiting.is_empty()
        {
            return;
        }
        self.looked = Some(now);
        for _ in 0..BATCH {
            if self.under_way.len() >= self.connections {
                return self.hold_back(now);
            }
            let next = self.waiting.pop_front().or_else(|| self.agenda.take(now));
            let Some(id) = next else { return };
            self.ask(id);
        }
        // More are due: they are next, after the next message of PID 1.
        self.looked = None;
    }

    /// Those that are due wait until a connection is closed.
    fn hold_back(&mut self, now: Instant) {
        while let Some(id) = self.agenda.take(now) {
            if self.checks.contains_key(&id) {
                self.waiting.push_back(id);
            }
        }
        let silent = self.said.and_then(|at| at.checked_add(SAY)).is_some_and(|until| now < until);
        if self.waiting.is_empty() || silent {
            return;
        }
        self.said = Some(now);
        let text = format!(
            "{} checks wait for their turn: {} connections are open, which is the most at a time",
            self.waiting.len(),
            self.connections
        );
        self.link.say(Report::Trouble(text));
    }

    fn ask(&mut self, id: u64) {
        let Some(check) = self.checks.get_mut(&id) else { return };
        let (at, begun) = (SystemTime::now(), Instant::now());
        let started = match check.question.attempt() {
            Attempt::Done(answer) => {
                let took = begun.elapsed();
                return self.answered(Done { id, at, took, answer });
            }
            Attempt::Takes(started) => started,
        };
        let question = Arc::clone(&check.question);
        let deadline = Deadline::new(begun, check.timeout);
        check.asking = Some(self.under_way.spawn(fault::of_check(id, async move {
            let answer = question.ask(started, deadline).await;
            Done { id, at, took: begun.elapsed(), answer }
        })));
    }

    fn answered(&mut self, done: Done) {
        let Done { id, at, took, answer } = done;
        // It has ended meanwhile.
        let Some(check) = self.checks.get_mut(&id) else { return };
        check.asking = None;
        let now = Instant::now();
        let pause = check.eager.pause(check.interval, answer.verdict, now);
        let pause = pause.saturating_add(self.random.part_of(jitter(pause)));
        self.agenda.add(after(now, pause), id);
        let answer = Answer { verdict: answer.verdict, text: harmless(answer.text) };
        self.link.outbox.add(id, since_1970(at), took, answer);
    }
}

impl Check {
    fn new(begin: &ProbeBegin, now: Instant) -> Result<Check, wire::WireError> {
        Ok(Check {
            question: Arc::new(Question::new(&wire::decode(&begin.probe)?)),
            interval: Duration::from_micros(begin.interval),
            timeout: Duration::from_micros(begin.timeout),
            eager: Eager::new(now, Duration::from_micros(begin.eager), begin.passes),
            asking: None,
        })
    }
}

/// A year is as good as never where a clock ends.
fn after(now: Instant, span: Duration) -> Instant {
    now.checked_add(span).or_else(|| now.checked_add(Duration::from_secs(365 * 86_400))).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, OwnedFd};

    use kelson_helper::probe::micros;
    use kelson_helper::transport::{self, FROM_HELPER, Receiver, TO_HELPER};
    use kelson_proto::v1::{HelperPing, HelperStop, ProbeCommand, ProbeReport};
    use kelson_spec::service::{Asks, GrpcProbe, NetworkProbe, Probe};

    use super::*;

    /// A check that fails without asking anybody: its server has no name.
    fn begin(id: u64, interval: Duration) -> Command {
        let asks = Asks::Grpc(GrpcProbe { service: String::new(), host: Some("a b".into()), tls: None });
        let probe = Probe::Network(NetworkProbe { address: NetworkProbe::ADDRESS, port: 1, asks });
        Command::Begin(ProbeBegin {
            id,
            probe: wire::encode(&probe).unwrap(),
            delay: 0,
            interval: micros(interval),
            timeout: micros(interval),
            eager: 0,
            passes: 1,
        })
    }

    /// An asker, and PID 1's end of its socket.
    fn asker() -> (Asker, OwnedFd) {
        let (ours, theirs) = transport::pair().unwrap();
        (Asker::new(Link::new(theirs).unwrap(), 100), ours)
    }

    /// All at once: nobody reads meanwhile.
    fn tell(pid_1: &OwnedFd, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            let message = ProbeCommand { command: Some(command) };
            transport::send(pid_1.as_fd(), &message, TO_HELPER, &[]).unwrap();
        }
    }

    const STOP: Command = Command::Stop(HelperStop { within_ms: 1000 });

    #[tokio::test]
    async fn a_pid_1_that_never_reads_does_not_make_it_grow() {
        let (mut asker, pid_1) = asker();
        tell(&pid_1, (0..500).map(|id| begin(id, Duration::from_millis(10))));
        let began = Instant::now();
        while asker.link.outbox.dropped() < 1000 {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", asker.link.outbox.dropped());
            let _ = tokio::time::timeout(Duration::from_millis(100), asker.run()).await;
        }
        // It still hears: a stop ends it although its results lie there.
        tell(&pid_1, [STOP]);
        tokio::time::timeout(Duration::from_secs(10), asker.run()).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn pings_are_answered_before_results_and_ended_checks_are_asked_no_more() {
        let (mut asker, pid_1) = asker();
        let (often, rarely) = (Duration::from_millis(10), Duration::from_secs(3600));
        tell(
            &pid_1,
            [
                begin(1, often),
                begin(2, rarely),
                Command::Ping(HelperPing { number: 7, ..Default::default() }),
            ],
        );
        let _ = tokio::time::timeout(Duration::from_millis(500), asker.run()).await;
        tell(&pid_1, [Command::End(1), STOP]);
        asker.run().await.unwrap();
        assert_eq!((asker.checks.len(), asker.under_way.len()), (1, 0));
        drop(asker);

        let mut receiver = Receiver::new(FROM_HELPER);
        let mut next =
            || Some(receiver.receive::<ProbeReport>(pid_1.as_fd()).unwrap()?.message.report.unwrap());
        assert!(matches!(next(), Some(Report::Pong(pong)) if pong.number == 7));
        let mut batches = 0;
        while let Some(report) = next() {
            assert!(matches!(report, Report::Results(_)), "{report:?}");
            batches += 1;
        }
        // Half a second of results every 10 ms.
        assert!((2..=7).contains(&batches), "{batches}");
    }
}
