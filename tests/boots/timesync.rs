//! The clock of a machine whose hardware clock is wrong: it starts at the last time that is known, and a server of NTP, a
//! stand-in on this computer, sets it right. The boot waits for none of this.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_tests::host::send;
use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, VmBuilder, paths, until};

use super::Disk;

/// A server that knows the time of this computer, and answers nobody at first.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Server {
        let mut command = Command::new(paths::top().join("hack/ntp"));
        let mut process = command.arg("0").stdout(Stdio::piped()).spawn().expect("it can be started");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("it prints the port");
        let server = Server { process, port: line.trim().parse().expect("a port") };
        server.answers(false);
        server
    }

    /// A question that waited in its queue is answered with the time at which it came.
    fn answers(&self, answers: bool) {
        let pid = i32::try_from(self.process.id()).expect("a PID");
        send(pid, if answers { libc::SIGCONT } else { libc::SIGSTOP });
    }

    /// As the machine reaches it: QEMU's network hands on what is sent to 10.0.2.2.
    fn address(&self) -> String {
        format!("10.0.2.2:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn machine(server: &Server, disk: &Disk) -> VmBuilder {
    Vm::builder("timesync")
        .qemu("-rtc base=1970-01-02")
        // A network without a server.
        .qemu("-netdev hubport,id=silent,hubid=9 -device virtio-net-pci,netdev=silent")
        .disk(&disk.0)
        .machine(&format!(
            "network:\n- {{interface: eth0, address: 10.0.2.15/24, gateway: 10.0.2.2}}\n- {{interface: eth1, dhcp: true}}\n\
             time: {{servers: [dhcp, \"{}\"]}}\n",
            server.address()
        ))
        .runs_with("web", "serve", "")
        .runs_with("dated", "serve", "depends: [{time: synced}]")
}

/// By how much the machine's clock is ahead of this computer's, and whether its kernel counts it as right.
fn clock(vm: &Vm) -> (f64, bool) {
    let answer: serde_json::Value = vm.ctl(&["time", "--output", "json"]).ok().json();
    let ahead = answer["differenceMs"].as_f64().expect("the host is another one");
    (ahead / 1000.0, answer["synchronized"].as_bool().expect("a boolean"))
}

#[test]
fn n4_without_dhcp_ntp_seed_and_time_the_host_answers_and_a_server_sets_the_clock_right() {
    let (server, disk) = (Server::start(), Disk::new("timesync"));
    let mut vm = machine(&server, &disk).boot();
    vm.wait_up(&["web", "timesync"]);
    let (ahead, synchronised) = clock(&vm);
    let age = Duration::from_secs_f64(-ahead);
    assert!(!synchronised);
    assert!(age < SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - Duration::from_secs(1_735_689_600));
    let boot = vm.ctl(&["boot"]).ok().stdout;
    assert!(boot.contains("it starts at the last time that is known"), "{boot}");
    assert!(boot.contains("there was no seed"), "{boot}");
    let status = vm.ctl(&["status", "net"]).ok().stdout;
    assert!(status.contains("eth1: looking for a server"), "{status}");
    until("the log to name the server", BOOT_PATIENCE, || {
        let log = vm.ctl(&["logs", "timesync"]).ok().stdout;
        log.contains(&format!("{}: no answer within 3 s", server.address())).then_some(())
    });
    let why = vm.ctl(&["why", "dated"]).ok().stdout;
    assert!(why.contains("the clock to be synchronised"), "{why}");

    server.answers(true);
    vm.wait_up(&["dated"]);
    let (ahead, synchronised) = clock(&vm);
    assert!(synchronised && ahead.abs() < 1.0, "{ahead} s");
    let log = vm.ctl(&["logs", "timesync"]).ok().stdout;
    assert!(log.contains("the clock was set by +") && log.contains(&server.address()), "{log}");
    let status = vm.ctl(&["status", "timesync"]).ok().stdout;
    assert!(status.contains(&format!("{}: offset ", server.address())), "{status}");
    vm.poweroff();
    // The next machine needs its turn.
    drop(vm);

    // The hardware's clock says 1970 again, and nobody answers.
    server.answers(false);
    let mut vm = machine(&server, &disk).boot();
    vm.wait_up(&["web"]);
    let (ahead, synchronised) = clock(&vm);
    assert!(!synchronised && (-300.0..1.0).contains(&ahead), "{ahead} s");
    vm.poweroff();
}
