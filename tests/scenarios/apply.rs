//! Configurations from outside: `kelsonctl apply`, and what follows.

use std::fs;
use std::path::{Path, PathBuf};

use kelson_tests::{Dice, Host, HostBuilder, Output, PATIENCE, eventually, paths};
use serde_json::{Value, json};

use crate::recovery::each_fault;

const SERVE: &str = "process: {command: [$PROGRAM, serve]}\n";

/// Writes a configuration of an operator, and returns its folder.
fn desk(folder: &Path, name: &str, services: &[(&str, &str)]) -> PathBuf {
    let desk = folder.join(name);
    let _ = fs::remove_dir_all(&desk);
    fs::create_dir_all(desk.join("services")).expect("the test's folder is writable");
    let program = paths::binary("kelson-test-program").display().to_string();
    for (name, text) in services {
        let (file, text) = match name.ends_with(".yaml") {
            true => (desk.join(name), (*text).to_owned()),
            false => (desk.join(format!("services/{name}.yaml")), format!("name: {name}\n{text}\n")),
        };
        fs::create_dir_all(file.parent().expect("it has one")).expect("the test's folder is writable");
        fs::write(file, text.replace("$PROGRAM", &program)).expect("the test's folder is writable");
    }
    desk
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn apply(host: &Host, desk: &Path, more: &[&str]) -> Output {
    host.ctl(&[&["apply", text(desk)], more].concat())
}

/// Number, in force, not confirmed.
fn history(host: &Host) -> Vec<(u64, bool, bool)> {
    let kept: Vec<Value> = host.ctl(&["-o", "json", "history"]).ok().json();
    let told = kept.iter().map(|kept| {
        let flag = |name: &str| kept[name].as_bool().expect("a flag");
        (kept["number"].as_u64().expect("a number"), flag("current"), flag("reverted"))
    });
    told.collect()
}

fn names(host: &Host) -> Vec<String> {
    let all = host.services().into_iter().filter(|service| !service.builtin);
    let mut names: Vec<String> = all.map(|service| service.name).collect();
    names.sort();
    names
}

/// Prints a word and goes on.
fn says(word: &str) -> String {
    format!("process: {{command: [$PROGRAM, print={word}, serve]}}\n")
}

/// A host whose state is in this folder, which outlives it.
fn on(state: &Path) -> HostBuilder {
    Host::builder().argument("--state-dir").argument(text(state)).service("own", SERVE)
}

#[test]
fn a_configuration_is_applied_and_the_services_that_it_changes_restart() {
    let state = tempfile::tempdir().expect("a folder");
    let mut host = on(state.path()).service("leaving", SERVE).up(&["own", "leaving"]);
    let own = host.pid_of("own");
    let files = [("own", SERVE), ("web", &says("one")), ("hand", &format!("{SERVE}start: manual"))];
    let first = desk(host.dir(), "first", &files);
    // A dry run tells all and does nothing.
    let said = apply(&host, &first, &["--dry-run"]).ok().stdout;
    for part in [
        "hand: new, does not start\n",
        "leaving: removed, stops\n",
        "web: new, starts\n",
        "+++ b/services/web.yaml",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.ends_with("dry run: generation 0 stays in force\n"), "{said}");
    assert_eq!(
        (names(&host), history(&host)),
        (vec!["leaving".into(), "own".into()], vec![(0, true, false)])
    );
    assert!(!state.path().join("config/1").exists());

    let said = apply(&host, &first, &["-m", "the first"]).ok().stdout;
    assert!(said.ends_with("generation 1 is in force, generation 0 was before\n"), "{said}");
    host.wait_up("web");
    eventually("the removed one to be gone", || names(&host) == ["hand", "own", "web"]);
    assert_eq!(host.pid_of("own"), own, "its file says the same in another folder");
    let files = [("own", SERVE), ("web", &says("two"))];
    let second = desk(host.dir(), "second", &files);
    let said = apply(&host, &second, &[]).ok().stdout;
    assert!(said.contains("web: changed, restarts\n") && said.contains("hand: removed\n"), "{said}");
    host.wait_log("web", "two");
    assert_eq!(host.pid_of("own"), own);
    // The same again changes nothing.
    let said = apply(&host, &second, &[]).ok().stdout;
    assert_eq!(said, "no service changes\ngeneration 2 is in force, as before\n");

    // One file takes the place of the one of its name.
    let one = desk(host.dir(), "one", &[("web", &says("three"))]).join("services/web.yaml");
    let said = host.ctl(&["apply", text(&one)]).ok().stdout;
    assert!(said.contains("-process") && said.contains("web: changed, restarts\n"), "{said}");
    host.wait_log("web", "three");
    assert_eq!(names(&host), ["own", "web"]);
    // The file that is shown is the one in force.
    assert!(host.ctl(&["cat", "web"]).ok().stdout.contains("three"));
    assert!(host.ctl(&["cat", "own"]).ok().stdout.contains("serve"));
    let got = host.path("got");
    host.ctl(&["get", text(&got)]).ok();
    assert_eq!(host.ctl(&["diff", text(&got)]).ok().stdout, "");
    assert!(host.ctl(&["diff", text(&second)]).ok().stdout.contains("print=two"));
    assert!(host.ctl(&["diff", "--generation", "2"]).ok().stdout.contains("print=two"));

    // Back, and back to the files of the host itself.
    let said = host.ctl(&["rollback"]).ok().stdout;
    assert!(said.ends_with("generation 4 is in force, generation 3 was before\n"), "{said}");
    eventually("the file from before", || host.log_text("web").matches("two").count() == 2);
    let audit = host.log_text("audit");
    assert!(
        audit.contains("call=Configuration.Apply") && audit.contains("what=\"3 files the first\""),
        "{audit}"
    );
    assert!(audit.contains("told=\"generation 4, before 3\""), "{audit}");
    // Another host on this state, as after a reboot, runs by what is in force.
    host.poweroff();
    let mut host = on(state.path()).up(&["own", "web"]);
    host.wait_log("web", "two");
    assert!(
        host.events()
            .iter()
            .any(|event| event.message.contains("generation 4, which was applied, is in force"))
    );
    host.write_service("ignored", SERVE);
    host.ctl(&["reload"]).ok();
    assert_eq!(names(&host), ["own", "web"]);
    host.ctl(&["rollback", "0"]).ok();
    host.wait_up("ignored");
    eventually("the others to be gone", || names(&host) == ["ignored", "own"]);
    assert_eq!(history(&host).last(), Some(&(0, true, false)));
    host.poweroff();
}

#[test]
fn a1_an_apply_with_mistakes_changes_nothing_and_names_every_mistake() {
    let mut host = Host::builder().service("web", SERVE).service("db", SERVE).up(&["web", "db"]);
    let pids = ["web", "db"].map(|name| host.pid_of(name));
    let wrong = desk(
        host.dir(),
        "wrong",
        &[
            ("web", &says("new")),
            ("bad-key", "process: {command: [/bin/true]}\nproces: 3"),
            ("bad-unit", "process: {command: [/bin/true]}\nstop: {timeout: 10x}"),
            ("bad-friend", "process: {command: [/bin/true]}\ndepends: [{service: nobody}]"),
            ("machine.yaml", "hostnam: x"),
            ("groups/g.yaml", "minimun: 1s"),
        ],
    );
    for more in [&[][..], &["--dry-run"], &["--auto-rollback", "1m"]] {
        let said = apply(&host, &wrong, more).expect(1);
        let places = [
            "services/bad-key.yaml:3:1: ",
            "services/bad-unit.yaml:3:17: ",
            "services/bad-friend.yaml:3:21: ",
            "machine.yaml:1:1: ",
            "groups/g.yaml:1:1: ",
        ];
        for place in places {
            assert!(said.stderr.contains(&format!("{}/{place}", wrong.display())), "{place}: {said:?}");
        }
        assert!(said.stderr.contains("5 mistakes; nothing was changed"), "{said:?}");
    }
    let answer: Value = host.ctl(&["-o", "json", "apply", text(&wrong)]).expect(1).json();
    let found = answer["mistakes"].as_array().expect("a list");
    let warnings = found.iter().filter(|found| found["warning"] == json!(true)).count();
    assert_eq!((found.len(), warnings), (6, 1), "the group has no member: {answer}");
    assert_eq!((&answer["applied"], &answer["generation"]), (&json!(false), &json!(0)));
    assert_eq!(["web", "db"].map(|name| host.pid_of(name)), pids);
    assert_eq!((names(&host), history(&host)), (vec!["db".into(), "web".into()], vec![(0, true, false)]));
    assert!(!host.log_text("web").contains("new"));
    let kept = fs::read_dir(host.path("lib/config")).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "nothing of it stays on the disk");
    host.ctl(&["confirm"]).expect(1);
    host.poweroff();
}

