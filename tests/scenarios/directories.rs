//! Folders of a service below `/run`, `/var/lib` and their like: there before its first program, its user's, and removed as
//! its file says.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use kelson_tests::{Host, HostBuilder, eventually};

const FOLDERS: [&str; 4] = ["/run", "/var/lib", "/var/cache", "/var/log"];

fn builder() -> HostBuilder {
    FOLDERS.into_iter().fold(Host::builder(), HostBuilder::own_folder)
}

/// Leaves a file in each folder that is writable, and says which there were already.
const LEAVES: &str = "all=$RUNTIME_DIRECTORY:$STATE_DIRECTORY:$CACHE_DIRECTORY:$LOGS_DIRECTORY; IFS=:; for name in $all; do \
                      if [ -e $name/file ]; then echo found.$name; else echo made.$name; fi; touch $name/file; done";

fn leaves(more: &str) -> String {
    format!(
        "process: {{command: [sh, -c, '{LEAVES}; echo done; exec sleep 77300']}}\nuser: '1234:1235'\n{more}"
    )
}

#[track_caller]
fn owner_and_mode(path: PathBuf) -> (u32, u32, u32) {
    let found = fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

/// How often its log has a line with this end.
fn count(host: &Host, end: &str) -> usize {
    host.log_text("web").lines().filter(|line| line.ends_with(&format!(" {end}"))).count()
}

#[test]
fn a_service_has_its_folders_from_its_first_hook_to_its_end() {
    let text = leaves(
        "directories: {runtime: [shop, shop/sockets], state: [{path: shop, mode: '0750'}], cache: [a/b], logs: [shop]}\n\
         hooks: {pre: {command: [sh, -c, 'stat -c %u.%n $STATE_DIRECTORY']}}\n\
         environment: {LOGS_DIRECTORY: /var/log/shop}",
    );
    let mut host = builder().service("web", &text).up(&["web"]);
    host.wait_log("web", " done");
    host.wait_log("web", " 1234./var/lib/shop");
    for (path, expected) in [
        ("/run/shop", (1234, 1235, 0o755)),
        ("/run/shop/sockets", (1234, 1235, 0o755)),
        ("/var/lib/shop", (1234, 1235, 0o750)),
        ("/var/cache/a", (0, 0, 0o755)),
        ("/var/cache/a/b", (1234, 1235, 0o755)),
        ("/var/log/shop", (1234, 1235, 0o755)),
    ] {
        assert_eq!(owner_and_mode(host.inside(path)), expected, "{path}");
        assert_eq!(host.inside(path).join("file").exists(), expected.0 == 1234, "{path}");
    }
    let words = ["exec", "web", "--", "/bin/sh", "-c", "echo $RUNTIME_DIRECTORY"];
    assert_eq!(host.ctl(&words).ok().stdout, "/run/shop:/run/shop/sockets\n");
    let status = host.ctl(&["status", "web"]).ok().stdout;
    assert!(status.contains("directories"), "{status}");

    // A re-executed PID 1 leaves them to the run that goes on, and removes them after it.
    host.ctl(&["reexec"]).ok();
    assert!(host.inside("/run/shop/file").exists());
    host.ctl(&["restart", "web", "--wait"]).ok();
    eventually("the second run", || count(&host, "done") == 2);
    for folder in ["/run/shop", "/run/shop/sockets"] {
        assert_eq!(
            (count(&host, &format!("made.{folder}")), count(&host, &format!("found.{folder}"))),
            (2, 0)
        );
    }
    for folder in ["/var/lib/shop", "/var/cache/a/b", "/var/log/shop"] {
        assert_eq!(
            (count(&host, &format!("made.{folder}")), count(&host, &format!("found.{folder}"))),
            (1, 1)
        );
    }
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(!host.inside("/run/shop").exists());
    assert!(host.inside("/var/lib/shop/file").exists());
    host.poweroff();
}

#[test]
fn what_is_below_run_stays_as_long_as_the_file_says() {
    for (preserve, after_stop) in [("restart", false), ("always", true)] {
        let folders = format!("directories: {{runtime: [shop], preserve: {preserve}}}");
        let mut host = builder().service("web", &leaves(&folders)).up(&["web"]);
        host.wait_log("web", " done");
        host.ctl(&["restart", "web", "--wait"]).ok();
        eventually("the second run", || count(&host, "done") == 2);
        assert_eq!((count(&host, "made./run/shop"), count(&host, "found./run/shop")), (1, 1), "{preserve}");
        host.ctl(&["stop", "web", "--wait"]).ok();
        assert_eq!(host.inside("/run/shop/file").exists(), after_stop, "{preserve}");
        host.poweroff();
    }
}

/// The user puts a link where the next start expects a folder.
#[test]
fn a_link_that_the_user_has_planted_leads_nowhere() {
    let plants = "process: {command: [sh, -c, 'cd /var/lib/shop && rmdir spool && ln -s ../target spool; echo planted; exec sleep 77301']}\n\
                  user: '1234:1235'\n\
                  directories: {state: [shop, shop/spool]}\n\
                  restart: {policy: once}";
    let mut host = builder().service("web", plants).up(&["web"]);
    host.wait_log("web", "planted");
    fs::create_dir(host.inside("/var/lib/target")).expect("it can be made");
    host.ctl(&["restart", "web"]);
    let message = host.wait_state("web", "failed").message;
    let expected = "/var/lib/shop/spool: cannot make it: there is a symbolic link in its path, and Kelson follows none there";
    assert!(message.contains(expected), "{message}");
    assert_eq!(owner_and_mode(host.inside("/var/lib/target")).0, 0);
    host.poweroff();
}

/// What is mounted in a folder is no part of it: neither removed nor given away.
#[test]
fn what_is_mounted_in_a_folder_is_left_alone() {
    let mounts = "process: {command: [sh, -c, 'mkdir /run/shop/disk && mount --bind /var/lib/data /run/shop/disk && echo mounted && exec sleep 77302']}\n\
                  security: {noNewPrivileges: false, seccomp: unconfined}\n\
                  directories: {runtime: [shop], state: [data]}";
    let mut host = builder().service("web", mounts).up(&["web"]);
    host.wait_log("web", "mounted");
    fs::write(host.inside("/var/lib/data/precious"), "").expect("it can be written");
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.wait_event(0, "why it stays", |event| {
        event.service == "web"
            && event.message.contains("/run/shop: cannot remove it: a file system is mounted in it")
    });
    assert!(host.inside("/var/lib/data/precious").exists());
    host.poweroff();
}

#[test]
fn a_dynamic_user_is_the_services_own_and_has_its_folders() {
    const LOOKS: &str = "id -u; id -g; echo user $USER; touch $STATE_DIRECTORY/file && echo wrote; \
                         touch /var/lib/elsewhere || echo refused; exec sleep 77300";
    let text = |name: &str| {
        format!(
            "process: {{command: [sh, -c, '{LOOKS}']}}\nuser: dynamic\ndirectories: {{state: [{name}]}}\n\
             security: {{readOnlyRoot: true, privateTmp: true}}\nremoveIpc: true\n"
        )
    };
    let mut host =
        builder().service("feed", &text("feed")).service("news", &text("news")).up(&["feed", "news"]);
    let mut owners = Vec::new();
    for name in ["feed", "news"] {
        host.wait_log(name, " refused");
        let (uid, gid, mode) = owner_and_mode(host.inside("/var/lib").join(name));
        assert!(uid == gid && (61_184..65_280).contains(&uid) && mode == 0o755, "{uid} {gid} {mode:o}");
        let log = host.log_text(name);
        let words: Vec<&str> = log.lines().filter_map(|line| line.rsplit(' ').next()).collect();
        let id = uid.to_string();
        assert_eq!(words.iter().filter(|word| **word == id).count(), 2, "{log}");
        assert!(log.contains(&format!(" user {name}")) && log.contains(" wrote"), "{log}");
        owners.push(uid);
    }
    assert_ne!(owners[0], owners[1]);
    let shown = host.ctl(&["status", "feed"]).ok().stdout;
    assert!(shown.contains("dynamic"), "{shown}");
    host.poweroff();
}
