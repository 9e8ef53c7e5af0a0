//! The end of the run of a PID 1 that crashes again and again: services stop in the reverse order of their dependencies, the
//! rest is unmounted, and the machine starts again, or powers off where it was about to.
//!
//! Services stop from their records alone ([`last_resort`]), and by the kernel's own means: a pidfd and a cgroup, no
//! containerd. A fault in here leads to reboot(2) at once, and so does an end that lasts too long ([`BootReason::last`]).

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{DetachedContainer, Executor, Leftover, Processes, Runner, local_executor, local_runner};
use kelson_services::ServicesError;
use kelson_services::host::ShutdownAction;
use kelson_services::last_resort::{self, Survivors};
use kelson_services::service_runner::host_context::RunningProcess;
use kelson_services::state_store::{Kind, Past};
use kelson_spec::{Loaded, MachineSpec, ServiceSpec};
use tokio::time::Instant;

use super::{BootReason, Ending};
use crate::failure::{self, TIMEOUT};
use crate::options::Options;
use crate::reexec::ReexecState;
use crate::supervisor::{Intent, Intents, cgroups, process_options, verb};

/// Ends the run. `reason` is for the log; `past` is what is known of the services; `now` counts from PID 1's start, as
/// their records do.
pub fn run(
    options: &Options,
    boot_reason: &BootReason,
    past: Option<Past>,
    now: Duration,
    reason: &str,
) -> ! {
    tracing::error!("{reason}");
    let mut past = past;
    let machine: MachineSpec = past
        .as_mut()
        .and_then(|past| past.paper::<Loaded>(Kind::Configuration, ""))
        .map_or_else(|| options.mode.machine_defaults(), |loaded| loaded.machine);
    let intents = Intents::default();
    if let Some(intent) = past.as_mut().and_then(|past| past.paper::<Intent>(Kind::Intent, "")) {
        tracing::info!("{} was asked for by {} and goes on", verb(intent.action), intent.reason);
        intents.resume(intent);
    } else {
        intents.ask(ShutdownAction::Reboot, reason);
    }
    let total = machine.shutdown_timeout;
    let patience = intents.current().map_or(total, |intent| intent.left_of(total));
    boot_reason.ends(Ending::of(intents.current().as_ref()));
    boot_reason.last(patience.saturating_add(TIMEOUT));
    let cgroups = past.as_mut().and_then(cgroups);
    let reexec_state: ReexecState =
        past.as_mut().and_then(|past| past.paper(Kind::ReexecState, "")).unwrap_or_default();
    let children = process_options(&reexec_state, cgroups, past.as_ref().map(|past| &past.store));
    let asked = intents.clone();
    failure::end(options, &intents, None, children, async move |processes| {
        boot_reason.follow(asked.watch());
        if let Some(past) = &mut past {
            let deadline = Instant::now().checked_add(patience).unwrap_or_else(Instant::now);
            last_resort::stop(past, &Detached(processes), now, deadline).await;
        }
    })
}

/// Processes and containers by the kernel's own means.
struct Detached<'a>(&'a Processes);

impl Survivors for Detached<'_> {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Box<dyn Runner> {
        local_runner(self.0, spec, None)
            .unwrap_or_else(|| Box::new(DetachedContainer::new(self.0, Arc::clone(spec))))
    }

    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        let RunningProcess { run, pid, start_time } = run;
        local_executor(self.0, spec, run, pid, start_time).ok_or_else(|| {
            ServicesError::NotNow("no hook of a container runs after the crash limit".to_owned())
        })
    }

    fn leftovers(&self) -> Vec<Leftover> {
        self.0.leftovers().to_vec()
    }

    fn started(&self, pid: i32) -> Option<u64> {
        self.0.child_started(pid)
    }
}
