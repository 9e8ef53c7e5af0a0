//! The task that owns one service: it carries out the effects of the table and turns their results into inputs.
//!
//! This file has the loop. `making` and `resume` start it, `commands` has what others ask, `work` the pieces of work,
//! `checks` and `hooks` what runs beside a run, `sockets` what is held for its runs, `notify` what a run says of itself, `publisher` how a state is
//! recorded, published and logged.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kelson_conditions::{All, Condition as _};
use kelson_runner::{BoxFuture, Exit, Runner, RunnerError, Running, StopReport};
use kelson_spec::ServiceSpec;
use kelson_spec::service::WhenDown;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::Instant;

use super::host_context::HostContext;
use super::mailbox::Mailbox;
use super::paths::HeldPaths;
use super::random::Random;
use super::readiness::{NotifySource, Received};
use super::sockets::HeldSockets;
use super::table::{Answer, Effect, Input, Phase, Place, Report, Rules, ServiceState, Work};
use crate::groups::GroupRequest;
use crate::health::{Checks, News, OwnCheck, Totals};
use crate::model::{Snapshot, State};
use crate::state_store::{Kind, PastChecks};

mod checks;
mod commands;
mod dependency_watch;
mod hooks;
mod making;
mod notify;
mod publisher;
mod refused;
mod registration;
mod resume;
mod sockets;
mod work;

pub use commands::{Command, Reloading};
use dependency_watch::DependencyWatch;
pub use making::{Prepared, ServiceHandle, prepare};
pub use resume::{Making, Resumed, resume};

/// How many datagrams are read after a process has ended: its leftovers may send for ever.
const LAST_WORDS: usize = 64;
/// A start that takes longer (its disk is slow) gives its turn away.
const START_LIMIT: Duration = Duration::from_secs(1);

/// The outcome of a piece of work.
enum Outcome {
    Input(Input),
    /// It is its turn to start; with the gate to look at, unless the task has watched one.
    Turn(OwnedSemaphorePermit, Option<Box<All>>),
    /// Its sockets are there for this work, or why not.
    Sockets(Work, Result<Vec<OwnedFd>, RunnerError>),
    /// Prepared; what of the spec is not enforced on this host.
    Open(Vec<String>),
    Run(Box<Running>),
    /// The main process that the command of the run has left.
    Main(Box<Running>),
    /// The run has ended.
    Cleared(Result<StopReport, RunnerError>),
}

/// The next step of the loop.
enum Next {
    /// Go on with the same work.
    Same,
    /// Drop the work for this one; `true`: the spec is new, and so is the runner.
    Work(Work, bool),
    Leave,
}

struct Core {
    name: Arc<str>,
    spec: Arc<ServiceSpec>,
    new_spec: Option<Arc<ServiceSpec>>,
    group: Option<Arc<str>>,
    builtin: bool,
    service: ServiceState,
    host_context: Arc<HostContext>,
    mailbox: Mailbox<Command>,
    publisher: watch::Sender<Snapshot>,
    gate: Option<Box<All>>,
    sockets: Option<Box<HeldSockets>>,
    paths: Option<Box<HeldPaths>>,
    /// An operator demands its next run.
    demanded: bool,
    exit: Option<BoxFuture<'static, Exit>>,
    start_time: u64,
    notify_source: NotifySource,
    own_check: Option<Box<OwnCheck>>,
    /// The checks of the present run, while it is ready or was.
    checks: Option<Box<Checks>>,
    /// The watch over the services that it needs, by the rules of its spec.
    dependency_watch: Option<Box<DependencyWatch>>,
    /// The `postStart` hooks while they run, and the run whose they are or were.
    post_start: Option<BoxFuture<'static, Vec<String>>>,
    post_start_of: u64,
    /// Rings at the first of its deadlines.
    sleep: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
    status_text: Option<Arc<str>>,
    /// Of the run, where its network is not the host's.
    addresses: Box<[IpAddr]>,
    shown: State,
    spawned_after: Option<Duration>,
    up_after: Option<Duration>,
    start_took: Option<Duration>,
    /// The run of which that is.
    start_took_run: u64,
    totals: Arc<Totals>,
    /// Held while it prepares and spawns.
    permit: Option<OwnedSemaphorePermit>,
    /// Waits for it to come to rest.
    rested: Vec<mpsc::UnboundedSender<Arc<str>>>,
    /// The refusal of the run's MAINPID has been reported.
    main_pid_refused: bool,
    /// The results of its checks that an earlier incarnation of PID 1 recorded.
    past_checks: Option<Box<PastChecks>>,
    /// The results of its checks in an earlier incarnation of PID 1 count until there are some in this one.
    health_kept: bool,
    /// Of one that waits, or has waited, for it.
    registration: Option<Box<Confirmation>>,
    /// The contents of the record.
    recorded: Option<Place>,
    random: Random,
}

