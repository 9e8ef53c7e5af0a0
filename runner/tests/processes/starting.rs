//! Starting: each step works or says why not, nothing of PID 1 leaks, a start that is given up leaves nothing.
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use crate::pid_one::{all_processes, as_pid_one, eventually, output, pipe, processes, reap_on_sigchld};
use kelson_runner::{Child, Command, Exit, Options, Processes, SpawnError, Step};
use kelson_spec::service::ResourceLimit;
use kelson_tests::skip;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

fn shell(script: &str) -> Command {
    Command::new("/bin/sh").args(["-c", script])
}

/// The value of a line of /proc/PID/status.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split(':').nth(1).unwrap().trim()
}

#[test]
fn each_step_that_fails_says_so() {
    as_pid_one(|| async {
        let processes = processes();
        let text = std::env::temp_dir().join("kelson-no-program");
        std::fs::write(&text, "no program").unwrap();
        let text = text.to_str().unwrap().to_owned();
        let limit = ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: 10, hard: 5 };
        let table = [
            (Command::new("/usr/bin/nope"), Step::Execute, "/usr/bin/nope: no such file or directory".into()),
            (Command::new("nope"), Step::Execute, "nope: no such file or directory".into()),
            (Command::new(text.as_str()), Step::Execute, format!("{text}: permission denied")),
            (Command::new("/bin"), Step::Execute, "/bin: permission denied".into()),
            (
                Command::new("/bin/true").working_directory("/x"),
                Step::WorkingDirectory,
                "cannot enter working directory /x: no such file or directory".into(),
            ),
            (
                Command::new("/bin/true").limits(&[limit]),
                Step::Limits,
                "cannot set limit nofile: invalid argument".into(),
            ),
            (Command::new("/bin/true").arg("a\0b"), Step::Prepare, "an argument holds a NUL byte".into()),
            (
                Command::new("/bin/true").descriptor(pipe().0, 100_000_000),
                Step::Descriptors,
                "cannot hand over descriptor 100000000: invalid argument".into(),
            ),
            (
                Command::new("/bin/true").user(33, 33, vec![]).ambient(1 << 63),
                Step::Capabilities,
                String::new(),
            ),
        ];
        for (command, step, expected) in table {
            let error = processes.spawn(command).await.unwrap_err();
            assert_eq!(error.step, step, "{error}");
            if !expected.is_empty() {
                assert_eq!(error.text, expected);
            }
        }
        eventually("failed starts are reaped", || all_processes().is_empty()).await;
        std::fs::remove_file(text).unwrap();
    });
}

#[test]
fn a_user_that_may_not_be_set_says_so() {
    as_pid_one(|| async {
        let processes = processes();
        let setuid_and_setgid = (1u64 << 6) | (1 << 7);
        let bounding = !setuid_and_setgid;
        let inner = shell("grep CapBnd /proc/self/status").bounding(Some(bounding));
        let text = output(&processes, inner).await;
        let set = u64::from_str_radix(field(&text, "CapBnd"), 16).unwrap();
        assert_eq!(set & setuid_and_setgid, 0);
        assert_ne!(set, 0);
        // PID 1 itself may not change users: threads that it makes from now on, the spawners, may not either.
        let dropped = Processes::new(Options::default()).unwrap();
        reap_on_sigchld(&dropped);
        drop_capability(7);
        let error = dropped.spawn(Command::new("/bin/true").user(33, 33, vec![])).await.unwrap_err();
        assert_eq!(
            (error.step, error.text.as_str()),
            (Step::User, "cannot set user 33: operation not permitted")
        );
    });
}

/// Takes a capability from this thread; threads that it makes later do not have it either.
fn drop_capability(number: u32) {
    let mut header = [0x2008_0522u32, 0];
    let mut data = [0u32; 6];
    // SAFETY: header and data have the sizes of version 3.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, &raw mut header, &raw mut data), 0);
        data[0] &= !(1 << number);
        assert_eq!(libc::syscall(libc::SYS_capset, &raw mut header, &raw const data), 0);
    }
}

