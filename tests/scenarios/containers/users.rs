//! Containers with a user namespace: their root is no user of the host.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use kelson_tests::{Host, on_terminal};

use super::{Runtime, host, run_by, runtime, steps, test_image};

/// Runs a test with [`Runtime::Users`].
fn mapped(test: impl FnOnce()) {
    run_by(Runtime::Users, test);
}

/// The first id of the host that a process has, and how many there are.
fn range(host: &Host, name: &str) -> (u32, u32) {
    let map = fs::read_to_string(format!("/proc/{}/uid_map", host.outer_pid(host.pid_of(name))));
    let map = map.expect("it runs");
    let numbers: Vec<u32> = map.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    assert_eq!((numbers[0], numbers.len()), (0, 3), "{map}");
    (numbers[1], numbers[2])
}

/// What a file of the host says about its owner.
fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (found.uid(), found.gid())
}

/// What a command in a container prints.
#[track_caller]
fn within(host: &Host, name: &str, words: &[&str]) -> String {
    host.ctl(&[&["exec", name, "--", "/program"], words].concat()).ok().stdout
}

#[test]
fn the_root_of_a_container_is_nobody_on_the_host_and_its_files_are_on_the_disk_as_without_the_key() {
    mapped(|| {
        let mut host = host(&[test_image()])
            .service(
                "web",
                &steps("touch=/of-root, touch=/of-user, 'chown=/of-user:1000', print=made, serve"),
            )
            .service("other", &format!("{}user: web\n", steps("report-of=status, print=made, serve")))
            .up(&["web", "other"]);
        host.wait_log("web", "made");
        let (first, count) = range(&host, "web");
        assert!((524_288..=1_878_982_656).contains(&first) && first % 65_536 == 0, "{first}");
        assert_eq!(count, 65_536);
        assert_ne!(range(&host, "other").0, first, "no two containers have the same");
        let process = format!("/proc/{}", host.outer_pid(host.pid_of("web")));
        assert_eq!(owner(Path::new(&process)), (first, first));
        // A named user of the image.
        let log = host.wait_log("other", "made");
        assert!(log.contains("status Uid: 1000 1000 1000 1000"), "{log}");
        assert!(log.contains("status Gid: 1001 1001") && log.contains("status Groups: 1002"), "{log}");
        let process = format!("/proc/{}", host.outer_pid(host.pid_of("other")));
        let (other, _) = range(&host, "other");
        assert_eq!(owner(Path::new(&process)), (other + 1000, other + 1001));
        let upper = host.inside(&host.path("lib/containers/writable/web/upper").display().to_string());
        assert_eq!((owner(&upper.join("of-root")), owner(&upper.join("of-user"))), ((0, 0), (1000, 1000)));
        let seen = within(&host, "web", &["owner=/of-root", "owner=/of-user", "owner=/program"]);
        let expected = ["owner /of-root 0:0", "owner /of-user 1000:1000", "owner /program 0:0"];
        assert!(seen.lines().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{seen}");
        host.poweroff();
    });
}

#[test]
fn what_kelson_mounts_belongs_to_the_root_of_the_container() {
    mapped(|| {
        let key = runtime();
        let file = format!(
            "container: {{{key}image: 'test:1', network: none, mounts: [{{source: tmpfs, target: /of-user, \
             options: [uid=1000, gid=1001, mode=0700]}}, {{source: tmpfs, target: /new/of-root}}], \
             devices: [/dev/full], command: [/program, 'put=/dev/stdout:reopened', print=, serve]}}\n"
        );
        let mut host = host(&[test_image()]).service("web", &file).up(&["web"]);
        host.wait_log("web", "reopened");
        let paths = [
            ("/dev", "0:0 755"),
            ("/dev/null", "0:0 666"),
            ("/dev/full", "0:0 666"),
            ("/dev/fd", "0:0 777"),
            ("/dev/shm", "0:0 1777"),
            ("/dev/mqueue", "0:0 1777"),
            ("/dev/pts", "0:0 755"),
            ("/dev/pts/ptmx", "0:0 666"),
            ("/of-user", "1000:1001 700"),
            ("/new", "0:0 755"),
            ("/new/of-root", "0:0 1777"),
            // The kernel's own belong to nobody here.
            ("/proc/sys", "65534:65534 555"),
        ];
        let words: Vec<String> = paths.iter().map(|(path, _)| format!("owner={path}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let seen = within(&host, "web", &words);
        let expected: Vec<String> =
            paths.iter().map(|(path, owner)| format!("owner {path} {owner}")).collect();
        assert_eq!(seen.lines().collect::<Vec<_>>(), expected);
        let (status, shown) = on_terminal(
            host.client().command(&["exec", "-t", "web", "--", "/program", "owner=/dev/pts/0", "report"]),
            "",
        );
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        for line in ["owner /dev/pts/0 0:5 620", "fd.0 /dev/pts/0", "tty true", "status Uid: 0 0 0 0"] {
            assert!(lines.contains(&line), "{status} {line}: {shown}");
        }
        host.poweroff();
    });
}

#[test]
fn a_volume_looks_the_same_as_without_the_key_and_a_secret_and_the_socket_are_the_users() {
    let volume = tempfile::tempdir().expect("a writable folder");
    let at = |name: &str| volume.path().join(name);
    for (name, id) in [("of-root", 0), ("of-user", 1000), ("of-stranger", 70_000)] {
        fs::write(at(name), "text").expect("a writable folder");
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o600)).expect("it is ours");
        chown(at(name), Some(id), Some(id)).expect("it is ours");
    }
    mapped(|| {
        let key = runtime();
        let file = format!(
            "container: {{{key}image: 'test:1', mounts: [{{source: {}, target: /volume, options: [rw, rbind]}}], \
             command: [/program, cat=/volume/of-root, cat=/run/secrets/db, 'touch=/volume/new', \
             'chown=/volume/new:33', 'notify=READY=1', serve]}}\n\
             readiness: notify\nsecrets: [db]\n",
            volume.path().display()
        );
        let user = file
            .replace("cat=/volume/of-root", "cat=/volume/of-user, cat=/etc/hosts")
            .replace("'touch=/volume/new', 'chown=/volume/new:33', ", "")
            + "user: '1000'\n";
        let mut host = host(&[test_image()]).service("web", &file).service("user", &user).start();
        let secret = host.path("value");
        fs::write(&secret, "hush\n").expect("the test's folder is writable");
        host.ctl(&["secret", "set", "db", secret.to_str().expect("UTF-8")]).ok();
        host.wait_up("web");
        host.wait_up("user");
        for name in ["web", "user"] {
            let log = host.wait_log(name, "hush");
            assert!(log.contains("text"), "{log}");
        }
        assert_eq!(owner(&at("new")), (33, 33));
        let seen = within(&host, "web", &["owner=/volume/of-user", "owner=/volume/of-stranger"]);
        assert_eq!(seen, "owner /volume/of-user 1000:1000 600\nowner /volume/of-stranger 65534:65534 600\n");
        // A file of nobody in the container is not its root's to read.
        let denied = host.ctl(&["exec", "web", "--", "/program", "cat=/volume/of-stranger"]);
        assert!(denied.stderr.contains("Permission denied"), "{denied:?}");
        host.poweroff();
    });
}

#[test]
fn the_ids_of_a_container_stay_its_own_over_crashes_and_restarts() {
    mapped(|| {
        let mut host = host(&[test_image()])
            .crash_limit("1000/1m")
            .service("web", &steps("touch=/mark, serve"))
            .service("other", &steps("serve"))
            .up(&["web", "other"]);
        let before = [range(&host, "web"), range(&host, "other")];
        assert_ne!(before[0], before[1]);
        let ranges = |host: &Host| [range(host, "web"), range(host, "other")];
        host.crash(|| host.signal(libc::SIGSEGV));
        host.wait_up("web");
        within(&host, "web", &["wait-path=/mark"]);
        host.ctl(&["reexec"]).ok();
        host.wait_up("web");
        host.ctl(&["restart", "web", "--wait"]).ok();
        assert_eq!(ranges(&host), before);
        host.ctl(&["stop", "web", "--wait"]).ok();
        host.ctl(&["start", "web", "--wait"]).ok();
        assert_eq!(ranges(&host), before);
        host.poweroff();
    });
}

#[test]
fn the_key_can_change_and_the_files_stay() {
    let file = |runtime: Runtime| {
        let mut file = String::new();
        run_by(runtime, || file = steps("serve"));
        file
    };
    mapped(|| {
        let mut host = host(&[test_image()]).service("web", &file(Runtime::Kelson)).up(&["web"]);
        within(&host, "web", &["touch=/mark", "chown=/mark:1000"]);
        let map = |host: &Host| {
            fs::read_to_string(format!("/proc/{}/uid_map", host.outer_pid(host.pid_of("web")))).unwrap()
        };
        let of_host = map(&host);
        for runtime in [Runtime::Users, Runtime::Kelson] {
            host.write_service("web", &file(runtime));
            // The machine file of the test is a mistake.
            host.ctl(&["reload"]);
            host.ctl(&["restart", "web", "--wait"]).ok();
            assert_eq!(map(&host) == of_host, runtime == Runtime::Kelson);
            let seen = within(&host, "web", &["owner=/program"]);
            assert_eq!(seen, "owner /program 0:0 755\n");
        }
        host.poweroff();
    });
}

#[test]
fn what_no_user_namespace_can_have_is_refused_with_the_reason() {
    mapped(|| {
        let key = runtime();
        let proc = format!(
            "container: {{{key}image: 'test:1', command: [/program, serve], mounts: [{{source: /proc, target: /host-proc, \
             options: [rbind]}}]}}\nrestart: {{policy: once}}\n"
        );
        let mut host = host(&[test_image()])
            .service("user", &format!("{}user: '65536'\nrestart: {{policy: once}}\n", steps("serve")))
            .service("mount", &proc)
            .start();
        let failed = host.wait_state("user", "failed").message;
        assert!(failed.contains("user 65536 of image test:1 is above 65535"), "{failed}");
        let failed = host.wait_state("mount", "failed").message;
        assert!(
            failed.contains("cannot map the owners of files in /proc") && failed.contains("(proc, Linux "),
            "{failed}"
        );
        assert!(failed.contains("write userNamespace: false"), "{failed}");
        host.poweroff();
    });
}