/// The registration of a run that is up but for it.
struct Confirmation {
    /// The run whose registration the store has confirmed; 0: none.
    confirmed: u64,
    /// Why it is not, as far as it is known.
    problem: Option<Arc<str>>,
}

/// The loop of the task: one piece of work after the other, each dropped when the next begins.
// Boxed: a future holds what it was given twice, once as argument and once as its own.
async fn drive(mut core: Box<Core>, mut runner: Box<dyn Runner>, mut work: Work) {
    loop {
        let mut doing = core.begin(work, &mut runner);
        let (next, adopted) = loop {
            let next = match core.happen(&mut doing).await {
                Occurrence::Outcome(outcome) => {
                    doing = None;
                    core.bring(*outcome)
                }
                occurrence => core.apply(occurrence),
            };
            match next {
                Next::Same => {}
                Next::Work(next, adopted) => break (next, adopted),
                Next::Leave => return,
            }
        };
        drop(doing);
        work = next;
        if adopted {
            runner = core.new_runner();
        }
    }
}

/// The next thing that concerns a service.
enum Occurrence {
    /// The work is done.
    Outcome(Box<Outcome>),
    Command(Command),
    Received(Received),
    Exit(Exit),
    Checked(Box<News>),
    /// The `postStart` hooks have run; the texts tell of those that failed.
    PostStart(Vec<String>),
    /// One that it needs and minds went down.
    Dependency(WhenDown, String),
    Gate,
    Time,
}

/// Ends as the future does; without one never. Cancelled by dropping; loses nothing then.
async fn end_of<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

impl Core {
    fn rules(&self) -> Rules {
        making::rules(&self.spec, self.own_check.is_some())
    }

    /// Of a spec that was just taken up: the old runner must not run what the spec does not say any more.
    fn new_runner(&self) -> Box<dyn Runner> {
        match self.host_context.runners.runner(&self.spec) {
            Ok(runner) => runner,
            Err(reason) => Box::new(refused::Refused(reason.to_string())),
        }
    }

    fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.host_context.origin)
    }

    /// A time since PID 1's start. `None`: never.
    fn instant(&self, at: Duration) -> Option<Instant> {
        self.host_context.origin.checked_add(at)
    }

    /// Waits for the next thing that concerns this service. Cancelled by dropping; loses nothing then.
    async fn happen(&mut self, doing: &mut Option<BoxFuture<'_, Outcome>>) -> Occurrence {
        self.arm();
        // Messages that a run sends before its spawn has been reported wait until then.
        let listening = !matches!(self.service.phase, Phase::Spawning { .. });
        let Core {
            mailbox,
            notify_source,
            exit,
            gate,
            sleep,
            checks,
            dependency_watch,
            post_start,
            service,
            ..
        } = self;
        let dependency_watch = dependency_watch.as_mut().filter(|_| service.active().is_some());
        tokio::select! {
            // In turns, so that no flood of one starves another.
            outcome = end_of(doing) => Occurrence::Outcome(Box::new(outcome)),
            command = mailbox.receive() => Occurrence::Command(command),
            received = notify_source.next(), if listening => Occurrence::Received(received),
            ended = end_of(exit) => {
                *exit = None;
                Occurrence::Exit(ended)
            }
            news = async { match checks { Some(checks) => checks.next().await, None => std::future::pending().await } } => {
                Occurrence::Checked(Box::new(news))
            }
            failures = end_of(post_start) => {
                *post_start = None;
                Occurrence::PostStart(failures)
            }
            (rule, text) = async { match dependency_watch { Some(dependency_watch) => dependency_watch.broken().await, None => std::future::pending().await } } => {
                Occurrence::Dependency(rule, text)
            }
            () = async { match gate { Some(gate) => gate.changed().await, None => std::future::pending().await } } => Occurrence::Gate,
            () = end_of(sleep) => Occurrence::Time,
        }
    }

    /// Sets the alarm for the next of the clocks.
    fn arm(&mut self) {
        let first = self.service.deadlines().map(|(_, at)| at).min();
        match (first.and_then(|first| self.instant(first)), &mut self.sleep) {
            (None, sleep) => *sleep = None,
            (Some(deadline), Some(sleep)) if sleep.deadline() != deadline => sleep.as_mut().reset(deadline),
            (Some(_), Some(_)) => {}
            (Some(deadline), sleep) => *sleep = Some(Box::pin(tokio::time::sleep_until(deadline))),
        }
    }

    fn apply(&mut self, occurrence: Occurrence) -> Next {
        match occurrence {
            Occurrence::Outcome(outcome) => self.bring(*outcome),
            Occurrence::Command(command) => self.command(command),
            Occurrence::Received(received) => self.hear(received),
            Occurrence::Exit(exit) => {
                // Its messages before its end come before its end.
                for _ in 0..LAST_WORDS {
                    let Some(received) = self.notify_source.next_now() else { break };
                    let closed = received == Received::Closed;
                    if !closed && let next @ Next::Work(..) = self.hear(received) {
                        // Put back what has not been dealt with.
                        self.exit = Some(Box::pin(std::future::ready(exit)));
                        return next;
                    }
                    if closed {
                        break;
                    }
                }
                self.step(Input::Exited { run: self.service.run, exit })
            }
            Occurrence::Checked(news) => self.checked(*news),
            Occurrence::PostStart(failures) => {
                failures.iter().for_each(|text| self.note(text));
                Next::Same
            }
            Occurrence::Dependency(rule, text) => {
                self.dependency_watch = None;
                self.step(Input::Report(self.service.run, Report::DependencyDown { rule, text }))
            }
            Occurrence::Gate => {
                let input = self.look_at_gate();
                self.step(input)
            }
            Occurrence::Time => self.times_up(),
        }
    }

    /// The clocks that have run out.
    fn times_up(&mut self) -> Next {
        self.sleep = None;
        let now = self.now();
        let passed = self.service.deadlines().find(|(_, at)| *at <= now);
        passed.map_or(Next::Same, |(timer, _)| self.step(Input::Timer(timer)))
    }

    fn step(&mut self, input: Input) -> Next {
        self.step_answer(input).0
    }

    /// Steps the table, and again with what its effects bring at once.
    fn step_answer(&mut self, input: Input) -> (Next, Option<Answer>) {
        let mut inputs = VecDeque::from([input]);
        let mut answer = None;
        let mut work = None;
        let mut adopted = false;
        while let Some(input) = inputs.pop_front() {
            let (now, chance) = (self.now(), self.random.draw());
            let step = self.service.step(&self.rules(), input, now, chance);
            if step.answer.is_some() {
                answer = step.answer;
            }
            for effect in step.effects {
                match effect {
                    Effect::Tell => self.tell(),
                    Effect::Publish => self.publish(),
                    Effect::Record => self.record(),
                    Effect::Note(text) => self.note(&text),
                    Effect::Work(next) => work = Some(next),
                    Effect::AskGate => {
                        if self.gate.is_none() {
                            self.gate = Some(self.new_gate());
                        }
                        inputs.push_back(self.look_at_gate());
                    }
                    Effect::DropGate => (self.gate, self.demanded) = (None, false),
                    Effect::Demand => (self.gate, self.demanded) = (None, true),
                    Effect::Adopt => {
                        if let Some(spec) = self.new_spec.take() {
                            self.write_down(Kind::Spec, &spec);
                            self.discard_next_spec();
                            self.group = spec.group.as_deref().map(Arc::from);
                            self.spec = spec;
                            self.own_check = self.host_context.runners.own_check(&self.spec).map(Box::new);
                            self.gate = None;
                            adopted = true;
                        }
                    }
                    Effect::Rested => self.say_rested(),
                    Effect::AskGroup { text, after } => self.ask_group(text, after),
                }
            }
            inputs.extend(self.mind_checks());
            self.mind_hooks();
        }
        if self.service.pid().is_none() && !matches!(self.service.phase, Phase::Spawning { .. }) {
            self.notify_source = NotifySource::Silent;
        }
        if matches!(self.service.phase, Phase::Rest(_)) {
            self.sockets = None;
        }
        if self.recorded != Some(self.service.place()) {
            self.record();
        }
        let next = match work {
            Some(work) => Next::Work(work, adopted),
            None if adopted => Next::Work(Work::None, true),
            None => Next::Same,
        };
        (next, answer)
    }

    /// The whole group is to be restarted. Only a member is asked to say so.
    fn ask_group(&self, text: String, after: Duration) {
        if let Some(group) = &self.group {
            let (group, member) = (Arc::clone(group), Some(Arc::clone(&self.name)));
            self.host_context.groups.ask(GroupRequest { group, member, text, after, begun: false });
        }
    }

    fn say_rested(&mut self) {
        for rested in self.rested.drain(..) {
            // The waiter may be gone.
            let _ = rested.send(Arc::clone(&self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    /// A thousand services wait most of the time: what one of them holds then is bounded.
    #[test]
    fn a_service_at_rest_is_small() {
        fn size<F>(_: fn(Box<super::Core>, Box<dyn kelson_runner::Runner>, super::Work) -> F) -> usize {
            std::mem::size_of::<F>()
        }
        let (task, core) = (size(super::drive), std::mem::size_of::<super::Core>());
        // Up to 744 bytes take the same room of the heap.
        assert!(task <= 744 && core <= 744, "task {task}, core {core}");
    }
}