#[test]
fn p3_nothing_of_pid_one_leaks() {
    as_pid_one(|| async {
        // PID 1 as it is at its worst: ignored signals, a handler, everything blocked, many descriptors without
        // CLOEXEC, raised limits, an odd umask, a full environment.
        // SAFETY: plain calls in a process of one test.
        let kept: Vec<OwnedFd> = unsafe {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            libc::signal(libc::SIGRTMIN() + 3, libc::SIG_IGN);
            libc::umask(0o077);
            std::env::set_var("SECRET", "1");
            (0..100).map(|_| std::os::fd::FromRawFd::from_raw_fd(libc::dup(2))).collect()
        };
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: plain calls with a struct of the right size.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised);
        }
        let given = ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: 777, hard: limit.rlim_max };
        let processes = Processes::new(Options { limits: vec![given], ..Options::default() }).unwrap();
        reap_on_sigchld(&processes);
        let script = "cat /proc/self/status; ulimit -n; umask; pwd; env; ls -l /proc/self/fd; \
            cat /proc/self/stat; exec 9<&1; ";
        let text = output(&processes, shell(script).env("ONLY", "this")).await;
        drop(kept);
        for name in ["SigBlk", "SigIgn", "SigPnd"] {
            assert_eq!(field(&text, name), "0000000000000000", "{name} in {text}");
        }
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&"777"), "{text}");
        assert!(lines.contains(&"0022"), "{text}");
        assert!(lines.contains(&"/"), "{text}");
        assert!(lines.contains(&"ONLY=this"), "{text}");
        assert!(!text.contains("SECRET"), "{text}");
        let links = lines.iter().filter(|line| line.contains(" -> ")).count();
        assert_eq!(links, 4, "0, 1, 2 and the folder that ls reads: {text}");
        // The shell leads a session and a process group of its own.
        assert_eq!(field(&text, "NSsid"), field(&text, "PPid"));
        assert_eq!(field(&text, "NSpgid"), field(&text, "PPid"));
    });
}

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

#[test]
fn a_child_has_the_oom_score_of_pid_1_where_that_is_unchanged() {
    as_pid_one(|| async {
        let before = std::fs::read_to_string(OOM_SCORE).unwrap();
        let cat = Command::new("/bin/cat").args([OOM_SCORE]).spared();
        assert_eq!(output(&processes(), cat).await, before);
    });
}

#[test]
fn a_child_is_not_as_safe_from_the_kernels_choice_as_pid_1() {
    as_pid_one(|| async {
        if std::fs::write(OOM_SCORE, "-1000").is_err() {
            return skip("it may not lower its OOM score: there is no CAP_SYS_RESOURCE");
        }
        let score = |text: String| text.trim().parse::<i32>().unwrap();
        let cat = || Command::new("/bin/cat").args([OOM_SCORE]);
        let processes = Processes::new(Options { oom_score: Some(5), ..Options::default() }).unwrap();
        reap_on_sigchld(&processes);
        assert_eq!(score(output(&processes, cat()).await), 5);
        assert_eq!(score(output(&processes, cat().spared()).await), -900);
        assert_eq!(score(std::fs::read_to_string(OOM_SCORE).unwrap()), -1000);
    });
}

