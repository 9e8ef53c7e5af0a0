//! H4: commands beside a service, in its cgroup, with its user and environment, until it ends or nobody wants them.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use kelson_tests::{Host, PATIENCE, eventually, until};

const WEB: &str = "process: {command: [$PROGRAM, serve]}\nenvironment: {COLOUR: green}\nuser: '1234:1234'";

fn start() -> Host {
    Host::builder().service("web", WEB).up(&["web"])
}

#[test]
fn h4_exec_runs_where_the_service_runs() {
    let mut host = start();
    let main = host.pid_of("web");
    let text = "id -u; echo $COLOUR $KELSON_SERVICE; cat /proc/self/cgroup; echo wrong >&2; exit 7";
    let done = host.ctl(&["exec", "web", "--", "/bin/sh", "-c", text]).expect(7);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines[..2], ["1234", "green web"]);
    assert!(lines.iter().any(|line| line.starts_with("0::") && line.ends_with("/web/exec")), "{lines:?}");
    assert_eq!(done.stderr, "wrong\n");
    host.ctl(&["exec", "web", "--", "/nope"]).expect(1);
    host.ctl(&["exec", "wbe", "--", "/bin/true"]).expect(1);
    host.ctl(&["exec", "logd", "--", "/bin/true"]).expect(1);
    let web = host.service("web");
    assert_eq!((web.pid, web.up, web.restarts), (Some(main), true, 0));
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(
        host.ctl(&["exec", "web", "--", "/bin/true"])
            .expect(1)
            .stderr
            .contains("does not run: its state is stopped")
    );
    host.poweroff();
}

/// Kilobytes that PID 1 holds in memory.
fn memory(host: &Host) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.init_pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[test]
fn h4_exec_passes_fifty_megabytes_both_ways_in_bounded_memory() {
    const SIZE: usize = 50 << 20;
    let mut host = start();
    host.ctl(&["exec", "web", "--", "/bin/true"]).ok();
    let before = memory(&host);
    let mut command = host.client().command(&["exec", "-i", "web", "--", "/bin/cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("kelsonctl starts");
    let mut input = child.stdin.take().expect("a pipe");
    let feeding = std::thread::spawn(move || {
        let piece = vec![b'x'; 1 << 20];
        (0..SIZE / piece.len()).try_for_each(|_| input.write_all(&piece))
    });
    let mut output = child.stdout.take().expect("a pipe");
    let (mut chunk, mut count, mut most) = (vec![0; 1 << 20], 0, 0);
    while let Ok(read @ 1..) = output.read(&mut chunk) {
        count += read;
        most = most.max(memory(&host));
    }
    assert!(feeding.join().expect("it ends").is_ok());
    assert_eq!((count, child.wait().expect("our child").code()), (SIZE, Some(0)));
    assert!(most < before + 4096, "PID 1 grew from {before} to {most} kB");
    host.poweroff();
}

#[test]
fn h4_exec_ends_with_its_client_and_with_its_service() {
    let mut host = start();
    let started = |host: &Host, word: &str| {
        until("the command to run", PATIENCE, || host.processes_with(word).first().map(|process| process.pid))
    };
    let gone = |host: &Host, word: &str| {
        eventually("the command to be gone", || host.processes_with(word).is_empty());
    };
    let run = |host: &Host, seconds: &str| {
        let mut command = host.client().command(&["exec", "-i", "web", "--", "/bin/sleep", seconds]);
        command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("kelsonctl starts")
    };
    let mut client = run(&host, "77001");
    started(&host, "77001");
    client.kill().expect("it runs");
    let _ = client.wait();
    gone(&host, "77001");

    let mut client = run(&host, "77002");
    started(&host, "77002");
    host.ctl(&["stop", "web", "--wait"]).ok();
    gone(&host, "77002");
    assert_eq!(client.wait().expect("our child").code(), Some(128 + 9));
    host.assert_nothing_left("web", "7700");
    host.poweroff();
}

#[test]
fn h4_a_crash_of_pid_1_breaks_the_session_and_its_command_ends_with_the_service() {
    let mut host = start();
    let mut command = host.client().command(&["exec", "-i", "web", "--", "/bin/sleep", "77003"]);
    let mut client = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("kelsonctl starts");
    eventually("the command to run", || !host.processes_with("77003").is_empty());
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_ne!(client.wait().expect("our child").code(), Some(0));
    host.ctl(&["stop", "web", "--wait"]).ok();
    eventually("the command to be gone", || host.processes_with("77003").is_empty());
    host.assert_nothing_left("web", "77003");
    host.poweroff();
}
