//! The plugins and the claims of all services, as `kelson-volumes` is to know them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kelson_helper::supervisor::Status;
use kelson_proto::v1::volume_action::Action;
use kelson_proto::v1::{Volume, VolumeActionDone, VolumePlugin, VolumeProvider, VolumeStep, VolumeUse};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::failures::Failures;
use crate::model::{Details, since_boot};

/// The plugins of the host, by the paths of their sockets.
pub type Plugins = BTreeMap<String, VolumePlugin>;
/// The outcome of a claim or of a release.
pub type Claimed = Result<(), Vec<VolumeStep>>;

/// What is asked of the driver.
pub enum Command {
    Arrange(Plugins),
    Claim {
        service: Arc<str>,
        uses: Vec<VolumeUse>,
        done: Option<oneshot::Sender<Claimed>>,
    },
    Release {
        service: Arc<str>,
        done: oneshot::Sender<Claimed>,
    },
    /// Its release takes long.
    Late(Arc<str>),
    /// With statistics, if there are times for them.
    List(Option<Times>, oneshot::Sender<Vec<Volume>>),
    Providers(oneshot::Sender<Vec<VolumeProvider>>),
    Act {
        action: Action,
        done: oneshot::Sender<VolumeActionDone>,
    },
    Restart,
    Shutdown {
        deadline: Instant,
        done: oneshot::Sender<()>,
    },
}

/// How long an answer about statistics may take, and how old what it says may be, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub within: u32,
    pub age: u32,
}

/// Something that an operator should know.
pub struct Report {
    /// `None`: of the helper itself.
    pub service: Option<Arc<str>>,
    pub message: String,
    pub details: Details,
}

/// The helper as the built-in service `volumes` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumesStatus {
    pub helper: Status,
    /// There are plugins or claims, or something is not undone.
    pub wanted: bool,
    pub closing: bool,
}

/// What the helper is to know, and who waits for it.
pub struct Claims {
    pub(super) plugins: Plugins,
    pub(super) claims: BTreeMap<Arc<str>, Claim>,
    /// No claim is missing here that an earlier incarnation of PID 1 has made.
    pub(super) is_complete: bool,
    /// Of the last claim or question.
    number: u64,
    pub(super) questions: BTreeMap<u64, Question>,
    /// The helper has something to undo, or may have.
    pub(super) is_left: bool,
    was_wanted: bool,
    pub(super) publish: watch::Sender<VolumesStatus>,
    reports: mpsc::Sender<Report>,
    failures: Failures,
}

/// What one service needs.
pub(super) struct Claim {
    pub(super) number: u64,
    pub(super) uses: Vec<VolumeUse>,
    pub(super) phase: Phase,
    /// They wait for the end of this phase.
    waiting: Vec<oneshot::Sender<Claimed>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Claiming,
    Claimed,
    Releasing,
}

/// An answer that comes in parts.
pub(super) enum Question {
    /// With statistics, if there are times for them.
    List(Option<Times>, Vec<Volume>, oneshot::Sender<Vec<Volume>>),
    Providers(Vec<VolumeProvider>, oneshot::Sender<Vec<VolumeProvider>>),
    Action(Action, oneshot::Sender<VolumeActionDone>),
}

/// What the helper is to know. It becomes a message when it is sent, by what is true then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    Plugin(String),
    WithoutPlugin(String),
    Claim(Arc<str>),
    Complete,
    Question(u64),
}

impl Claims {
    pub fn new(
        is_left: bool,
        publish: watch::Sender<VolumesStatus>,
        reports: mpsc::Sender<Report>,
        failures: Failures,
    ) -> Claims {
        // Numbers of earlier incarnations are lower: none of them counted a claim for each microsecond.
        Claims {
            plugins: Plugins::new(),
            claims: BTreeMap::new(),
            is_complete: false,
            number: u64::try_from(since_boot().as_micros()).unwrap_or_default(),
            questions: BTreeMap::new(),
            is_left,
            was_wanted: false,
            publish,
            reports,
            failures,
        }
    }

    fn next_number(&mut self) -> u64 {
        self.number = self.number.saturating_add(1);
        self.number
    }

    /// Takes up a request, and returns what a running helper has to be sent for it.
    pub fn take(&mut self, command: Command) -> Vec<Outgoing> {
        match command {
            Command::Arrange(plugins) => self.arrange(plugins),
            Command::Claim { service, uses, done } => self.claim(service, uses, done),
            Command::Release { service, done } => self.release(service, done),
            Command::Late(service) => {
                self.report_late(&service);
                Vec::new()
            }
            Command::List(times, done) => self.question(Question::List(times, Vec::new(), done)),
            Command::Providers(done) => self.question(Question::Providers(Vec::new(), done)),
            Command::Act { action, done } => self.question(Question::Action(action, done)),
            Command::Restart | Command::Shutdown { .. } => Vec::new(),
        }
    }

    fn arrange(&mut self, plugins: Plugins) -> Vec<Outgoing> {
        let before = std::mem::replace(&mut self.plugins, plugins);
        let gone = before.keys().filter(|socket| !self.plugins.contains_key(*socket));
        let mut outgoing: Vec<Outgoing> = gone.cloned().map(Outgoing::WithoutPlugin).collect();
        let new = self.plugins.iter().filter(|(socket, plugin)| before.get(*socket) != Some(plugin));
        outgoing.extend(new.map(|(socket, _)| Outgoing::Plugin(socket.clone())));
        if !std::mem::replace(&mut self.is_complete, true) {
            outgoing.push(Outgoing::Complete);
        }
        outgoing
    }