/// The folder of a hierarchy of cgroups that limits PIDs: of version 1, mounted at `at` in the test's own mount
/// namespace, else that of cgroup2.
fn pids_controller(at: &Path) -> Option<PathBuf> {
    if mount(Some("none"), at, Some("cgroup"), MsFlags::empty(), Some("pids")).is_ok() {
        return Some(at.to_owned());
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let cgroup2 = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    let top = PathBuf::from(cgroup2.split(' ').nth(1)?);
    let given = std::fs::read_to_string(top.join("cgroup.subtree_control")).ok()?;
    given.split_whitespace().any(|name| name == "pids").then_some(top)
}

/// This process's own cgroup in it.
fn own_cgroup(top: &Path) -> PathBuf {
    let all = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = |of: &str| all.lines().find_map(|line| line.split_once(of)).map(|(_, path)| top.join(path));
    let version_1 = top.join("cgroup.sane_behavior").exists();
    own(if version_1 { ":pids:/" } else { "0::/" }).unwrap()
}

/// The kernel has made a pidfd, told its number and closed it again by then.
#[test]
fn a_start_without_a_place_for_it_closes_no_descriptor_of_another() {
    as_pid_one(|| async {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        let at = std::env::temp_dir().join(format!("kelson-pids-{now}"));
        std::fs::create_dir(&at).unwrap();
        let Some(top) = pids_controller(&at) else {
            std::fs::remove_dir(&at).unwrap();
            return skip("no cgroup can limit PIDs: the controller is neither in version 1 nor in cgroup2");
        };
        let own = own_cgroup(&top);
        let full = top.join(format!("kelson-full-{now}"));
        std::fs::create_dir(&full).unwrap();
        let processes = processes();
        assert_eq!(output(&processes, shell("echo x")).await, "x\n");
        let over = Arc::new(AtomicBool::new(false));
        let other = {
            let over = Arc::clone(&over);
            // Its descriptors take the numbers that are free.
            std::thread::spawn(move || {
                while !over.load(Relaxed) {
                    let file = std::fs::File::open("/dev/null").unwrap();
                    std::thread::yield_now();
                    file.metadata().unwrap();
                }
            })
        };
        std::fs::write(full.join("cgroup.procs"), "0").unwrap();
        std::fs::write(full.join("pids.max"), "1").unwrap();
        let mut refusals = Vec::new();
        for _ in 0..200 {
            refusals.push(processes.spawn(shell("true")).await.map(|child| child.pid));
        }
        std::fs::write(full.join("pids.max"), "max").unwrap();
        over.store(true, Relaxed);
        other.join().unwrap();
        assert_eq!(output(&processes, shell("echo x")).await, "x\n");
        std::fs::write(own.join("cgroup.procs"), "0").unwrap();
        std::fs::remove_dir(&full).unwrap();
        let _ = umount2(&at, MntFlags::MNT_DETACH);
        std::fs::remove_dir(&at).unwrap();
        for refusal in refusals {
            let refusal = refusal.unwrap_err();
            assert_eq!((refusal.step, refusal.errno), (Step::Clone, Some(libc::EAGAIN)), "{refusal}");
        }
    });
}

/// The kernel ends PID 1 by a fault of a thread that has its signal blocked, and asks no handler.
#[test]
fn threads_that_start_children_let_their_own_faults_be_handled() {
    as_pid_one(|| async {
        let processes = processes();
        assert_eq!(output(&processes, shell("echo x")).await, "x\n");
        let mut seen = 0;
        for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            if !std::fs::read_to_string(task.path().join("comm")).unwrap().starts_with("spawn-") {
                continue;
            }
            seen += 1;
            let status = std::fs::read_to_string(task.path().join("status")).unwrap();
            let blocked = u64::from_str_radix(field(&status, "SigBlk"), 16).unwrap();
            let is_blocked = |signal: i32| blocked & (1 << (signal - 1)) != 0;
            for fault in
                [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE, libc::SIGSYS]
            {
                assert!(!is_blocked(fault), "{fault}: {status}");
            }
            for other in [libc::SIGTERM, libc::SIGCHLD, libc::SIGUSR1, 32, 33, 64] {
                assert!(is_blocked(other), "{other}: {status}");
            }
        }
        assert!(seen > 0);
    });
}

#[test]
fn descriptors_arrive_at_their_numbers_however_they_overlap() {
    as_pid_one(|| async {
        let processes = processes();
        let files: Vec<(OwnedFd, String)> = (0..6)
            .map(|n| {
                let (read, write) = pipe();
                std::io::Write::write_all(&mut std::fs::File::from(write), format!("{n}\n").as_bytes())
                    .unwrap();
                (read, n.to_string())
            })
            .collect();
        let numbers: Vec<i32> = files.iter().map(|(fd, _)| fd.as_raw_fd()).collect();
        // Each goes to the number that its neighbour has here: a cycle.
        let mut command = shell(&{
            let reads = (0..6).map(|n| format!("read -r x <&{}; echo $x;", numbers[(n + 1) % 6]));
            reads.collect::<String>()
        });
        // A shell knows descriptors of one digit only; where ours are larger, use bash-like numbers through /dev/fd.
        if numbers.iter().any(|number| *number > 9) {
            let reads = (0..6).map(|n| format!("cat /proc/self/fd/{};", numbers[(n + 1) % 6]));
            command = shell(&reads.collect::<String>());
        }
        for (n, (fd, _)) in files.into_iter().enumerate() {
            command = command.descriptor(fd, numbers[(n + 1) % 6]);
        }
        assert_eq!(output(&processes, command).await, "0\n1\n2\n3\n4\n5\n");
    });
}

