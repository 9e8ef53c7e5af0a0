//! How the host is, for the others of its fleet.

use std::time::Duration;

use kelson_proto::v1::{FleetHealth, FleetObstacle};
use tokio::sync::mpsc;

use super::members::Command;
use crate::node_health::{Cause, HealthState, NodeHealth};

/// Between two looks at the causes: while a thousand services start, not each of them is a reason to look.
const PACE: Duration = Duration::from_millis(200);
/// For the gates of services that an earlier incarnation of PID 1 has started to be asked again.
const KNOWN: Duration = Duration::from_secs(2);

/// Has the helper know how the host is, until the host ends. Its state is sent at once.
pub async fn follow(health: NodeHealth, commands: mpsc::UnboundedSender<Command>) {
    let mut changes = health.changes();
    let known = async { while !health.knows_causes() && changes.changed().await.is_ok() {} };
    // Until then the store has what the incarnation before said.
    let _ = tokio::time::timeout(KNOWN, known).await;
    let mut last: Option<FleetHealth> = None;
    loop {
        let state = health.node_state();
        let causes = match health.causes() {
            Some(causes) => causes.into_iter().map(obstacle).collect(),
            // All has been up for too short a time: what was wrong last is why.
            None if state != HealthState::Healthy => {
                last.iter().flat_map(|last| last.causes.clone()).collect()
            }
            None => Vec::new(),
        };
        let now = FleetHealth { state: state.name().to_owned(), causes };
        if last.as_ref() != Some(&now) {
            if commands.send(Command::Health(now.clone())).is_err() {
                return;
            }
            last = Some(now);
        }
        let pause = tokio::time::sleep(PACE);
        if changes.changed().await.is_err() {
            return;
        }
        tokio::pin!(pause);
        while health.node_state() == state {
            tokio::select! {
                () = &mut pause => break,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }
}

fn obstacle(Cause { service, failure }: Cause) -> FleetObstacle {
    FleetObstacle { service: service.to_string(), cause: failure.cause, detail: failure.detail }
}
