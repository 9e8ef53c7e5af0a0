//! P3: no file descriptor, signal mask, ignored signal, rlimit or environment of PID 1 leaks into a service.

use std::collections::BTreeMap;

use kelson_tests::Host;

/// The lines of `report`, by their first word or, of files with fields, by `file field`.
fn read(report: &str) -> BTreeMap<String, String> {
    report
        .lines()
        .filter_map(|line| {
            let (key, value) = line.split_once(' ')?;
            match (key, value.split_once(':')) {
                ("status", Some((field, value))) => {
                    Some((format!("status.{field}"), value.trim().to_owned()))
                }
                ("limits", _) => {
                    let words: Vec<&str> =
                        value.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect();
                    Some((format!("limits.{}", words.first()?), words.get(1..3)?.join(" ")))
                }
                _ => Some((key.to_owned(), value.to_owned())),
            }
        })
        .collect()
}

#[test]
fn p3_nothing_of_pid_1_leaks_into_a_service() {
    let mut host = Host::builder()
        .burdened()
        .runs("plain", "report=$DIR/plain, serve")
        .runs_with("notifying", "report=$DIR/notifying, notify=READY=1, serve", "readiness: notify")
        .runs_with("by-fd", "report=$DIR/by-fd, newline-on=3, serve", "readiness: {fd: 3}")
        .runs_with("given", "report=$DIR/given, serve", "environment: {LANG: de}\nlimits: {nofile: 77}")
        .runs_with("of-nobody", "report, serve", "user: nobody")
        .start();
    for name in ["plain", "notifying", "by-fd", "given"] {
        host.wait_up(name);
        let text = host.wait_file(name);
        let report = read(&text);
        let get = |key: &str| report.get(key).map_or("", String::as_str);

        let descriptors: Vec<&str> = report.keys().filter_map(|key| key.strip_prefix("fd.")).collect();
        let wanted: &[&str] = if name == "by-fd" { &["0", "1", "2", "3"] } else { &["0", "1", "2"] };
        assert_eq!(descriptors, wanted, "{name}: {text}");
        assert_eq!(get("fd.0"), "/dev/null");
        assert!(get("fd.1").starts_with("pipe:") && get("fd.2").starts_with("pipe:"), "{name}: {text}");
        assert_ne!(get("fd.1"), get("fd.2"), "{name}: the streams are told apart");

        for mask in ["SigIgn", "SigCgt", "SigPnd", "ShdPnd"] {
            assert_eq!(get(&format!("status.{mask}")), "0000000000000000", "{name}, {mask}: {text}");
        }
        // `serve` blocks the one signal that it waits for.
        assert_eq!(get("status.SigBlk"), format!("{:016x}", 1 << (libc::SIGTERM - 1)), "{name}: {text}");

        let nofile = if name == "given" { "77 77" } else { "1000 4000" };
        assert_eq!(get("limits.Max open files"), nofile, "{name}: what PID 1 was given itself: {text}");
        assert_eq!(get("limits.Max core file size"), "12345 12345", "{name}: {text}");

        let environment: Vec<&str> = report.keys().filter_map(|key| key.strip_prefix("env.")).collect();
        let mut wanted = vec!["KELSON_RUN", "KELSON_SERVICE", "PATH"];
        match name {
            "notifying" => wanted.insert(2, "NOTIFY_SOCKET"),
            "given" => wanted.insert(2, "LANG"),
            _ => {}
        }
        assert_eq!(environment, wanted, "{name}: {text}");
        assert_eq!(get("env.KELSON_SERVICE"), name);

        assert_eq!(get("status.Umask"), "0022", "{name}: {text}");
        let pid = host.pid_of(name).to_string();
        for id in ["pid", "sid", "pgid"] {
            assert_eq!(get(id), pid, "{name}: a session of its own: {text}");
        }
        assert_eq!((get("ppid"), get("tty"), get("cwd")), ("1", "false", "/"), "{name}: {text}");
        assert!(
            text.lines()
                .any(|line| line.starts_with("cgroup 0::") && line.ends_with(&format!("/kelson/{name}"))),
            "{text}"
        );
    }
    // The groups that a user brings along.
    host.wait_up("of-nobody");
    for variable in ["USER nobody", "LOGNAME nobody", "HOME /", "SHELL /"] {
        host.wait_log("of-nobody", &format!("env.{variable}"));
    }
    host.poweroff();
}

/// Each enlargement of the table waits for the kernel in a process with threads, and PID 1 with it.
#[test]
fn pid_1_has_room_for_its_descriptors_before_it_opens_them() {
    let host = Host::builder().runs("web", "serve").up(&["web"]);
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", host.init_pid())).expect("PID 1 is there");
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).expect("the kernel shows it");
    assert!(size.trim().parse::<u32>().expect("a number") >= 1024, "{size}");
}
