//! The coordinator restarts groups, and lets poststop members wait for the next end of their mains.
//!
//! One task for all groups. It follows the published snapshots by what changed, so it knows the members of each group
//! without looking at all services, and runs each restart beside the others.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kelson_runner::restart::Decision;
use kelson_spec::service::{LifecycleHook, RestartPolicy, RestartSpec, ServiceKind, ServiceSpec};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::restart::restart;
use super::stability::Stability;
use super::{GroupRequest, Request};
use crate::manager::Manager;
use crate::model::{Snapshot, State};
use crate::node_health::{Part, part};
use crate::service_runner::random::Random;

#[derive(Default)]
struct Group {
    members: BTreeSet<Arc<str>>,
    stability: Stability,
    restarting: bool,
    /// Asked while it restarts, each by its last request and the run in which it was made.
    asked: HashMap<Arc<str>, (u64, GroupRequest)>,
}

struct Coordinator {
    manager: Manager,
    groups: HashMap<Arc<str>, Group>,
    /// Of which group a service is a member.
    member_of: HashMap<Arc<str>, Arc<str>>,
    restarts: JoinSet<Arc<str>>,
    random: Random,
}

/// Answers requests for as long as the host runs.
pub async fn coordinate(manager: Manager, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut changes = manager.registry().follow();
    let random = Random::of("groups", manager.since_start());
    let mut coordinator = Coordinator {
        manager,
        groups: HashMap::new(),
        member_of: HashMap::new(),
        restarts: JoinSet::new(),
        random,
    };
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                Some(Request::Restart(request)) => coordinator.asked(request),
                Some(Request::Start { names, text }) => coordinator.manager.follow_up(names, text),
                // Nobody is left who could ask.
                None => return,
            },
            names = changes.next() => names.iter().for_each(|name| coordinator.see(name)),
            Some(ended) = coordinator.restarts.join_next() => {
                if let Ok(group) = ended {
                    coordinator.restarted(&group);
                }
            }
        }
    }
}

/// By which rules a group is restarted: its own file's. Where that says nothing, the pauses are those of the member that
/// asks, whose budget the member itself has counted.
fn rules(manager: &Manager, request: &GroupRequest) -> RestartSpec {
    let of_member = || {
        let spec = request.member.as_ref().and_then(|member| manager.spec(member));
        let own =
            spec.map_or_else(|| RestartSpec::for_kind(ServiceKind::Service), |spec| spec.restart.clone());
        RestartSpec { attempts: 0, ..own }
    };
    let rules = manager.group_rules(&request.group).unwrap_or_else(of_member);
    RestartSpec { policy: RestartPolicy::Forever, ..rules }
}

/// It is one of those around which the others of its group are ordered.
fn is_main(spec: &ServiceSpec) -> bool {
    spec.lifecycle.hook.is_none() && !spec.lifecycle.sidecar
}

/// Its mains were down and it has had its turn.
fn has_run(now: &Snapshot, spec: &ServiceSpec) -> bool {
    spec.lifecycle.hook == Some(LifecycleHook::Poststop)
        && matches!(now.state, State::Finished | State::Failed | State::Stopped)
        && !now.stopped
}

impl Coordinator {
    fn asked(&mut self, request: GroupRequest) {
        if self.manager.closing() {
            return;
        }
        let state = self.groups.entry(Arc::clone(&request.group)).or_default();
        if state.restarting {
            // One restart serves all that ask; whose run it does not end is looked at afterwards. The checks of the group
            // begin again after it.
            if let Some(member) = &request.member {
                let run = self.manager.get(member).map_or(0, |now| now.run);
                state.asked.insert(Arc::clone(member), (run, request));
            }
            return;
        }
        let ran = state.stability.restart(Instant::now());
        let rules = rules(&self.manager, &request);
        let chance = self.random.draw();
        let decision = match request.begun {
            true => Decision::Again { after: rules.delay, budget: String::new() },
            false => self.manager.decide_group_restart(&request.group, &rules, ran, chance),
        };
        let rest = match decision {
            Decision::Again { after, .. } => after.max(request.after),
            Decision::Exhausted { text } => {
                let text = format!("group {} {text}", request.group);
                let why = request.why();
                self.manager.host_event(&format!("{text} and is not restarted, as asked for by {why}"));
                if let Some(member) = &request.member {
                    self.manager.refuse_group_restart(member, text);
                }
                return;
            }
            // No rules of a group end it.
            Decision::End { .. } => return,
        };
        state.restarting = true;
        let (manager, group) = (self.manager.clone(), Arc::clone(&request.group));
        self.restarts.spawn(kelson_sys::boxed(async move {
            restart(manager, request, rest).await;
            group
        }));
    }

    /// A restart is over. A member that an operator had started meanwhile was not stopped by it, and may have asked.
    fn restarted(&mut self, group: &Arc<str>) {
        let Some(state) = self.groups.get_mut(group) else { return };
        state.restarting = false;
        let asked = std::mem::take(&mut state.asked);
        if state.members.is_empty() {
            self.groups.remove(group);
        }
        let still = |(run, request): &(u64, GroupRequest)| {
            let now = request.member.as_ref().and_then(|member| self.manager.get(member));
            now.is_some_and(|now| now.runs && now.run == *run)
        };
        if let Some((_, request)) = asked.into_values().find(still) {
            self.asked(request);
        }
    }

    /// A service came, changed or went.
    fn see(&mut self, name: &Arc<str>) {
        let Some(snapshot) = self.manager.registry().get(name) else {
            self.leave(name);
            return;
        };
        let (group, up) = {
            let now = snapshot.borrow();
            (now.group.clone(), now.up)
        };
        if self.member_of.get(name) != group.as_ref() {
            self.leave(name);
        }
        let Some(group) = group else { return };
        self.member_of.insert(Arc::clone(name), Arc::clone(&group));
        let state = self.groups.entry(Arc::clone(&group)).or_default();
        state.members.insert(Arc::clone(name));
        if state.stability.is_followed() {
            let manager = &self.manager;
            let well = |name: &Arc<str>| {
                let now = manager.get(name);
                now.is_none_or(|now| part(&now, manager.spec(name).as_deref()) != Part::Culprit)
            };
            state.stability.see(state.members.iter().all(well), Instant::now());
        }
        if up && self.manager.spec(name).is_some_and(|spec| is_main(&spec)) {
            self.arm(&group);
        }
    }

    /// A main is up: those that come after the mains wait for their end again.
    fn arm(&self, group: &str) {
        let members = self.groups.get(group).map(|state| &state.members);
        for name in members.into_iter().flatten() {
            let (Some(now), Some(spec)) = (self.manager.get(name), self.manager.spec(name)) else { continue };
            if has_run(&now, &spec) {
                self.manager.arm(name);
            }
        }
    }

    fn leave(&mut self, name: &Arc<str>) {
        let Some(group) = self.member_of.remove(name) else { return };
        let Some(state) = self.groups.get_mut(&group) else { return };
        state.members.remove(name);
        if state.members.is_empty() && !state.restarting {
            self.groups.remove(&group);
        }
    }
}
