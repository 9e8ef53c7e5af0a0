//! Which services the health of the host goes by.

use kelson_spec::service::{LifecycleHook, ServiceSpec, StartMode};

use crate::model::{Snapshot, State};

/// The part that a service has in the health of the host, and of its group, now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Up, or a one-shot that has finished.
    Well,
    /// It should be that and is not.
    Culprit,
    /// It is not asked.
    Aside,
}

/// Asked are the services that the files want to be up, also stopped ones: a host whose web server was stopped by hand
/// does not serve, and its load balancer must learn that. Not asked are services that
///
/// - have `required: false`;
/// - were skipped: their `when` did not hold;
/// - have `start: manual` and were never started, or were stopped by an operator: they are as the files want them.
///   Once started they are asked like any other;
/// - come after the mains of their group (`hook: poststop`) and wait for the end of those.
///
/// A file with mistakes makes a culprit: nobody knows what it wanted.
pub fn part(now: &Snapshot, spec: Option<&ServiceSpec>) -> Part {
    if now.required { part_if_required(now, spec) } else { Part::Aside }
}

/// The part that it would have if the host's health went by it.
pub fn part_if_required(now: &Snapshot, spec: Option<&ServiceSpec>) -> Part {
    if now.up {
        return Part::Well;
    }
    let manual = spec.is_some_and(|spec| spec.start == StartMode::Manual);
    let poststop = spec.is_some_and(|spec| spec.lifecycle.hook == Some(LifecycleHook::Poststop));
    match now.state {
        State::Skipped => Part::Aside,
        State::Initialized if manual => Part::Aside,
        State::Stopped if manual && now.stopped => Part::Aside,
        State::Initialized | State::Waiting if poststop => Part::Aside,
        _ => Part::Culprit,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::manager::failed_snapshot;

    fn snapshot(state: State) -> Snapshot {
        Snapshot { state, down: false, ..failed_snapshot(&Arc::from("web"), "", false) }
    }

    fn spec(start: StartMode, hook: Option<LifecycleHook>) -> ServiceSpec {
        let mut spec = ServiceSpec::process("web", ["web"]);
        spec.start = start;
        spec.lifecycle.hook = hook;
        spec
    }

    #[test]
    fn what_the_files_want_up_is_asked() {
        let auto = spec(StartMode::Auto, None);
        let part = |now: &Snapshot| part(now, Some(&auto));
        for state in [
            State::Initialized,
            State::Waiting,
            State::Preparing,
            State::Starting,
            State::Running,
            State::Stopping,
            State::Finished,
            State::Stopped,
            State::Failed,
            State::Backoff,
        ] {
            assert_eq!(part(&snapshot(state)), Part::Culprit, "{state:?}");
        }
        assert_eq!(part(&snapshot(State::Skipped)), Part::Aside);
        assert_eq!(part(&Snapshot { stopped: true, ..snapshot(State::Stopped) }), Part::Culprit);
        // A one-shot is up once it has finished.
        for state in [State::Running, State::Finished] {
            assert_eq!(part(&Snapshot { up: true, ..snapshot(state) }), Part::Well);
        }
        let optional = Snapshot { required: false, ..snapshot(State::Failed) };
        assert_eq!(part(&optional), Part::Aside);
        assert_eq!(part_if_required(&optional, None), Part::Culprit);
        assert_eq!(part(&Snapshot { up: true, ..optional }), Part::Aside);
    }

    #[test]
    fn a_file_with_mistakes_is_a_culprit() {
        assert_eq!(part(&snapshot(State::Failed), None), Part::Culprit);
    }

    #[test]
    fn a_manual_one_is_asked_while_somebody_wants_it() {
        let manual = spec(StartMode::Manual, None);
        let part = |now: &Snapshot| part(now, Some(&manual));
        assert_eq!(part(&snapshot(State::Initialized)), Part::Aside);
        assert_eq!(part(&snapshot(State::Waiting)), Part::Culprit);
        assert_eq!(part(&snapshot(State::Failed)), Part::Culprit);
        assert_eq!(part(&snapshot(State::Finished)), Part::Culprit);
        assert_eq!(part(&snapshot(State::Stopped)), Part::Culprit, "stopped with what it needs");
        assert_eq!(part(&Snapshot { stopped: true, ..snapshot(State::Stopped) }), Part::Aside);
        assert_eq!(part(&Snapshot { up: true, ..snapshot(State::Running) }), Part::Well);
    }

    #[test]
    fn a_poststop_one_is_asked_once_its_turn_has_come() {
        let poststop = spec(StartMode::Auto, Some(LifecycleHook::Poststop));
        let part = |now: &Snapshot| part(now, Some(&poststop));
        assert_eq!(part(&snapshot(State::Initialized)), Part::Aside);
        assert_eq!(part(&snapshot(State::Waiting)), Part::Aside);
        assert_eq!(part(&snapshot(State::Running)), Part::Culprit);
        assert_eq!(part(&snapshot(State::Failed)), Part::Culprit);
    }
}
