//! The files: mistakes in them are all told at once and cost nobody else anything; SIGHUP reads them again.

use std::path::Path;
use std::process::{Command, Stdio};

use kelson_tests::{Host, eventually, paths};
use serde_json::{Value, json};

const SERVE: &str = "process: {command: [$PROGRAM, serve]}\n";

/// Name, text, what is to be said, and in which line.
const MISTAKES: [(&str, &str, usize, &str); 10] = [
    ("unknown-key", "process: {command: [/bin/true]}\nproces: 3", 3, "process"),
    ("wrong-type", "process: {command: /bin/true}", 2, "list"),
    ("wrong-unit", "process: {command: [/bin/true]}\nstop: {timeout: 10x}", 3, "10x"),
    ("unknown-service", "process: {command: [/bin/true]}\ndepends: [{service: nobody}]", 3, "nobody"),
    ("self", "process: {command: [/bin/true]}\ndepends: [{service: self}]", 3, "self"),
    ("forever", "process: {command: [/bin/true]}\ntype: oneshot\nrestart: {policy: forever}", 4, "oneshot"),
    ("other-name", "name: another\nprocess: {command: [/bin/true]}", 1, "other-name"),
    ("no-process", "description: nothing to run", 0, "process"),
    ("unknown-signal", "process: {command: [/bin/true]}\nstop: {signal: SIGNOTHING}", 3, "SIGNOTHING"),
    ("unknown-user", "process: {command: [/bin/true]}\nuser: nobody-of-this-name", 3, "nobody-of-this-name"),
];

#[test]
fn files_ten_mistakes_are_told_at_once_and_all_good_services_start() {
    let mut builder = Host::builder()
        .service("good", SERVE)
        .service("better", &format!("{SERVE}depends: [{{service: good}}]"))
        .service("best", &format!("{SERVE}depends: [{{service: better}}, {{path: /}}]"));
    for (name, text, _, _) in MISTAKES {
        builder = builder.service(name, text);
    }
    let mut host = builder.start();
    let folder = host.path("config");
    let folder = folder.to_str().expect("a path in UTF-8");
    let output = host.ctl(&["validate", "--root", "/", folder]).expect(1);
    let json = host.ctl(&["-o", "json", "validate", "--root", "/", folder]).expect(1);
    let told: Vec<serde_json::Value> = json.json();
    assert_eq!(told.len(), MISTAKES.len(), "{told:#?}");
    let all = format!("{}{}", output.stdout, output.stderr);
    for (name, _, line, word) in MISTAKES {
        let place = match line {
            0 => format!("{name}.yaml"),
            line => format!("{name}.yaml:{line}:"),
        };
        let said = all.lines().find(|said| said.contains(&place));
        let said = said.unwrap_or_else(|| panic!("no {place} in\n{all}"));
        assert!(said.contains(word), "\"{word}\" is to be said of {name}: {said}");
    }
    host.wait_all_up(&["good", "better", "best"]);
    for (name, _, _, word) in MISTAKES {
        let service = host.service(name);
        assert_eq!((service.state.as_str(), service.up, service.pid), ("failed", false, None), "{service:?}");
        assert!(service.message.contains(word) && service.message.contains(".yaml"), "{service:?}");
    }
    host.poweroff();
}

