//! Hooks around a run: their order, their failures, their time, and that each of them can be broken off.

use std::time::Duration;

use kelson_proto::v1::resumed_step::Outcome;
use kelson_runner::Exit;
use kelson_services::manager::Outcome as Action;
use kelson_services::model::State;
use kelson_spec::service::{Hook, Requirement, RestartPolicy, ServiceSpec};

use crate::health_commands::{fails, hangs, passes};
use crate::house::*;

pub fn hook(command: &str) -> Hook {
    Hook::new([command], secs(5))
}

/// A service with a hook of each kind, of its kind's name.
fn hooked(name: &str) -> ServiceSpec {
    let mut spec = spec(name);
    spec.hooks.pre = vec![hook("pre")];
    spec.hooks.post_start = vec![hook("postStart")];
    spec.hooks.pre_stop = vec![hook("preStop")];
    spec.hooks.post = vec![hook("post")];
    spec.stop.delay = secs(2);
    spec
}

async fn house_with(spec: ServiceSpec, change: impl FnOnce(&mut Manners)) -> House {
    let house = House::new();
    for command in ["postStart", "preStop"] {
        house.played("web", |web| web.commands.set(command, passes()));
    }
    house.manners("web", change);
    house.boot([spec]).await;
    house
}

fn exits(after: Duration, status: i32) -> Option<(Duration, Exit)> {
    Some((after, Exit::Status(status)))
}

#[tokio::test(start_paused = true)]
async fn each_hook_has_its_place() {
    let house = house_with(hooked("web"), |web| web.hook("pre", exits(secs(1), 0))).await;
    assert_eq!((house.state("web"), house.now("web").pid), (State::Starting, None));
    assert_eq!(house.message("web"), "run 1, its pre hooks first");
    tokio::time::sleep(secs(1)).await;
    assert_eq!((house.state("web"), house.now("web").up), (State::Running, true));
    let begun = |house: &House| house.played("web", |web| web.commands.begun());
    assert_eq!(begun(&house)[0].1, "run 1: postStart");

    let before = tokio::time::Instant::now();
    house.played("web", |web| web.commands.set("preStop", hangs("")));
    let manager = house.manager.clone();
    let stop = tokio::spawn(async move { manager.stop(&names(&["web"]), false, true).await });
    house.settle().await;
    assert_eq!((house.state("web"), house.now("web").up), (State::Stopping, false));
    let told = "stopping: stopped: asked by an operator; its preStop hooks first";
    house.assert_told("web", told);
    stop.await.unwrap();
    // The hook's timeout, then the delay, then the signal.
    let passed = before.elapsed();
    assert!(passed >= secs(7) && passed < secs(8), "{passed:?}");
    house.assert_told("web", "preStop hook preStop failed: it had not ended after 5 s, killed");
    assert_eq!(begun(&house)[1].1, "run 1: preStop");
    let said = house.played("web", |web| web.said());
    assert_eq!(said, ["open", "hook pre", "run 1", "signal 15", "hook post", "close"]);
    assert_eq!((house.state("web"), house.now("web").stopped), (State::Stopped, true));
}

#[tokio::test(start_paused = true)]
async fn a_pre_hook_that_fails_feeds_the_policy_and_is_answered_by_post() {
    let mut spec = hooked("web");
    spec.hooks.pre.push(hook("second"));
    let house = house_with(spec, |web| web.hook("pre", exits(Duration::ZERO, 3))).await;
    assert_eq!(house.state("web"), State::Backoff);
    house.assert_told("web", "backoff: pre hook pre failed: exited with status 3, restarting in 1");
    assert_eq!(house.played("web", |web| web.said()), ["open", "hook pre", "hook post"]);
    house.manners("web", |web| web.hook("pre", exits(Duration::ZERO, 0)));
    tokio::time::sleep(secs(2)).await;
    assert_eq!((house.state("web"), house.now("web").restarts, house.now("web").run), (State::Running, 1, 2));
    let said = house.played("web", |web| web.said());
    assert_eq!(said[3..], ["hook pre", "hook second", "run 2"]);
}