    fn claim(
        &mut self,
        service: Arc<str>,
        uses: Vec<VolumeUse>,
        done: Option<oneshot::Sender<Claimed>>,
    ) -> Vec<Outgoing> {
        if let Some(claim) = self.claims.get_mut(&service).filter(|claim| claim.uses == uses) {
            match claim.phase {
                Phase::Claimed => {
                    let _ = done.map(|done| done.send(Ok(())));
                    return Vec::new();
                }
                Phase::Claiming => {
                    claim.waiting.extend(done);
                    return Vec::new();
                }
                Phase::Releasing => {}
            }
        }
        let number = self.next_number();
        // An earlier claim of the service is over, and so is the wait for it.
        let claim = Claim { number, uses, phase: Phase::Claiming, waiting: done.into_iter().collect() };
        self.claims.insert(Arc::clone(&service), claim);
        vec![Outgoing::Claim(service)]
    }

    fn release(&mut self, service: Arc<str>, done: oneshot::Sender<Claimed>) -> Vec<Outgoing> {
        let Some(claim) = self.claims.get_mut(&service) else {
            let _ = done.send(Ok(()));
            return Vec::new();
        };
        let is_new = std::mem::replace(&mut claim.phase, Phase::Releasing) != Phase::Releasing;
        if is_new {
            claim.waiting.clear();
        }
        claim.waiting.push(done);
        is_new.then_some(Outgoing::Claim(service)).into_iter().collect()
    }

    fn question(&mut self, question: Question) -> Vec<Outgoing> {
        if !self.is_wanted() {
            question.answer();
            return Vec::new();
        }
        let number = self.next_number();
        self.questions.insert(number, question);
        vec![Outgoing::Question(number)]
    }

    fn is_wanted(&self) -> bool {
        // Only once all claims are known: a helper that knows of none undoes what it has.
        !self.plugins.is_empty() || !self.claims.is_empty() || (self.is_left && self.is_complete)
    }

    /// Whether there is something to do by now; `None`: as before.
    pub fn became_wanted(&mut self) -> Option<bool> {
        let is_wanted = self.is_wanted();
        if std::mem::replace(&mut self.was_wanted, is_wanted) == is_wanted {
            return None;
        }
        self.publish.send_modify(|status| status.wanted = is_wanted);
        Some(is_wanted)
    }

    /// The host stops, and all services have.
    pub fn close(&mut self) {
        self.claims.clear();
        self.questions.clear();
        self.is_left = false;
        self.publish.send_modify(|status| status.closing = true);
    }

    /// `service`: empty where it is of none.
    pub(super) fn report(&self, service: &str, message: String, details: Details) {
        let service = (!service.is_empty()).then(|| Arc::from(service));
        // The receiver is slow or gone; the failure is in the answer to the claim too.
        let _ = self.reports.try_send(Report { service, message, details });
    }

    /// Counts a step that failed.
    pub(super) fn count(&self, step: &VolumeStep) {
        if !step.failure.is_empty() {
            self.failures.add(&step.plugin, &step.step);
        }
    }

    fn report_late(&self, service: &str) {
        let Some(claim) = self.claims.get(service) else { return };
        let volumes = claim.uses.iter().map(|one| format!("{} of plugin {}", one.name, one.plugin));
        let volumes: Vec<String> = volumes.collect();
        self.report(service, format!("waits for the release of the volumes {}", volumes.join(", ")), None);
    }

    pub(super) fn claimed(
        &mut self,
        service: &str,
        number: u64,
        failures: Vec<VolumeStep>,
    ) -> Option<Outgoing> {
        let claim = self.claims.get_mut(service)?;
        if claim.number != number || claim.phase != Phase::Claiming {
            return None;
        }
        let failed = !failures.is_empty();
        // The helper has undone a claim that failed; it answers a release at once.
        claim.phase = if failed { Phase::Releasing } else { Phase::Claimed };
        for done in std::mem::take(&mut claim.waiting) {
            let _ = done.send(if failed { Err(failures.clone()) } else { Ok(()) });
        }
        failed.then(|| Outgoing::Claim(Arc::from(service)))
    }

    pub(super) fn released(&mut self, service: &str, number: u64, failures: &[VolumeStep]) {
        let is_it = |claim: &Claim| claim.number == number && claim.phase == Phase::Releasing;
        if !self.claims.get(service).is_some_and(is_it) {
            return;
        }
        for done in self.claims.remove(service).into_iter().flat_map(|claim| claim.waiting) {
            let _ = done.send(if failures.is_empty() { Ok(()) } else { Err(failures.to_vec()) });
        }
    }

    pub(super) fn answered(&mut self, number: u64, part: impl FnOnce(&mut Question), more: bool) {
        if let Some(question) = self.questions.get_mut(&number) {
            part(question);
        }
        if !more && let Some(question) = self.questions.remove(&number) {
            question.answer();
        }
    }
}

impl Question {
    fn answer(self) {
        // The one who asked may be gone.
        match self {
            Question::List(_, volumes, done) => _ = done.send(volumes),
            Question::Providers(providers, done) => _ = done.send(providers),
            // It fails for the one who waits.
            Question::Action(..) => {}
        }
    }
}