#[test]
fn a2_an_apply_that_is_not_confirmed_is_taken_back() {
    each_fault(|fault| {
        let mut host =
            Host::builder().service("web", &says("old")).service("uplink", SERVE).up(&["web", "uplink"]);
        // Without the uplink nobody could confirm it.
        let cut = desk(host.dir(), "cut", &[("web", &says("new"))]);
        let said = apply(&host, &cut, &["--auto-rollback", "6s"]).ok().stdout;
        assert!(said.contains("uplink: removed, stops\n") && said.contains("within 6s"), "{said}");
        host.wait_log("web", "new");
        eventually("the uplink to be gone", || names(&host) == ["web"]);
        fault.strike(&host);
        eventually("the uplink to be there again", || names(&host) == ["uplink", "web"]);
        host.wait_up("uplink");
        eventually("a run of its old file", || host.log_text("web").matches("old").count() == 2);
        assert_eq!(history(&host), [(1, false, true), (0, true, false)]);
        let told =
            host.events().iter().filter(|event| event.message.contains("nobody has confirmed it")).count();
        assert_eq!(told, 1);
        host.ctl(&["confirm"]).expect(1);

        // A confirmed one stays, also beyond its time.
        apply(&host, &cut, &["--auto-rollback", "5s"]).ok();
        eventually("a run of the new file", || host.log_text("web").matches("new").count() == 2);
        assert_eq!(host.ctl(&["confirm", "7"]).expect(1).status, 1, "that one does not wait");
        assert_eq!(host.ctl(&["confirm"]).ok().stdout, "generation 2 is confirmed\n");
        fault.strike(&host);
        let before = host.newest_event();
        // Its time would be over by then: another trial that begins later is taken back first.
        apply(&host, &desk(host.dir(), "next", &[("web", &says("next"))]), &["--auto-rollback", "6s"]).ok();
        host.wait_event(before, "the end of the next trial", |event| {
            event.message.contains("nobody has confirmed")
        });
        assert_eq!(history(&host)[..2], [(3, false, true), (2, true, false)]);
        host.poweroff();
    });
}

