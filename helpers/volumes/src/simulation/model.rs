//! A host with a plugin that does wrong what a plugin may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kelson_helper::BoxFuture;
use kelson_proto::v1::{VolumeAction, VolumeActionDone, VolumePlugin, VolumeProvider, VolumeStatistics};
use kelson_spec::volume_file::VolumeFile;
use kelson_tests::dice::Dice;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::job::{Cancelled, Facts, Failure, InUse, Job, Outcome, Step, Subject, World};
use crate::path::HostPath;
use crate::record::Record;

pub const FOLDER: &str = "/run/kelson/csi/p";

/// Its clones are the same.
#[derive(Clone)]
pub struct Model(Arc<Mutex<State>>);

struct State {
    dice: Dice,
    /// Nothing goes wrong.
    calm: bool,
    boot: u64,
    /// Of the plugin: an end of it ends its calls.
    generation: u64,
    absent: Option<Instant>,
    records: BTreeMap<String, Record>,
    /// The volume at each place.
    staged: BTreeMap<HostPath, String>,
    published: BTreeMap<HostPath, (String, Option<HostPath>)>,
    attached: BTreeSet<String>,
    /// Volumes with a call under way: a plugin refuses another one.
    pending: BTreeSet<String>,
    /// Targets that a service uses.
    needed: BTreeSet<HostPath>,
    violations: Vec<String>,
}

type Effect = Box<dyn FnOnce(&mut State) -> Result<(), Failure> + Send>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Works,
    /// It ends after the effect, without an answer.
    DiesAfter,
    DiesBefore,
    HangsAfter,
    HangsBefore,
    Unavailable,
    /// A wrong code: it has done it.
    UnavailableAfter,
    Final,
}