#[test]
fn files_sighup_starts_new_services_stops_removed_ones_and_names_changed_ones() {
    let mut host = Host::builder()
        .service("same", SERVE)
        .service("leaving", SERVE)
        .runs("changed", "print=old, serve")
        .service("broken", SERVE)
        .start();
    host.wait_all_up(&["same", "leaving", "changed", "broken"]);
    let pids = ["same", "changed", "broken"].map(|name| host.pid_of(name));
    let mut before = host.newest_event();
    let mut reload = |host: &Host| {
        host.signal(libc::SIGHUP);
        let read = host.wait_event(before, "that the files were read", |event| {
            event.service.is_empty() && event.message.starts_with("the files were read again")
        });
        before = read.seq;
        read.message
    };
    assert_eq!(reload(&host), "the files were read again", "nothing has changed");

    host.write_service("arriving", SERVE);
    host.write_service("by-hand", &format!("{SERVE}start: manual"));
    host.write_service("changed", "process: {command: [$PROGRAM, print=new, serve]}");
    host.write_service("broken", "process: {command: 3}");
    host.remove_service("leaving");
    let said = reload(&host);
    for part in ["started: arriving;", "stopped: leaving;", "take it up: changed;", "broken.yaml:2:"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    host.wait_up("arriving");
    eventually("the removed one to be gone", || {
        host.services().iter().all(|service| service.name != "leaving")
    });
    assert_eq!(host.ctl(&["status", "leaving"]).status, 1);
    assert!(!host.cgroup_of("leaving").exists());
    assert_eq!(host.service("by-hand").pid, None);
    // Running services go on as they were.
    assert_eq!(["same", "changed", "broken"].map(|name| host.pid_of(name)), pids);
    assert!(!host.log_text("changed").contains("new"));
    host.ctl(&["restart", "changed", "--wait"]).ok();
    host.wait_log("changed", "new");
    assert_eq!(host.pid_of("same"), pids[0]);
    host.poweroff();
}

#[test]
fn kelsonctl_reload_prints_what_changed() {
    let mut host = Host::builder().runs("db", "serve").runs("old", "serve").up(&["db", "old"]);
    assert_eq!(host.ctl(&["reload"]).ok().stdout, "nothing changed\n");
    host.write_service("mail", "process: {command: [$PROGRAM, serve]}");
    host.write_service("db", "process: {command: [$PROGRAM, serve]}\ndescription: another");
    host.remove_service("old");
    let said = host.ctl(&["reload"]).ok().stdout;
    let expected =
        "mail: new, started\nold: removed, stopped\ndb: changed; `kelsonctl restart db` applies it\n";
    assert_eq!(said, expected);
    host.wait_up("mail");
    // A mistake is printed with its place, and nothing else is lost by it.
    host.write_service("mail", "process: {command: [$PROGRAM, serve]}\nnonsense: 1");
    let said = host.ctl(&["reload"]).expect(1).stderr;
    assert!(said.contains("mail.yaml:") && said.contains("nonsense"), "{said}");
    assert!(host.service("mail").up);
    // With a name a service reloads, and this one cannot.
    let said = host.ctl(&["reload", "db"]).expect(1).stderr;
    let refused = "db: refused: its file has no reload; add one, such as reload: {signal: SIGHUP}, or use kelsonctl \
                   restart db";
    assert!(said.contains(refused), "{said}");
    host.poweroff();
}

/// Runs a command and returns its JSON, whatever its exit status.
#[track_caller]
fn json_of(host: &Host, words: &[&str]) -> Value {
    host.ctl(&[&["-o", "json"], words].concat()).json()
}

#[test]
fn files_a_mistake_in_a_changed_file_is_shown_until_it_is_corrected() {
    let text = |text: &str| format!("process: {{command: [$PROGRAM, print={text}, serve]}}");
    let mut host = Host::builder()
        .machine("health: {minimum: 0s}")
        .service("web", &format!("{}\ngroup: shop", text("old")))
        .service("db", SERVE)
        .up(&["web", "db"]);
    eventually("the host to be healthy", || host.ctl(&["health"]).status == 0);
    let quiet = host.ctl(&["health"]).stdout;
    assert!(!quiet.contains("warning"), "{quiet}");
    assert_eq!(json_of(&host, &["status", "web"])["faultyFile"], Value::Null);

    host.write_service("web", &format!("{}\ngroup: shop\nnonsense: 1\nstop: {{timeout: 10x}}", text("new")));
    let said = host.ctl(&["reload"]).expect(1);
    assert_eq!(said.stdout, "web: mistake in its file, not applied\n");
    // Each view has both mistakes with their places, and says which version is in use.
    let services = host.ctl(&["services"]).ok().stdout;
    let line = |name: &str| services.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("web").ends_with("mistake in its file"), "{services}");
    assert!(!line("db").contains("mistake"), "{services}");
    for command in [&["status", "web"][..], &["why", "web"], &["health"], &["health", "shop"]] {
        let shown = host.ctl(command).ok().stdout;
        for part in
            ["/services/web.yaml:4:1: ", "/services/web.yaml:5:", "nonsense", "10x", "the version read "]
        {
            assert!(shown.contains(part), "{part} in kelsonctl {command:?}: {shown}");
        }
    }
    let file = json_of(&host, &["status", "web"])["faultyFile"].take();
    assert_eq!((&file["earlierInUse"], &file["mistakes"][0]["line"]), (&json!(true), &json!(4)), "{file}");
    assert!(file["earlierRead"].is_string(), "{file}");
    assert_eq!(json_of(&host, &["why", "web"])["faultyFile"], file);
    let health = json_of(&host, &["health"]);
    assert_eq!(
        (&health["healthy"], &health["warnings"][0]["service"]),
        (&json!(true), &json!("web")),
        "{health}"
    );
    assert_eq!(json_of(&host, &["health", "shop"])["warnings"][0]["mistakes"], file["mistakes"]);
    let mistakes = "kelson_service_file_mistake{service=\"";
    let metrics = host.ctl(&["metrics"]).ok().stdout;
    assert!(metrics.contains(&format!("{mistakes}web\"}} 1")), "{metrics}");
    assert!(!metrics.contains(&format!("{mistakes}db")), "{metrics}");
    assert!(host.events_of("web").iter().any(|event| event.message.contains("web.yaml:4:1: ")));

    // A restart does what it was asked with the version from before, and says so.
    let before = host.pid_of("web");
    let said = host.ctl(&["restart", "web", "--wait"]).expect(1);
    assert!(said.stdout.starts_with("web: "), "{said:?}");
    assert!(said.stderr.contains("the version read ") && said.stderr.contains("web.yaml:4:1: "), "{said:?}");
    assert_ne!(host.pid_of("web"), before);
    assert!(!host.log_text("web").contains("new"));
    let restarted = host.ctl(&["-o", "json", "restart", "web", "--wait"]).expect(1).json::<Value>();
    assert_eq!(
        (&restarted[0]["outcome"], &restarted[0]["faultyFile"]),
        (&json!("done"), &file),
        "{restarted}"
    );
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.ctl(&["start", "web", "--wait"]).expect(1);
    host.ctl(&["restart", "db", "--wait"]).ok();

    // Neither another reload nor another mistake makes the version in use a newer one.
    host.write_service("web", "process: 3");
    host.ctl(&["reload"]).expect(1);
    let now = json_of(&host, &["status", "web"])["faultyFile"].take();
    assert_eq!(
        (&now["earlierRead"], &now["mistakes"][0]["line"]),
        (&file["earlierRead"], &json!(2)),
        "{now}"
    );

    host.write_service("web", &format!("{}\ngroup: shop", text("new")));
    assert!(host.ctl(&["reload"]).ok().stdout.contains("web: changed"));
    assert_eq!(json_of(&host, &["status", "web"])["faultyFile"], Value::Null);
    assert!(!host.ctl(&["health"]).ok().stdout.contains("warning"));
    // A reading serves all who ask within a second.
    eventually("the metric to go", || !host.ctl(&["metrics"]).ok().stdout.contains(mistakes));
    host.ctl(&["restart", "web", "--wait"]).ok();
    host.wait_log("web", "new");

    // A file that is gone has no mistake either.
    host.write_service("db", "process: 3");
    host.ctl(&["reload"]).expect(1);
    host.remove_service("db");
    host.ctl(&["reload"]).ok();
    assert_eq!(json_of(&host, &["health"])["warnings"], json!([]));
    host.poweroff();
}