#[test]
fn a2_a_boot_before_the_confirmation_returns_to_the_old_configuration() {
    let state = tempfile::tempdir().expect("a folder");
    let host = on(state.path()).up(&["own"]);
    apply(&host, &desk(host.dir(), "kept", &[("kept", SERVE)]), &[]).ok();
    apply(&host, &desk(host.dir(), "tried", &[("tried", SERVE)]), &["--auto-rollback", "1h"]).ok();
    host.wait_up("tried");
    // As when the power goes.
    drop(host);
    for _ in 0..2 {
        let mut host = on(state.path()).up(&["kept"]);
        assert_eq!(names(&host), ["kept"]);
        assert_eq!(history(&host), [(2, false, true), (1, true, false), (0, false, false)]);
        host.poweroff();
    }
}

/// The whole host is killed at random moments of an apply.
#[test]
fn a3_a_host_that_ends_during_an_apply_has_the_old_or_the_new_configuration() {
    let state = tempfile::tempdir().expect("a folder");
    let mut dice = Dice::new(3);
    // What is known to be in force; a number for each configuration, which both of its services say.
    let mut kept = 0;
    for number in 1..=12 {
        let host = on(state.path()).start();
        let now = names(&host);
        let expected = |number: u32| match number {
            0 => vec!["own".to_owned()],
            number => vec![format!("a-{number}"), format!("b-{number}")],
        };
        assert!(now == expected(kept) || now == expected(number - 1), "{now:?} after {kept}, {number}");
        if now == expected(number - 1) {
            kept = number - 1;
        }
        let [a, b] = ["a", "b"].map(|name| format!("{name}-{number}"));
        let desk = desk(state.path(), "desk", &[(&a, SERVE), (&b, SERVE)]);
        let mut lines = host.follow(&["apply", text(&desk)]);
        // Each third one is not cut off.
        let line = lines.next(if number % 3 == 0 { PATIENCE } else { dice.millis(150) });
        if line.is_some() {
            kept = number;
        }
        drop(host);
    }
    let mut host = on(state.path()).start();
    assert_eq!(names(&host).len(), 2);
    host.poweroff();
}

