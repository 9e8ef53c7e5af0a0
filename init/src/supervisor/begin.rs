//! The first incarnation of PID 1: the host boots.

use std::path::Path;
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_services::state_store::Kind;
use kelson_spec::features::OWN;
use kelson_spec::sources::SourcesSpec;
use kelson_spec::{Diagnostic, Feature, Loaded};
use tokio::sync::mpsc;

use super::environment::Environment;
use super::incarnation::Incarnation;
use super::launchers::Personalities;
use super::opening::{make_notify_directory, notify_directory};
use super::serve::{Ended, serve};
use crate::boot::absent::Absent;
use crate::boot::{self, BootFailure, Phase, sources};
use crate::error::Result;
use crate::options::{Mode, RuntimePlace};
use crate::signals::Signal;

impl Incarnation {
    pub(super) async fn begin(self, signals: mpsc::Receiver<Signal>) -> Result<Ended> {
        let options = &self.options;
        // The kernel's file systems are mounted by children that have no cgroup yet: cgroup2 is one of those.
        let early = self.personalities(None, None)?;
        self.reaper.set(&early.processes, None);
        let phases = match options.mode {
            Mode::Machine => boot::machine::early(options, early.tasks()),
            Mode::Container => boot::container::early(options),
        };
        let mut failure = self.boot(phases).await;
        drop(early);

        let has_folder = options.runtime_place != RuntimePlace::Nowhere;
        let mut environment = Environment::lay(has_folder.then_some(&options.runtime_dir));
        let cgroups = environment.cgroups();
        let personalities = self.personalities(cgroups, environment.store.as_ref())?;
        self.reaper.set(&personalities.processes, environment.store.as_ref());
        let mut loaded = tokio::select! {
            loaded = self.load(&personalities, true) => loaded,
            _ = self.intents.asked() => Loaded::default(),
        };
        if failure.is_none() && options.mode == Mode::Machine && self.intents.current().is_none() {
            let (tasks, absent) = (personalities.tasks(), Absent::new(self.sequence.sender()));
            failure = self.collect(&personalities, &tasks, &mut loaded, None).await;
            let watchdog =
                environment.watchdog.task(loaded.machine.watchdog.clone(), environment.store.clone());
            if failure.is_none() {
                let disks = boot::machine::disks(options, &loaded.machine, &tasks, &absent, watchdog);
                failure = self.boot(disks).await;
            }
            if failure.is_none() && self.finds_more(&loaded) {
                let mut found = self.load(&personalities, true).await;
                if found.generation.is_some() {
                    let done = loaded.machine.sources.as_ref();
                    failure = self.collect(&personalities, &tasks, &mut found, done).await;
                    let further =
                        boot::machine::further_disks(&found.machine, &loaded.machine, &tasks, &absent);
                    if failure.is_none() {
                        failure = self.boot(further).await;
                    }
                    loaded = found;
                }
            }
            if failure.is_none() {
                failure = self.remember(&personalities, &tasks, &mut loaded, &absent).await;
            }
            if failure.is_none() {
                failure = self.boot(boot::machine::settings(options, &loaded.machine, &tasks)).await;
            }
        }
        if failure.is_none() {
            // From here on a next incarnation goes on; before, it does the boot again.
            environment.write(Kind::Boot, &*self.sequence.report().borrow());
            environment.write(Kind::ReexecState, &self.reexec_state);
        }
        if has_folder {
            make_notify_directory(&notify_directory(&options.runtime_dir));
        }
        let mut context = self.open(personalities, environment, &loaded)?;
        context.watchdog.events().iter().for_each(|event| context.manager.host_event(event));
        if let Some(rescue) = &self.options.rescue {
            context.manager.host_event(&rescue.event());
        }
        context.tell_of(&self.boot_reason);
        context.begin(loaded).await;
        context.configuration.arrange_volumes(&context.manager);
        context.begin_fleet();
        match &failure {
            Some(failure) => context.manager.host_event(&failure.to_string()),
            None => {
                if context.intents.current().is_none() {
                    context.manager.begin();
                    context.configuration.arrange_timers();
                    context.await_disks();
                    context.collect_late_source(&self.sequence);
                }
                context.watch_boot(&self.sequence);
            }
        }
        Ok(serve(context, signals, failure).await)
    }

    /// Has the sources of the machine file give what they have, unless that is `done`, and reads the files again with that.
    async fn collect(
        &self,
        personalities: &Personalities,
        tasks: &Arc<dyn Launcher>,
        loaded: &mut Loaded,
        done: Option<&SourcesSpec>,
    ) -> Option<BootFailure> {
        if !const { OWN.has(Feature::Sources) } {
            return None;
        }
        let spec = loaded.machine.sources.clone().filter(|spec| Some(spec) != done)?;
        let runtime = &self.options.runtime_dir;
        // A disk may need a driver.
        let modules = boot::machine::modules(&loaded.machine, tasks);
        if let failure @ Some(_) = self.boot(vec![modules, sources::phase(tasks, &spec, runtime)]).await {
            return failure;
        }
        self.load_sources(personalities, loaded, &spec).await
    }

    /// Reads the files again, with those of the sources.
    async fn load_sources(
        &self,
        personalities: &Personalities,
        loaded: &mut Loaded,
        spec: &SourcesSpec,
    ) -> Option<BootFailure> {
        let before = std::mem::take(&mut loaded.warnings);
        *loaded = self.load(personalities, true).await;
        // A trial that was ended by the first reading is not known to the second.
        let lost =
            before.into_iter().filter(|found| found.is_of_a_folder() && !loaded.warnings.contains(found));
        let lost: Vec<Diagnostic> = lost.collect();
        loaded.warnings.extend(lost);
        self.boot(sources::verdict(spec, loaded, &self.options.runtime_dir).into_iter().collect()).await
    }

    /// Remembers what the sources gave, once the state folder has its disk. What is remembered from an earlier boot is taken
    /// up.
    async fn remember(
        &self,
        personalities: &Personalities,
        tasks: &Arc<dyn Launcher>,
        loaded: &mut Loaded,
        absent: &Absent,
    ) -> Option<BootFailure> {
        if !const { OWN.has(Feature::Sources) } {
            return None;
        }
        let (spec, runtime) = (loaded.machine.sources.clone()?, &self.options.runtime_dir);
        let phase = sources::memory(tasks, spec.kinds(), runtime, &self.options.state_dir)?;
        let before = sources::given(&spec, runtime);
        if let failure @ Some(_) = self.boot(vec![phase]).await {
            return failure;
        }
        if sources::given(&spec, runtime) == before {
            return None;
        }
        let done = loaded.machine.clone();
        if let failure @ Some(_) = self.load_sources(personalities, loaded, &spec).await {
            return failure;
        }
        self.boot(boot::machine::further_disks(&loaded.machine, &done, tasks, absent)).await
    }

    /// Whether a configuration that was applied may lie on a disk that the machine file has mounted by now.
    fn finds_more(&self, loaded: &Loaded) -> bool {
        let holds = |target: &Path| target != Path::new("/") && self.options.state_dir.starts_with(target);
        loaded.generation.is_none() && loaded.machine.mounts.iter().any(|mount| holds(&mount.target))
    }

    /// Runs phases of the boot, until somebody asks for an end.
    async fn boot(&self, phases: Vec<Phase>) -> Option<BootFailure> {
        tokio::select! {
            result = self.sequence.run_all(phases) => result.err(),
            _ = self.intents.asked() => None,
        }
    }
}
