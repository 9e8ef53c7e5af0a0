//! Connects the [`Core`] with a [`World`]: performs its actions side by side, and reports to PID 1.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use kelson_helper::supervisor;
use kelson_proto::v1::volumes_command::Command;
use kelson_proto::v1::volumes_report::Report;
use kelson_proto::v1::{
    VolumeAction, VolumeActionDone, VolumeClaim, VolumePlugin, VolumeProvider, VolumeProvidersList,
    VolumeStatistics, VolumeStatisticsQuestion,
};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::action::about;
use crate::core::{Action, Core, parts};
use crate::gauges::Gauges;
use crate::job::{Cancelled, Outcome, World};
use crate::usage::Use;

/// What a task gives.
enum Ended {
    Step(String, Outcome),
    Providers(u64, Vec<VolumeProvider>),
    Action(VolumeActionDone),
    Statistics(String, Vec<(String, VolumeStatistics)>),
}

/// Volumes of which plugins are asked how full they are. Each plugin has its part of them, so that one that hangs takes
/// nothing from the others.
const MEASURED_AT_ONCE: usize = 100;

pub struct Engine {
    world: Arc<dyn World>,
    core: Core,
    gauges: Gauges,
    /// Whether PID 1 has sent it since it last began to send all.
    plugins: Vec<(VolumePlugin, bool)>,
    tasks: JoinSet<Ended>,
    /// For each volume with a step under way: dropped, the step ends.
    wanted: HashMap<String, oneshot::Sender<()>>,
    reports: VecDeque<Report>,
    /// What PID 1 knows of it.
    left: Option<bool>,
}

impl Engine {
    pub fn new(world: Arc<dyn World>, core: Core) -> Engine {
        Engine {
            world,
            core,
            gauges: Gauges::default(),
            plugins: Vec::new(),
            tasks: JoinSet::new(),
            wanted: HashMap::new(),
            reports: VecDeque::new(),
            left: None,
        }
    }

    /// The next message to PID 1.
    pub fn report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Takes a message of PID 1.
    pub fn command(&mut self, command: Command) {
        let now = Instant::now();
        match command {
            Command::Ping(ping) => self.reports.push_back(Report::Pong(supervisor::pong(&ping))),
            Command::Plugin(plugin) => self.plugin(plugin),
            Command::WithoutPlugin(socket) => self.keep_plugins(|plugin, _| plugin.socket != socket),
            Command::Claim(claim) => self.claim(claim, now),
            Command::Release(claim) => {
                let uses = claim.volumes.into_iter().flat_map(Use::new).collect();
                self.core.release((claim.service, claim.number), uses, now);
            }
            Command::Complete(false) => {
                self.plugins.iter_mut().for_each(|(_, sent)| *sent = false);
                self.core.resend();
            }
            Command::Complete(true) => {
                self.keep_plugins(|_, sent| sent);
                self.plugins.iter_mut().for_each(|(_, sent)| *sent = false);
                self.core.complete(now);
            }
            Command::List(number) => self.reports.extend(self.core.list(number, now, |_| None)),
            Command::Providers(number) => {
                let providers = self.world.providers();
                self.tasks.spawn(async move { Ended::Providers(number, providers.await) });
            }
            Command::Action(action) => self.act_on(action),
            Command::Statistics(question) => self.measure(&question, now),
            Command::Stop(_) => {}
        }
        self.act();
    }

    fn act_on(&mut self, action: VolumeAction) {
        let in_use = action.action.as_ref().map(|action| self.core.in_use(about(action).0));
        let acting = self.world.act(action, in_use.unwrap_or_default());
        self.tasks.spawn(async move { Ended::Action(acting.await) });
    }

    fn measure(&mut self, question: &VolumeStatisticsQuestion, now: Instant) {
        let subjects = self.gauges.ask(question, self.core.subjects(), now);
        let at_once = MEASURED_AT_ONCE.checked_div(subjects.len()).unwrap_or(1);
        for (plugin, subjects) in subjects {
            let measured = self.world.statistics(plugin.clone(), subjects, at_once);
            self.tasks.spawn(async move { Ended::Statistics(plugin, measured.await) });
        }
        self.answer_measured(now);
    }

    fn answer_measured(&mut self, now: Instant) {
        for number in self.gauges.due(now) {
            self.reports.extend(self.core.list(number, now, |volume| self.gauges.of(volume)));
        }
    }

    fn plugin(&mut self, plugin: VolumePlugin) {
        match self.plugins.iter_mut().find(|(one, _)| one.socket == plugin.socket) {
            Some((one, sent)) if *one == plugin => {
                *sent = true;
                return;
            }
            Some(one) => *one = (plugin.clone(), true),
            None => self.plugins.push((plugin.clone(), true)),
        }
        self.set_plugins();
        self.core.plugin_changed(&plugin.id);
    }

    fn keep_plugins(&mut self, keeps: impl Fn(&VolumePlugin, bool) -> bool) {
        let before = self.plugins.len();
        self.plugins.retain(|(plugin, sent)| keeps(plugin, *sent));
        if self.plugins.len() < before {
            self.set_plugins();
        }
    }

    fn set_plugins(&self) {
        self.world.set_plugins(self.plugins.iter().map(|(plugin, _)| plugin.clone()).collect());
    }

    fn claim(&mut self, claim: VolumeClaim, now: Instant) {
        let key = (claim.service, claim.number);
        let mut uses = Vec::new();
        for one in claim.volumes {
            let volume = one.volume.clone();
            match Use::new(one) {
                Ok(one) => uses.push(one),
                Err(error) => return self.core.refuse(&key, &volume, error),
            }
        }
        self.core.claim(key, uses, now);
    }

    /// Waits for the end of a step, or for a time that has come. Without a loss when it is dropped.
    pub async fn wait(&mut self) {
        let wake = self.core.wake().into_iter().chain(self.gauges.wake()).min();
        let tick = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ended) = self.tasks.join_next() => {
                // A task that panicked has ended this process, except in tests.
                if let Ok(ended) = ended {
                    self.ended(ended);
                }
            }
            () = tick => {}
        }
        self.answer_measured(Instant::now());
        self.act();
    }

    fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Step(volume, outcome) => {
                self.wanted.remove(&volume);
                self.core.done(&volume, outcome, Instant::now());
            }
            Ended::Statistics(plugin, found) => self.gauges.answered(&plugin, found, Instant::now()),
            Ended::Action(done) => self.reports.push_back(Report::Done(done)),
            Ended::Providers(number, providers) => {
                self.reports.extend(parts(providers.into_iter(), |providers, more| {
                    Report::Providers(VolumeProvidersList { number, providers, more })
                }));
            }
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.core.action(Instant::now()) {
            match action {
                Action::Perform(job) => {
                    let (wanted, cancelled) = oneshot::channel();
                    let volume = job.volume.clone();
                    self.wanted.insert(volume.clone(), wanted);
                    let performed = self.world.perform(job, Cancelled(cancelled));
                    self.tasks.spawn(async move { Ended::Step(volume, performed.await) });
                }
                Action::Cancel(volume) => drop(self.wanted.remove(&volume)),
                Action::Report(report) => self.reports.push_back(report),
            }
        }
        let left = self.core.is_left();
        if self.left.replace(left) != Some(left) {
            self.reports.push_back(Report::Left(left));
        }
    }
}
