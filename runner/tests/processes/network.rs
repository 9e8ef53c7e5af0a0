//! Children in the network namespace of another process, and in no other of its namespaces.
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::pid_one::{as_pid_one, output, pipe, processes, read_all};
use kelson_runner::{Child, Command, Processes, Step, open_network};

/// A process that has made a network namespace of its own.
async fn apart(processes: &Processes) -> Child {
    let (ready, closed) = pipe();
    let command = Command::new("unshare")
        .args(["--net", "/bin/sh", "-c", "exec 3>&-; exec sleep 1000"])
        .env("PATH", "/usr/bin:/bin")
        .descriptor(closed, 3);
    let child = processes.spawn(command).await.unwrap();
    read_all(ready).await;
    child
}

fn namespace(pid: &str, kind: &str) -> String {
    std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap().display().to_string()
}

/// As the probe is to run: of no use to who breaks into it.
fn confined(processes: &Processes, script: &str) -> Command {
    Command::new("/bin/sh")
        .args(["-c", script])
        .user(65534, 65534, vec![])
        .bounding(Some(0))
        .no_new_privileges(true)
        .seccomp(Some(processes.default_filter(0)))
}

/// A descriptor above all windows of the spawners.
fn high(fd: &OwnedFd) -> OwnedFd {
    let number = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(700)).unwrap();
    // SAFETY: made just now.
    unsafe { OwnedFd::from_raw_fd(number) }
}

#[test]
fn a_child_without_privileges_enters_the_network_of_another() {
    as_pid_one(|| async {
        let processes = processes();
        let other = apart(&processes).await;
        let theirs = namespace(&other.pid.to_string(), "net");
        assert_ne!(theirs, namespace("self", "net"));
        let script = "readlink /proc/self/ns/net /proc/self/ns/mnt /proc/self/ns/pid; id -u; id -G; \
            grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; echo /proc/self/fd/*";
        let none = "0000000000000000";
        let expected = format!(
            "{theirs}\n{}\n{}\n65534\n65534\nCapPrm:\t{none}\nCapEff:\t{none}\nCapBnd:\t{none}\n\
             NoNewPrivs:\t1\nSeccomp:\t2\n",
            namespace("self", "mnt"),
            namespace("self", "pid"),
        );
        let open = || open_network(other.pid, other.start_time).unwrap();
        // Below the window's end, above it, and with more descriptors than the window holds.
        let (null, _null) = pipe();
        let many = (3..23).fold(confined(&processes, script), |command, number| {
            command.descriptor(null.try_clone().unwrap(), number)
        });
        for (command, descriptors) in [
            (confined(&processes, script).network_of(open()), 3),
            (confined(&processes, script).network_of(high(&open())), 3),
            (many.network_of(high(&open())), 23),
        ] {
            let text = output(&processes, command).await;
            let listed = text.strip_prefix(&expected).unwrap_or_else(|| panic!("{text}\n{expected}"));
            // The shell's own, from the reading of the folder, is 3 or above it.
            assert_eq!(listed.split_whitespace().count(), descriptors + 1, "{listed}");
        }
        // PID 1 itself, and the next child, are where they were.
        let own = namespace("self", "net");
        let command = Command::new("/bin/sh").args(["-c", "readlink /proc/self/ns/net"]);
        assert_eq!(output(&processes, command).await.trim(), own);
        other.signal(libc::SIGKILL);
    });
}

#[test]
fn what_is_no_network_namespace_is_refused() {
    as_pid_one(|| async {
        let processes = processes();
        let of = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
        for path in ["/dev/null", "/proc/self/ns/mnt"] {
            let error = processes.spawn(Command::new("/bin/true").network_of(of(path))).await.unwrap_err();
            assert_eq!(error.text, "cannot enter the network namespace: invalid argument", "{path}");
            assert_eq!((error.step, error.errno), (Step::Network, Some(libc::EINVAL)));
        }
    });
}

#[test]
fn v3_the_network_of_a_stranger_is_not_opened() {
    as_pid_one(|| async {
        let processes = processes();
        let other = apart(&processes).await;
        let gone = format!("process {} is gone", other.pid);
        assert!(open_network(other.pid, other.start_time).unwrap().as_raw_fd() > 2);
        let error = open_network(other.pid, other.start_time + 1).unwrap_err();
        assert_eq!(error.message, gone);
        let namespace = open_network(other.pid, other.start_time).unwrap();
        other.signal(libc::SIGKILL);
        other.exit.await;
        assert_eq!(open_network(other.pid, other.start_time).unwrap_err().message, gone);
        // An open namespace stays good.
        let link = "readlink /proc/self/ns/net";
        let text = output(&processes, confined(&processes, link).network_of(namespace)).await;
        assert!(text.starts_with("net:["), "{text}");
    });
}