#[tokio::test(start_paused = true)]
async fn g3_a_stop_breaks_a_pre_hook_off() {
    let house = house_with(hooked("web"), |web| web.hook("pre", None)).await;
    tokio::time::sleep(secs(1)).await;
    let before = tokio::time::Instant::now();
    house.stop("web").await;
    assert!(before.elapsed() < secs(1), "{:?}", before.elapsed());
    assert_eq!(
        house.played("web", |web| web.said()),
        ["open", "hook pre", "kill", "killed", "hook post", "close"]
    );
    assert_eq!(house.message("web"), "stopped while starting: asked by an operator");
}

#[tokio::test(start_paused = true)]
async fn a_pre_hook_has_its_own_timeout() {
    let mut spec = hooked("web");
    spec.restart.policy = RestartPolicy::Once;
    let house = house_with(spec, |web| web.hook("pre", None)).await;
    tokio::time::sleep(secs(5)).await;
    assert_eq!(house.state("web"), State::Failed);
    house.assert_told("web", "pre hook pre failed: it had not ended after 5 s, killed");
}

#[tokio::test(start_paused = true)]
async fn what_happens_beside_is_only_told() {
    let house = house_with(hooked("web"), |_| {}).await;
    house.played("web", |web| web.commands.set("postStart", fails("no such table\n")));
    house.exit("web", 0).await;
    tokio::time::sleep(secs(2)).await;
    assert_eq!((house.state("web"), house.now("web").up), (State::Running, true));
    house.assert_told("web", "running: postStart hook postStart failed: exited with status 1");
    let begun = house.played("web", |web| web.commands.begun());
    let begun: Vec<&str> = begun.iter().map(|(_, command)| command.as_str()).collect();
    assert_eq!(begun, ["run 1: postStart", "run 2: postStart"], "once a run");
}

#[tokio::test(start_paused = true)]
async fn post_learns_how_the_run_ended_and_its_failure_changes_nothing() {
    let house = house_with(hooked("web"), |web| web.hook("post", exits(secs(3), 1))).await;
    house.exit("web", 4).await;
    assert_eq!((house.state("web"), house.now("web").pid), (State::Stopping, None));
    assert_eq!(
        house.played("web", |web| web.environment.clone()),
        [("KELSON_EXIT_STATUS".to_owned(), "4".to_owned())]
    );
    tokio::time::sleep(secs(3)).await;
    assert_eq!(house.state("web"), State::Backoff);
    house.assert_told("web", "post hook post failed: exited with status 1");
    house.assert_told("web", "backoff: exited with status 4 after 1 ms, restarting in");
}