#[test]
fn files_a_service_without_an_earlier_version_fails_with_its_mistake() {
    let mut host = Host::builder().service("wrong", "process: 3").start();
    let wrong = host.wait_state("wrong", "failed");
    let file = json_of(&host, &["status", "wrong"])["faultyFile"].take();
    assert_eq!((&file["earlierInUse"], &file["earlierRead"]), (&json!(false), &Value::Null), "{file}");
    assert!(wrong.message.ends_with(file["mistakes"][0]["message"].as_str().expect("a text")), "{wrong:?}");
    assert_eq!(
        host.ctl(&["status", "wrong"]).ok().stdout.matches("wrong.yaml:2:").count(),
        2,
        "message and event"
    );
    assert!(host.ctl(&["metrics"]).ok().stdout.contains("kelson_service_file_mistake{service=\"wrong\"} 1"));
    host.ctl(&["restart", "wrong"]).expect(1);
    host.poweroff();
}

#[test]
fn files_a_missing_folder_is_a_host_that_has_failed_until_it_is_there() {
    let folder = std::env::temp_dir().join(format!("kelson-late-{}", std::process::id()));
    let path = folder.to_str().expect("a path in UTF-8");
    let mut host = Host::builder().argument("--config").argument(path).start();
    eventually("the host to have failed", || json_of(&host, &["health"])["state"] == "failed");
    let reason =
        format!("its files could not be read: {path}: the folder cannot be read: No such file or directory");
    for command in [&["health"][..], &["health", "--wait", "--timeout", "20s"]] {
        let said = host.ctl(command).expect(1).stdout;
        assert!(said.starts_with("the host is failed (for ") && said.contains(&reason), "{said}");
    }
    assert!(
        host.events()
            .iter()
            .any(|event| event.message.starts_with("the host has failed: its files could not"))
    );
    // The next incarnation knows it too, and a reload that finds no folder changes nothing of it.
    host.ctl(&["reexec"]).ok();
    host.ctl(&["reload"]).expect(1);
    let health = json_of(&host, &["health"]);
    assert!(health["state"] == "failed" && health["message"].to_string().contains(&reason), "{health}");
    std::fs::create_dir(&folder).expect("the folder for temporary files is writable");
    std::fs::write(folder.join("machine.yaml"), "health: {minimum: 0s}").expect("it is writable");
    host.ctl(&["reload"]).ok();
    host.ctl(&["health", "--wait", "--timeout", "20s"]).ok();
    std::fs::remove_dir_all(&folder).expect("it is ours");
    host.poweroff();
}

