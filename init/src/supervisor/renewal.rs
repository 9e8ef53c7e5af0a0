//! A new identity for a machine that was resumed from a snapshot: all clones of one continue with equal randomness, machine
//! id and host name. docs/decisions/007-clones-of-a-snapshot.md explains the order.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::{CONTROL, Launcher};
use kelson_proto::v1::ResumedStep;
use kelson_proto::v1::resumed_step::Outcome;
use kelson_services::ServicesError;
use kelson_services::host::{Resumed, ResumedReport};
use kelson_services::manager::Manager;
use nix::fcntl::OFlag;
use tokio::time::Instant;

use crate::boot::machine::RANDOM_SEED;
use crate::task::{self, Request, TaskError};

/// How long one step of the machine may take: its disk may hang.
const STEP: Duration = Duration::from_secs(10);

/// The parts of PID 1 that a renewal needs.
pub(super) struct Renewal {
    pub(super) tasks: Arc<dyn Launcher>,
    pub(super) manager: Manager,
    /// Holds the machine id where the disk cannot be written.
    pub(super) transient: PathBuf,
    /// The file of hosts.
    pub(super) hosts: PathBuf,
}

impl Renewal {
    /// Does all steps. Only the first ends the others by its failure: they draw random bytes.
    ///
    /// # Errors
    /// The kernel does not take the entropy; nothing has changed.
    pub(super) async fn run(&self, resumed: &Resumed) -> Result<ResumedReport, ServicesError> {
        self.manager.host_event(&format!("resumed from a snapshot, says {}", resumed.asked_by));
        let reseeded = self.reseed(&resumed.entropy, resumed.deadline).await.map_err(|error| {
            let text = format!("the kernel does not take the entropy, and nothing has changed: {error}");
            self.manager.host_event(&text);
            ServicesError::NotNow(text)
        })?;
        let mut steps = vec![step("random generator", Ok(reseeded))];
        let name = resumed
            .hostname
            .clone()
            .map(|name| ("host name", Request::SetHostName { name: Some(name), hosts: self.hosts.clone() }));
        let requests = [
            ("random seed", Request::SaveSeed { path: RANDOM_SEED.into() }),
            ("machine id", Request::RenewMachineId { transient: self.transient.clone() }),
        ];
        for (name, request) in requests.into_iter().chain(name) {
            let outcome = task::run(&*self.tasks, &request, left(resumed.deadline)).await;
            steps.push(step(name, outcome));
        }
        for step in steps.iter().filter(|step| step.outcome() != Outcome::Done) {
            self.manager.host_event(&format!("after the resume, {}: {}", step.name, step.message));
        }
        steps.extend(self.manager.resumed(&resumed.asked_by, resumed.deadline).await);
        self.manager.host_event(&summary(&steps));
        Ok(ResumedReport { steps })
    }

    async fn reseed(&self, entropy: &[u8], deadline: Instant) -> Result<String, TaskError> {
        let pipe = || {
            let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
            // An empty pipe holds more than the API lets through.
            File::from(writer).write_all(entropy)?;
            Ok::<_, io::Error>(reader)
        };
        let source = vec![(CONTROL, pipe().map_err(TaskError::Start)?)];
        task::run_with(&*self.tasks, &Request::Reseed, source, left(deadline)).await
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).min(STEP)
}

fn step(name: &str, outcome: Result<String, TaskError>) -> ResumedStep {
    let (outcome, message) = match outcome {
        Ok(message) => (Outcome::Done, message),
        Err(error @ TaskError::Late { .. }) => (Outcome::Late, error.to_string()),
        Err(error) => (Outcome::Failed, error.to_string()),
    };
    ResumedStep { name: name.to_owned(), is_service: false, outcome: outcome.into(), message }
}

fn summary(steps: &[ResumedStep]) -> String {
    let count = |outcome| steps.iter().filter(|step| step.outcome() == outcome).count();
    format!(
        "the identity of this clone is renewed: {} steps done, {} failed, {} late; {} services have no key resumed",
        count(Outcome::Done),
        count(Outcome::Failed),
        count(Outcome::Late),
        count(Outcome::NotDeclared)
    )
}