#[test]
fn a_user_gets_its_groups_and_the_capabilities_added() {
    as_pid_one(|| async {
        let processes = processes();
        let bind = 1u64 << 10;
        let command = shell("cat /proc/self/status")
            .user(33, 34, vec![35, 36])
            .bounding(Some(bind))
            .ambient(bind)
            .no_new_privileges(true)
            .seccomp(Some(processes.default_filter(bind)));
        let status = output(&processes, command).await;
        assert_eq!(field(&status, "Uid"), "33\t33\t33\t33");
        assert_eq!(field(&status, "Gid"), "34\t34\t34\t34");
        assert_eq!(field(&status, "Groups"), "35 36");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(field(&status, set), "0000000000000400", "{set}");
        }
        assert_eq!(field(&status, "NoNewPrivs"), "1");
        assert_eq!(field(&status, "Seccomp"), "2");

        let plain = output(&processes, shell("cat /proc/self/status").user(33, 34, vec![])).await;
        assert_eq!(field(&plain, "Groups"), "");
        assert_eq!(field(&plain, "CapEff"), "0000000000000000");
        let root = output(&processes, shell("cat /proc/self/status").bounding(Some(bind))).await;
        assert_eq!(field(&root, "CapPrm"), "0000000000000400");
        assert_eq!(field(&root, "CapEff"), "0000000000000400");
    });
}

#[test]
fn the_default_profile_holds_with_and_without_new_privileges() {
    as_pid_one(|| async {
        let processes = processes();
        let filter = processes.default_filter(0);
        for no_new_privileges in [true, false] {
            let script = "unshare --user true 2>&1 || echo refused; grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status";
            let command = shell(script)
                .user(33, 33, vec![])
                .no_new_privileges(no_new_privileges)
                .seccomp(Some(filter.clone()));
            let text = output(&processes, command).await;
            assert!(text.contains("refused"), "{text}");
            assert_eq!(field(&text, "Seccomp"), "2");
            assert_eq!(field(&text, "NoNewPrivs"), if no_new_privileges { "1" } else { "0" });
        }
    });
}

#[test]
fn a_read_only_root_is_read_only_everywhere_and_for_itself_alone() {
    as_pid_one(|| async {
        let processes = processes();
        let script = "for d in / /tmp /run /dev/shm; do touch $d/kelson-probe 2>/dev/null && echo wrote $d; done; \
            echo x >/dev/null && echo null";
        let text = output(&processes, shell(script).read_only_root(true)).await;
        assert_eq!(text, "null\n");
        let probe = std::env::temp_dir().join("kelson-probe-outside");
        std::fs::write(&probe, "").unwrap();
        std::fs::remove_file(probe).unwrap();
    });
}

/// The clock and `/proc` agree on when a child began.
#[test]
fn the_start_time_is_that_of_proc() {
    as_pid_one(|| async {
        let processes = processes();
        for _ in 0..200 {
            let child = processes.spawn(Command::new("/bin/sleep").arg("1000")).await.unwrap();
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap();
            let ticks = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
            assert_eq!(child.start_time.to_string(), ticks);
            processes.signal(child.pid, &child.exit, libc::SIGKILL);
            assert_eq!(child.exit.clone().await, Exit::Signal { signal: libc::SIGKILL, core: false });
            // Reaped: the number may be anybody's now.
            processes.signal(child.pid, &child.exit, libc::SIGKILL);
        }
    });
}

#[test]
fn a_program_may_be_a_descriptor() {
    as_pid_one(|| async {
        let processes = processes();
        let program: OwnedFd = std::fs::File::open("/bin/echo").unwrap().into();
        let command = Command::from_descriptor(program, "kelson-echo").arg("hello");
        assert_eq!(output(&processes, command).await, "hello\n");
    });
}

/// A start that never comes to its exec, as on a dead disk: the child is made straight into a frozen cgroup.
fn hanging(folder: &std::path::Path) -> Command {
    let folder = std::fs::File::open(folder).unwrap();
    Command::new("/bin/true").cgroup(std::sync::Arc::new(folder.into()), "frozen")
}