impl Model {
    pub fn new(seed: u64) -> Model {
        Model(Arc::new(Mutex::new(State {
            dice: Dice::new(seed ^ 0x5eed),
            calm: false,
            boot: 0,
            generation: 0,
            absent: None,
            records: BTreeMap::new(),
            staged: BTreeMap::new(),
            published: BTreeMap::new(),
            attached: BTreeSet::new(),
            pending: BTreeSet::new(),
            needed: BTreeSet::new(),
            violations: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn records(&self) -> BTreeMap<String, Record> {
        self.lock().records.clone()
    }

    pub fn boot(&self) -> String {
        self.lock().boot.to_string()
    }

    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// The targets that services use from now on.
    pub fn need(&self, needed: BTreeSet<HostPath>) {
        let mut state = self.lock();
        let missing: Vec<String> = needed
            .iter()
            .filter(|target| !state.published.contains_key(target))
            .map(ToString::to_string)
            .collect();
        state
            .violations
            .extend(missing.into_iter().map(|target| format!("{target} is claimed, and not there")));
        state.needed = needed;
    }

    pub fn calm(&self) {
        let mut state = self.lock();
        (state.calm, state.absent) = (true, None);
    }

    /// The plugin ends, and loses what it has not published.
    pub fn end_plugin(&self) {
        let mut state = self.lock();
        if !state.calm {
            state.die();
            if state.dice.once_in(2) {
                let used: BTreeSet<HostPath> =
                    state.published.values().filter_map(|(_, stage)| stage.clone()).collect();
                state.staged.retain(|stage, _| used.contains(stage));
            }
        }
    }

    pub fn reboot(&self) {
        let mut state = self.lock();
        state.boot += 1;
        state.generation += 1;
        state.pending.clear();
        state.staged.clear();
        state.published.clear();
    }

    /// What is there and is not needed, and what is missing.
    pub fn left(&self, needed: &BTreeSet<HostPath>) -> Vec<String> {
        let state = self.lock();
        let mut left = Vec::new();
        let published: BTreeSet<HostPath> = state.published.keys().cloned().collect();
        left.extend(published.symmetric_difference(needed).map(|target| format!("published: {target}")));
        let volumes: BTreeSet<String> = state.published.values().map(|(volume, _)| volume.clone()).collect();
        // Where the plugin says that it stages no more, the stage of a volume goes with its last service.
        let unused = |(stage, volume): (&HostPath, &String)| {
            (!volumes.contains(volume)).then(|| format!("staged: {stage}"))
        };
        left.extend(state.staged.iter().filter_map(unused));
        left.extend(state.attached.difference(&volumes).map(|volume| format!("attached: {volume}")));
        let recorded: BTreeSet<String> = state.records.keys().cloned().collect();
        left.extend(recorded.symmetric_difference(&volumes).map(|volume| format!("record: {volume}")));
        left
    }

    fn pause(&self, most: u64) -> Duration {
        self.lock().dice.millis(most)
    }

    async fn step(&self, volume: String, step: Step) -> Outcome {
        let place = |path: &HostPath| path.clone();
        let effect: Effect = match step {
            Step::Look => return self.look(&volume).await,
            Step::Verify(place) => {
                sleep(self.pause(20)).await;
                return Outcome::Present(self.lock().published.contains_key(&place.target));
            }
            Step::Record => return Outcome::Done { note: None },
            Step::Attach { .. } => {
                let name = volume.clone();
                let effect = move |state: &mut State| {
                    state.attached.insert(name);
                    Ok(())
                };
                return match self.call(volume, Box::new(effect)).await {
                    Ok(()) => Outcome::Attached(BTreeMap::new()),
                    Err(failure) => Outcome::Failed(failure),
                };
            }
            Step::Stage { stage, .. } => {
                let (name, stage) = (volume.clone(), place(&stage));
                Box::new(move |state| {
                    state.staged.insert(stage, name);
                    Ok(())
                })
            }
            Step::Publish { stage, place, .. } => {
                let name = volume.clone();
                Box::new(move |state| state.publish(name, stage, place.target))
            }
            Step::Unpublish { place, .. } => {
                let name = volume.clone();
                Box::new(move |state| state.unpublish(&name, &place.target))
            }
            Step::Unstage { stage, .. } => Box::new(move |state| state.unstage(&stage)),
            Step::Detach { .. } => {
                let name = volume.clone();
                Box::new(move |state| state.detach(&name))
            }
        };
        match self.call(volume, effect).await {
            Ok(()) => Outcome::Done { note: None },
            Err(failure) => Outcome::Failed(failure),
        }
    }

    async fn look(&self, volume: &str) -> Outcome {
        sleep(self.pause(50)).await;
        let mut state = self.lock();
        if state.is_absent() {
            return Outcome::Failed(Failure::before("connection refused"));
        }
        let calm = state.calm;
        let mut goes_wrong = |times| !calm && state.dice.once_in(times);
        if goes_wrong(60) {
            return Outcome::Failed(Failure::before("its file has a mistake").last());
        }
        let file = VolumeFile {
            name: volume.to_owned(),
            plugin: "p".to_owned(),
            id: format!("id-{volume}"),
            ..VolumeFile::default()
        };
        // They change now and then.
        let stages = volume != "volume-0" && !goes_wrong(20);
        let attaches = (volume == "volume-1" || volume == "volume-2") && !goes_wrong(20);
        let node = attaches.then(|| "node".to_owned());
        Outcome::Looked(Facts { file, folder: HostPath::new(FOLDER), stages, node })
    }

    /// A call of the plugin, which continues there when nobody waits for it any more.
    async fn call(&self, volume: String, effect: Effect) -> Result<(), Failure> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.is_absent() {
                return Err(Failure::before("connection refused"));
            }
            if !state.pending.insert(volume.clone()) {
                return Err(Failure::after("ABORTED"));
            }
            let (fate, generation) = (state.fate(), state.generation);
            let latency = match fate {
                Fate::HangsAfter | Fate::HangsBefore => state.dice.millis(200_000),
                _ => state.dice.millis(400),
            };
            let model = self.clone();
            tokio::spawn(async move {
                sleep(latency).await;
                let mut state = model.lock();
                if state.generation != generation {
                    return;
                }
                state.pending.remove(&volume);
                let result = match fate {
                    Fate::Works => effect(&mut state),
                    Fate::HangsAfter => effect(&mut state),
                    Fate::HangsBefore => return,
                    Fate::DiesBefore => return state.die(),
                    Fate::DiesAfter => {
                        let _ = effect(&mut state);
                        return state.die();
                    }
                    Fate::Unavailable => Err(Failure::after("UNAVAILABLE")),
                    Fate::UnavailableAfter => {
                        let _ = effect(&mut state);
                        Err(Failure::after("UNAVAILABLE"))
                    }
                    Fate::Final => Err(Failure::after("INVALID_ARGUMENT").last()),
                };
                drop(state);
                let _ = answer.send(result);
            });
        }
        match timeout(Duration::from_secs(30), answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Failure::after("the connection broke")),
            Err(_) => Err(Failure::after("no answer within 30 s")),
        }
    }
}

impl State {
    fn fate(&mut self) -> Fate {
        if self.calm {
            return Fate::Works;
        }
        match self.dice.below(40) {
            0 => Fate::DiesAfter,
            1 => Fate::DiesBefore,
            2 => Fate::HangsAfter,
            3 => Fate::HangsBefore,
            4 | 5 => Fate::Unavailable,
            6 => Fate::UnavailableAfter,
            7 => Fate::Final,
            _ => Fate::Works,
        }
    }

    fn die(&mut self) {
        self.generation += 1;
        self.pending.clear();
        let away = match self.dice.below(4) {
            0 => 600_000,
            _ => 5000,
        };
        self.absent = (!self.calm).then(|| Instant::now() + self.dice.millis(away));
    }

    fn is_absent(&self) -> bool {
        self.absent.is_some_and(|until| until > Instant::now())
    }

    fn wrong(&mut self, text: String) {
        self.violations.push(text);
    }

    fn publish(&mut self, volume: String, stage: Option<HostPath>, target: HostPath) -> Result<(), Failure> {
        if let Some(stage) = &stage
            && self.staged.get(stage) != Some(&volume)
        {
            let failure = Failure::after("FAILED_PRECONDITION");
            return Err(Failure { unstaged: true, ..failure });
        }
        if let Some((other, _)) = self.published.get(&target)
            && *other != volume
        {
            self.wrong(format!("{volume} is published over {other} at {target}"));
        }
        self.published.entry(target).or_insert((volume, stage));
        Ok(())
    }

    fn unpublish(&mut self, volume: &str, target: &HostPath) -> Result<(), Failure> {
        if self.needed.contains(target) {
            self.wrong(format!("{target} is claimed, and unpublished"));
        }
        if let Some((other, _)) = self.published.get(target)
            && other != volume
        {
            self.wrong(format!("{target} has {other}, and {volume} is unpublished there"));
        }
        self.published.remove(target);
        Ok(())
    }

    fn unstage(&mut self, stage: &HostPath) -> Result<(), Failure> {
        if self.published.values().any(|(_, from)| from.as_ref() == Some(stage)) {
            self.wrong(format!("{stage} is unstaged, and published from"));
        }
        self.staged.remove(stage);
        Ok(())
    }

    fn detach(&mut self, volume: &str) -> Result<(), Failure> {
        let is_its = |other: &String| other == volume;
        if self.staged.values().any(is_its) || self.published.values().any(|(other, _)| is_its(other)) {
            self.wrong(format!("{volume} is detached, and in use"));
        }
        self.attached.remove(volume);
        Ok(())
    }
}

impl World for Model {
    fn set_plugins(&self, _: Vec<VolumePlugin>) {}

    fn perform(&self, job: Job, cancelled: Cancelled) -> BoxFuture<'static, Outcome> {
        let model = self.clone();
        Box::pin(async move {
            if let Some(record) = job.record {
                sleep(model.pause(10)).await;
                {
                    let mut state = model.lock();
                    if !state.calm && state.dice.once_in(100) {
                        return Outcome::Failed(Failure::before("no space left on device").of("record"));
                    }
                    match record.is_empty() {
                        true => drop(state.records.remove(&job.volume)),
                        false => drop(state.records.insert(job.volume.clone(), record)),
                    }
                }
                sleep(model.pause(10)).await;
            }
            tokio::select! {
                biased;
                outcome = model.step(job.volume, job.step) => outcome,
                () = cancelled.wait() => Outcome::Failed(Failure::after("its claim was given up")),
            }
        })
    }

    fn act(&self, _: VolumeAction, _: InUse) -> BoxFuture<'static, VolumeActionDone> {
        Box::pin(async { VolumeActionDone::default() })
    }

    fn providers(&self) -> BoxFuture<'static, Vec<VolumeProvider>> {
        Box::pin(async { Vec::new() })
    }

    fn statistics(
        &self,
        _: String,
        _: Vec<Subject>,
        _: usize,
    ) -> BoxFuture<'static, Vec<(String, VolumeStatistics)>> {
        Box::pin(async { Vec::new() })
    }
}