/// PID 1 crashes at random moments of an apply: the services that run are those of the configuration that is in force.
#[test]
fn a3_a_crash_of_pid_1_during_an_apply_leaves_no_mixture() {
    let mut host = Host::builder().service("own", SERVE).crash_limit("100/1m").up(&["own"]);
    let mut dice = Dice::new(4);
    for number in 1..=8 {
        let word = format!("word-{number}");
        let name = format!("b-{number}");
        let desk = desk(host.dir(), "desk", &[("a", &says(&word)), (&name, SERVE)]);
        let lines = host.follow(&["apply", text(&desk)]);
        std::thread::sleep(dice.millis(120));
        host.crash(|| host.signal(libc::SIGSEGV));
        drop(lines);
        let in_force: Value = host.ctl(&["-o", "json", "get"]).ok().json();
        let files = in_force["files"].as_array().expect("files");
        let mut expected: Vec<String> = files
            .iter()
            .map(|file| file["name"].as_str().expect("a name"))
            .filter_map(|name| Some(name.strip_prefix("services/")?.strip_suffix(".yaml")?.to_owned()))
            .collect();
        expected.sort();
        eventually("the services of the configuration in force", || {
            let all_up = host.services().iter().all(|service| service.builtin || service.up);
            names(&host) == expected
                && all_up
                && !host.ctl(&["services"]).ok().stdout.contains("its file or image changed")
        });
    }
    host.poweroff();
}

#[test]
fn a4_the_second_of_two_operators_is_told() {
    let mut host = Host::builder().service("own", SERVE).up(&["own"]);
    let folder = |name: &str| desk(host.dir(), name, &[(name, SERVE)]);
    let (ann, bob) = (folder("ann"), folder("bob"));
    // A change of what is no longer in force.
    apply(&host, &ann, &["--base", "0"]).ok();
    let said = apply(&host, &bob, &["--base", "0"]).expect(1).stderr;
    assert!(said.contains("generation 1 (applied by user 0") && said.contains("and not 0"), "{said}");
    assert_eq!(names(&host), ["ann"]);
    // While the other's waits for its confirmation.
    apply(&host, &bob, &["--auto-rollback", "1h"]).ok();
    let said = apply(&host, &ann, &[]).expect(1).stderr;
    assert!(said.contains("generation 2 of the configuration, applied by user 0"), "{said}");
    assert!(said.contains("waits for its confirmation") && said.contains("`kelsonctl rollback 1`"), "{said}");
    let shown = host.ctl(&["history"]).ok();
    assert!(shown.stdout.contains("on trial") && shown.stderr.contains("`kelsonctl confirm`"), "{shown:?}");
    assert_eq!(names(&host), ["bob"]);
    // Its author, or another, leaves it at once.
    let said = host.ctl(&["rollback"]).ok().stdout;
    assert!(said.contains("generation 1 is in force"), "{said}");
    host.wait_up("ann");
    host.ctl(&["confirm"]).expect(1);

    // Of many at the same time one wins, and the others are told.
    let desks = ["c", "d", "e", "f"].map(folder);
    let calls: Vec<_> = desks
        .iter()
        .map(|desk| host.client().command(&["apply", text(desk), "--base", "1"]).output())
        .collect();
    let won = calls.iter().filter(|call| call.as_ref().is_ok_and(|output| output.status.success())).count();
    assert_eq!(won, 1);
    host.poweroff();
}

#[test]
fn only_an_admin_may_apply_and_a_reader_sees_the_history() {
    let mut host = Host::builder()
        .service("reader", &format!("{SERVE}api: reader"))
        .service("operator", &format!("{SERVE}api: operator"))
        .up(&["reader", "operator"]);
    let program = paths::binary("kelsonctl").display().to_string();
    let endpoint = format!("unix://{}", host.path("run/init.sock").display());
    let desk = desk(host.dir(), "desk", &[("web", SERVE)]);
    let call = |service: &str, words: &[&str]| {
        host.ctl(&[&["exec", service, "--", &program, "--endpoint", &endpoint], words].concat())
    };
    call("reader", &["history"]).ok();
    for service in ["reader", "operator"] {
        for words in [&["apply", text(&desk)][..], &["get"], &["rollback", "0"], &["confirm"]] {
            let said = call(service, words).expect(4).stderr;
            assert!(said.contains("needs `api: admin`"), "{said}");
        }
    }
    host.poweroff();
}

#[test]
fn the_time_of_a_trial_is_bounded() {
    let mut host = Host::builder().service("own", SERVE).up(&["own"]);
    let desk = desk(host.dir(), "desk", &[("web", SERVE)]);
    for time in ["1s", "2d"] {
        let said = apply(&host, &desk, &["--auto-rollback", time]).expect(1).stderr;
        assert!(said.contains("5 s at least and a day at most"), "{said}");
    }
    assert_eq!(history(&host), [(0, true, false)]);
    host.poweroff();
}