/// With the binaries of the tests in place of those that its first line builds.
#[test]
fn files_the_quick_start_of_the_readme_works_as_it_is_written() {
    let readme = std::fs::read_to_string(paths::top().join("README.md")).expect("README.md");
    let blocks = readme.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block =
        blocks.into_iter().find(|block| block.contains("unshare ")).expect("the block of the quick start");
    let folder = std::env::temp_dir().join(format!("kelson-quick-{}", std::process::id()));
    let binaries = paths::binary("kelsonctl");
    let binaries = binaries.parent().and_then(Path::to_str).expect("a path in UTF-8");
    const BUILT: &str = "target/x86_64-unknown-linux-gnu/release";
    let script = block
        .lines()
        .map(|line| line.strip_prefix("# ").unwrap_or(line))
        .filter(|line| !line.starts_with("cargo build "))
        .map(|line| match line {
            // A busy machine may take longer.
            "sleep 1" => format!(
                "until {BUILT}/kelsonctl -e unix:///tmp/one/run/init.sock version; do sleep 0.1; done"
            ),
            line => line.replace("unshare ", "unshare --kill-child "),
        })
        .collect::<Vec<_>>()
        .join("\n")
        .replace(BUILT, binaries)
        .replace("/tmp/one", folder.to_str().expect("a path in UTF-8"));
    let script = format!("set -e\ntrap 'kill %1 2>/dev/null || true' EXIT\n{script}\n");
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-c", &script]).stdin(Stdio::null()).env("NO_COLOR", "1");
    let output = kelson_tests::Output::of(command, "the quick start").ok();
    let hello = output.stdout.lines().find(|line| line.starts_with("hello"));
    let hello = hello.unwrap_or_else(|| panic!("no service hello: {output:?}"));
    assert!(hello.contains("running") && output.stdout.contains("power off"), "{output:?}");
    std::fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn files_a_variable_that_nobody_expands_is_warned_of() {
    let mut host = Host::builder()
        .runs("web", "serve, --port=$PORT")
        .service("script", "process: {command: [/bin/sh, -c, 'exec sleep $TIME']}\nstart: manual")
        .start();
    let folder = host.path("config");
    let said = host.ctl(&["validate", folder.to_str().expect("a path in UTF-8")]).ok().stdout;
    let warning = "warning: process.command[2]: $PORT is not expanded, because no shell reads this command";
    assert!(said.contains(warning) && said.contains("services/web.yaml:2:"), "{said}");
    assert!(!said.contains("TIME"), "{said}");
    let told = host.events();
    assert!(told.iter().any(|event| event.message.contains("$PORT is not expanded")), "{told:#?}");
    host.poweroff();
}

#[test]
fn files_the_instances_of_one_file_come_and_go_with_its_list() {
    let text = |names: &str, more: &str| {
        format!(
            "instances: [{names}]\nprocess: {{command: [$PROGRAM, 'print=i am $(instance) of $(service)', serve]}}\n{more}"
        )
    };
    let mut host = Host::builder().service("worker", &text("a, b", "")).up(&["worker-a", "worker-b"]);
    host.wait_log("worker-b", "i am b of worker-b");
    let before = host.service("worker-b").pid;
    host.write_service("worker", &text("b, c", ""));
    host.read_again();
    host.wait_up("worker-c");
    let names = |host: &Host| -> Vec<String> {
        host.services()
            .into_iter()
            .map(|service| service.name)
            .filter(|name| name.starts_with("worker"))
            .collect()
    };
    eventually("the removed one is gone", || names(&host) == ["worker-b", "worker-c"]);
    // A mistake stops none of them, wherever it is.
    for mistake in ["user: [x]\n", "\tx: y\n"] {
        host.write_service("worker", &text("b, c", mistake));
        host.read_again();
        assert_eq!(names(&host), ["worker-b", "worker-c"]);
        let services = host.ctl(&["services"]).ok().stdout;
        assert_eq!(services.matches("mistake in its file").count(), 2, "{services}");
    }
    assert_eq!(host.service("worker-b").pid, before);
    host.poweroff();
}