fn frozen_cgroup() -> kelson_runner::Cgroup {
    let root = kelson_runner::CgroupRoot::discover().unwrap();
    let cgroup = kelson_runner::Cgroup::create(&root, "frozen").unwrap();
    cgroup.freeze().unwrap();
    cgroup
}

#[test]
fn a_start_that_hangs_ends_at_its_deadline_and_holds_up_no_other() {
    as_pid_one(|| async {
        let processes = processes();
        let cgroup = frozen_cgroup();
        // More than there are spawners.
        let mut starts = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (processes, path) = (processes.clone(), cgroup.path());
            let command = hanging(&path).deadline(Duration::from_secs(4));
            starts.spawn(async move { processes.spawn(command).await });
        }
        let begun = std::time::Instant::now();
        let other = processes.spawn(Command::new("/bin/true")).await.unwrap();
        assert_eq!(other.exit.await, Exit::Status(0));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        while let Some(result) = starts.join_next().await {
            let error = result.unwrap().unwrap_err();
            assert_eq!(error.errno, None);
            assert!(error.text.contains("was not started within 4.0 s"), "{error}");
        }
        eventually("their children are killed and reaped", || all_processes().is_empty()).await;
        assert!(!cgroup.is_populated());
    });
}

/// Drops the start after this time, which is shorter than a timer's tick. One that was quicker is killed.
async fn give_up_after(pause: Duration, start: impl Future<Output = Result<Child, SpawnError>>) {
    let begun = std::time::Instant::now();
    let elapsed = async {
        while begun.elapsed() < pause {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        child = start => child.unwrap().signal(libc::SIGKILL),
        () = elapsed => {}
    }
}

#[test]
fn a_start_that_is_given_up_leaves_nothing() {
    as_pid_one(|| async {
        let processes = processes();
        let cgroup = frozen_cgroup();
        // While it hangs.
        for _ in 0..10 {
            let start = processes.spawn(hanging(&cgroup.path()));
            let _ = tokio::time::timeout(Duration::from_millis(5), start).await.unwrap_err();
        }
        eventually("hung starts are killed and reaped", || all_processes().is_empty()).await;
        // At any instant of an ordinary start.
        let sleep = || processes.spawn(Command::new("/bin/sleep").arg("1000"));
        for pause in 0..300 {
            give_up_after(Duration::from_micros(pause * 10), sleep()).await;
        }
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        eventually("all are killed and reaped", || all_processes().is_empty()).await;
        let before = count();
        for pause in 0..100 {
            drop(processes.spawn(Command::new("/bin/true")));
            give_up_after(Duration::from_micros(pause * 30), sleep()).await;
        }
        eventually("all are killed and reaped again", || all_processes().is_empty()).await;
        eventually("no descriptor is left", || count() == before).await;
    });
}

#[test]
fn v7_a_child_stands_in_the_record_until_its_owner_waits_for_it() {
    as_pid_one(|| async {
        let record =
            nix::sys::memfd::memfd_create(c"record", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
        let options = Options { record: Some(record.try_clone().unwrap()), ..Options::default() };
        let processes = Processes::new(options).unwrap();
        reap_on_sigchld(&processes);
        let command = Command::new("/bin/sleep").arg("1000").owner(7, 3);
        let mut child = processes.spawn(command).await.unwrap();
        let next_life = || {
            let options = Options { record: Some(record.try_clone().unwrap()), ..Options::default() };
            Processes::new(options).unwrap()
        };
        let found = next_life().leftovers().to_vec();
        assert_eq!(found.iter().map(|l| (l.service, l.run, l.pid)).collect::<Vec<_>>(), [(7, 3, child.pid)]);
        let _ = tokio::time::timeout(Duration::from_millis(1), &mut child.exit).await.unwrap_err();
        assert_eq!(next_life().leftovers(), []);

        // The next incarnation takes it over.
        let next = next_life();
        assert!(next.adopt(child.pid, child.start_time + 1).unwrap().is_none());
        let adopted = next.adopt(child.pid, child.start_time).unwrap().unwrap();
        adopted.signal(libc::SIGKILL);
        assert_eq!(child.exit.await, Exit::Signal { signal: libc::SIGKILL, core: false });
    });
}
