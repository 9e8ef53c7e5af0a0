//! One restart of one group: its members stop in the reverse order of their dependencies, rest, and start in order.

use kelson_sys::ordered;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::service::{LifecycleHook, ServiceSpec, StartMode};
use tokio::time::Instant;

use super::GroupRequest;
use crate::manager::Manager;
use crate::model::{Snapshot, State};
use crate::service_runner::words;

/// The time that the cleanup after a run may take, beside all steps that have a timeout of their own.
const CLEANING: Duration = Duration::from_secs(10);

/// Whether a member restarts with its group: what the files want up, what somebody started by hand, and who asked; but
/// not what an operator stopped. A poststop member that waits, or has had its turn, is left alone: the mains are not
/// down permanently.
fn takes_part(now: &Snapshot, spec: &ServiceSpec, request: &GroupRequest) -> bool {
    let poststop = spec.lifecycle.hook == Some(LifecycleHook::Poststop);
    if poststop && (now.state.at_rest() || now.state == State::Waiting) {
        return false;
    }
    let wanted =
        spec.start == StartMode::Auto || !now.state.at_rest() || request.member.as_ref() == Some(&now.name);
    wanted && !now.stopped
}

/// How long the stop of a service may take.
fn stop_time(spec: &ServiceSpec) -> Duration {
    let hooks = spec.hooks.pre_stop.iter().chain(&spec.hooks.post).map(|hook| hook.timeout);
    let own = spec.stop.delay.saturating_add(spec.stop.timeout).saturating_add(CLEANING);
    hooks.fold(own, Duration::saturating_add)
}

/// Runs to the end, unless the host stops meanwhile.
pub async fn restart(manager: Manager, request: GroupRequest, rest: Duration) {
    let (group, why) = (&request.group, request.why());
    manager.host_event(&format!("group {group} restarts: {why}"));
    let mut chosen = BTreeSet::new();
    let mut longest = Duration::ZERO;
    for (now, spec) in manager.members(group) {
        if takes_part(&now, &spec, &request) {
            longest = longest.saturating_add(stop_time(&spec));
            chosen.insert(now.name);
        }
    }
    let deadline = Instant::now().checked_add(longest).unwrap_or_else(Instant::now);
    let (request_ids, left) = manager.stop_for_group(&chosen, &why, deadline).await;
    if manager.closing() {
        return;
    }
    if !left.is_empty() {
        manager
            .host_event(&format!("group {group} does not wait any longer for {} to stop", left.join(", ")));
    }
    manager.host_event(&format!("group {group} has stopped, it starts again in {}", words::duration(rest)));
    tokio::time::sleep(rest).await;
    let again = to_start(&manager, group, &chosen, &request_ids);
    manager.start_for_group(&again, &why).await;
}

/// Those that stopped with the group and still belong to it. A service that an operator started meanwhile and
/// that has ended is done; it does not run again.
fn to_start(
    manager: &Manager,
    group: &str,
    chosen: &BTreeSet<Arc<str>>,
    request_ids: &BTreeMap<Arc<str>, u64>,
) -> BTreeSet<Arc<str>> {
    let members = manager.members(group).into_iter();
    let again = members.filter(|(now, _)| {
        let since = request_ids.get(&now.name).copied().unwrap_or(u64::MAX);
        let done_since = now.request_id > since && now.finished;
        chosen.contains(&now.name) && now.state.at_rest() && !now.stopped && !done_since
    });
    ordered::set(again.map(|(now, _)| now.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::failed_snapshot;

    fn chosen(state: State, change: impl FnOnce(&mut Snapshot, &mut ServiceSpec)) -> bool {
        let request = GroupRequest {
            group: "shop".into(),
            member: Some("asker".into()),
            text: String::new(),
            after: Duration::ZERO,
            begun: false,
        };
        let mut now = Snapshot { state, ..failed_snapshot(&Arc::from("web"), "", false) };
        let mut spec = ServiceSpec::process("web", ["web"]);
        change(&mut now, &mut spec);
        takes_part(&now, &spec, &request)
    }

    #[test]
    fn who_takes_part() {
        for state in
            [State::Running, State::Waiting, State::Failed, State::Finished, State::Stopped, State::Skipped]
        {
            assert!(chosen(state, |_, _| ()), "{state:?}");
            assert!(!chosen(state, |now, _| now.stopped = true), "{state:?}");
            let at_rest = state.at_rest();
            assert_eq!(chosen(state, |_, spec| spec.start = StartMode::Manual), !at_rest, "{state:?}");
            let poststop = |_: &mut Snapshot, spec: &mut ServiceSpec| {
                spec.lifecycle.hook = Some(LifecycleHook::Poststop);
            };
            assert_eq!(chosen(state, poststop), state == State::Running, "{state:?}");
        }
        // A member that asked starts again, also when somebody had started it by hand.
        assert!(chosen(State::Failed, |now, spec| {
            spec.start = StartMode::Manual;
            now.name = "asker".into();
        }));
    }
}
