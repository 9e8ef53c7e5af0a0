//! The clock of a machine whose hardware clock is wrong: it starts at the last time that is known, and a server of NTP, a
//! stand-in on this computer, sets it right. The boot waits for none of this.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, VmBuilder, until};

use super::Disk;

/// From the epoch of NTP, 1900, to that of Unix.
const UNIX: u64 = 2_208_988_800;

/// A server that knows the time of this computer. It ends with the test's process.
struct Server {
    port: u16,
    answers: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("it is bound").port();
        let answers = Arc::new(AtomicBool::new(false));
        let serves = Arc::clone(&answers);
        std::thread::spawn(move || {
            loop {
                let mut packet = [0; 48];
                let (length, from) =
                    socket.recv_from(&mut packet).expect("the socket lives as long as the test");
                if length == packet.len() && serves.load(Ordering::SeqCst) {
                    let _ = socket.send_to(&answer(&packet), from);
                }
            }
        });
        Server { port, answers }
    }

    /// As the machine reaches it: QEMU's network hands on what is sent to 10.0.2.2.
    fn address(&self) -> String {
        format!("10.0.2.2:{}", self.port)
    }
}

/// The answer of RFC 5905 to a question.
fn answer(question: &[u8; 48]) -> [u8; 48] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
    let time = (((now.as_secs() + UNIX) << 32) | fraction).to_be_bytes();
    let mut answer = [0; 48];
    // Version 4, a server of stratum 2.
    (answer[0], answer[1]) = (0x24, 2);
    answer[24..32].copy_from_slice(&question[40..48]);
    answer[32..40].copy_from_slice(&time);
    answer[40..48].copy_from_slice(&time);
    answer
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

    server.answers.store(true, Ordering::SeqCst);
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
    server.answers.store(false, Ordering::SeqCst);
    let mut vm = machine(&server, &disk).boot();
    vm.wait_up(&["web"]);
    let (ahead, synchronised) = clock(&vm);
    assert!(!synchronised && (-300.0..1.0).contains(&ahead), "{ahead} s");
    vm.poweroff();
}