#[tokio::test(start_paused = true)]
async fn an_exit_ends_pre_stop_and_its_delay() {
    let house = house_with(hooked("web"), |_| {}).await;
    house.played("web", |web| web.commands.set("preStop", hangs("")));
    let manager = house.manager.clone();
    let stop = tokio::spawn(async move { manager.stop(&names(&["web"]), false, true).await });
    house.settle().await;
    house.exit("web", 0).await;
    stop.await.unwrap();
    assert_eq!(house.played("web", |web| web.commands.running()), 0);
    assert_eq!(house.played("web", |web| web.said())[2..], ["run 1", "hook post", "close"]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_shuts_during_pre_is_minded_before_the_spawn() {
    let mut web = hooked("web");
    web.depends = needs("web", &["db"]).depends;
    let house = House::new();
    house.manners("web", |web| web.hook("pre", exits(secs(3), 0)));
    house.boot([spec("db"), web]).await;
    house.manners("db", |db| db.spawn_fails = Some("no".into()));
    house.exit("db", 1).await;
    tokio::time::sleep(secs(3)).await;
    assert_eq!(house.state("web"), State::Waiting);
    assert_eq!(house.played("web", |web| web.said()), ["open", "hook pre", "hook post"]);
    house.manners("db", |db| db.spawn_fails = None);
    tokio::time::sleep(secs(60)).await;
    assert_eq!((house.state("web"), house.now("web").restarts), (State::Running, 0));
}

#[tokio::test(start_paused = true)]
async fn pre_hooks_run_once_where_a_condition_answers_late() {
    let mut web = hooked("web");
    web.depends = vec![Requirement::Path("/proc/self".into())];
    let house = house_with(web, |web| web.hook("pre", exits(secs(1), 0))).await;
    tokio::time::sleep(secs(2)).await;
    assert_eq!((house.state("web"), house.now("web").restarts), (State::Running, 0));
    assert_eq!(house.played("web", |web| web.said()), ["open", "hook pre", "run 1"]);
}

#[tokio::test(start_paused = true)]
async fn pre_hooks_without_a_run_are_counted_and_slowed() {
    let mut web = hooked("web");
    web.depends = needs("web", &["db"]).depends;
    web.restart.attempts = 3;
    let house = House::new();
    house.manners("web", |web| web.hook("pre", exits(secs(1), 0)));
    house.boot([notify("db"), web]).await;
    // Whenever the hooks run, what it needs goes away for a moment.
    for _ in 0..1000 {
        if house.state("web") == State::Waiting {
            house.say("db", "READY=1").await;
        }
        if house.message("web").contains("its pre hooks first") {
            house.say("db", "RELOADING=1").await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!((house.state("web"), house.now("web").restarts), (State::Failed, 3));
    let text = house.message("web");
    let reason = "broken off after its pre hooks, waiting for service \"db\" to be up again";
    assert!(text.starts_with(reason), "{text}");
    let rounds = house.played("web", |web| web.said()).iter().filter(|deed| *deed == "hook pre").count();
    assert_eq!(rounds, 5, "one by chance, three restarts and the last");
}

#[tokio::test(start_paused = true)]
async fn the_total_deadline_ends_hooks_too() {
    let house = house_with(hooked("web"), |web| web.hook("post", None)).await;
    house.played("web", |web| web.commands.set("preStop", hangs("")));
    let before = tokio::time::Instant::now();
    let summary = house.manager.stop_all(tokio::time::Instant::now() + secs(1), &[]).await;
    assert_eq!((summary.killed, summary.given_up), (names(&["web"]), vec![]));
    assert!(before.elapsed() < secs(2), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_total_deadline_kills_a_post_hook_that_is_under_way() {
    let house = house_with(hooked("web"), |web| web.hook("post", None)).await;
    let stopping = house.manager.stop_all(tokio::time::Instant::now() + secs(4), &[]);
    let summary = stopping.await;
    assert_eq!((summary.killed, summary.given_up), (names(&["web"]), vec![]));
    let said = house.played("web", |web| web.said());
    assert_eq!(said[3..], ["signal 15", "hook post", "kill", "killed", "close"]);
}

#[tokio::test(start_paused = true)]
async fn post_does_not_answer_a_run_of_which_nothing_was_begun() {
    let mut web = hooked("web");
    web.hooks.pre = Vec::new();
    web.depends = needs("web", &["db"]).depends;
    let house = House::new();
    house.manners("web", |web| web.open = secs(5));
    house.boot([notify("db"), web]).await;
    house.say("db", "READY=1").await;
    house.say("db", "RELOADING=1").await;
    tokio::time::sleep(secs(5)).await;
    assert_eq!(house.state("web"), State::Waiting, "prepared, and its gate is shut");
    let all = house.turns.acquire_many(32).await.unwrap();
    house.say("db", "READY=1").await;
    assert_eq!(house.state("web"), State::Starting);
    house.stop("web").await;
    drop(all);
    assert_eq!(house.played("web", |web| web.said()), ["open", "close"]);
}

#[tokio::test(start_paused = true)]
async fn a_reload_runs_its_hooks_once_for_a_service_that_runs() {
    let mut web = spec("web");
    web.reload.hooks = vec![hook("check"), hook("load")];
    let house = House::new();
    house.played("web", |web| web.commands.set("check", passes()));
    house.played("web", |web| web.commands.set("load", fails("no\n")));
    house.boot([web, spec("plain")]).await;
    let reload = async |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let results = house.manager.reload_services(&names, "a test").unwrap().await;
        results.into_iter().map(|result| (result.outcome, result.message)).collect::<Vec<_>>()
    };
    let failed = "reload hook load failed: exited with status 1";
    let results = reload(&["web", "plain"]).await;
    assert_eq!(results[0], (Action::Failed, failed.to_owned()));
    assert_eq!(results[1].0, Action::Refused);
    house.assert_told("web", &format!("not reloaded: {failed}"));
    house.played("web", |web| web.commands.set("load", passes()));
    assert_eq!(reload(&["web"]).await, [(Action::Done, "2 hooks succeeded".to_owned())]);
    house.assert_told("web", "reloaded (2 hooks succeeded): asked by a test");
    assert_eq!((house.now("web").run, house.now("web").restarts), (1, 0));
    house.stop("web").await;
    assert_eq!(reload(&["web"]).await[0].0, Action::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_pre_hook_that_may_fail_does_not_keep_the_service_from_starting() {
    let mut web = spec("web");
    web.hooks.pre = vec![Hook { may_fail: true, ..hook("warm") }, hook("check")];
    let house = house_with(web, |web| web.hook("warm", exits(Duration::ZERO, 1))).await;
    assert_eq!(house.state("web"), State::Running);
    assert_eq!(house.played("web", |web| web.said()), ["open", "hook warm", "hook check", "run 1"]);
    house.assert_told("web", "pre hook warm failed: exited with status 1");
}

/// The outcomes of a resume.
async fn resumed_with(house: &House, timeout: Duration) -> Vec<(String, Outcome, String)> {
    let deadline = tokio::time::Instant::now() + timeout;
    let steps = house.manager.resumed("a test", deadline).await;
    steps.into_iter().map(|step| (step.name.clone(), step.outcome(), step.message)).collect()
}

#[tokio::test(start_paused = true)]
async fn after_a_resume_each_service_gets_what_its_file_declares() {
    let mut web = spec("web");
    web.resumed.hooks = vec![hook("renew")];
    let mut certificate = oneshot("certificate");
    certificate.resumed.restart = true;
    let house = House::new();
    house.played("web", |web| web.commands.set("renew", passes()));
    house.boot([web, certificate, spec("unaware"), manual(spec("down"))]).await;
    house.exit("certificate", 0).await;
    assert_eq!(house.now("certificate").run, 1);
    let resumed = tokio::spawn({
        let manager = house.manager.clone();
        async move { manager.resumed("a test", tokio::time::Instant::now() + secs(9)).await }
    });
    house.settle().await;
    assert_eq!(house.now("certificate").run, 2);
    house.exit("certificate", 0).await;
    let steps = resumed.await.unwrap();
    let outcomes: Vec<(&str, Outcome)> = steps.iter().map(|step| (&*step.name, step.outcome())).collect();
    let expected =
        [("certificate", Outcome::Done), ("unaware", Outcome::NotDeclared), ("web", Outcome::Done)];
    assert_eq!(outcomes, expected, "a service that is down is not notified");
    assert_eq!(steps[2].message, "1 hook succeeded");
    assert_eq!(house.played("web", |web| web.commands.begun())[0].1, "run 1: renew");
    assert_eq!(house.now("web").run, 1);
}

#[tokio::test(start_paused = true)]
async fn a_hook_after_a_resume_that_fails_or_is_late_changes_nothing_else() {
    let mut web = spec("web");
    web.resumed.hooks = vec![hook("renew"), hook("tell")];
    let house = House::new();
    house.played("web", |web| web.commands.set("renew", fails("no\n")));
    house.played("web", |web| web.commands.set("tell", passes()));
    house.boot([web]).await;
    let failed = "resumed hook renew failed: exited with status 1";
    let steps = resumed_with(&house, secs(9)).await;
    assert_eq!(steps, [("web".to_owned(), Outcome::Failed, failed.to_owned())]);
    house.assert_told("web", failed);
    house.played("web", |web| web.commands.set("renew", hangs("")));
    let steps = resumed_with(&house, secs(2)).await;
    assert_eq!(steps[0].1, Outcome::Late);
    house.settle().await;
    assert_eq!(house.played("web", |web| web.commands.running()), 0, "it is killed");
    assert_eq!((house.state("web"), house.now("web").up), (State::Running, true));
}
