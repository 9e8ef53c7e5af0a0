//! A machine with an address of a DHCPv6 server. QEMU's own network has none, so the machine has a second interface with a cable
//! to dnsmasq, in a network namespace of this computer.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Stdio;

use kelson_tests::namespace::{Guard, Log, Namespace};
use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, eventually, skip, until};
use serde_json::Value;

const MAC: &str = "52:54:00:12:34:99";
const ADDRESS: &str = "2001:db8:5::50/128";
/// No frame is longer here, in bytes.
const FRAME: usize = 65536;

/// `TUNSETIFF` of the kernel's `if_tun.h`.
const TUNSETIFF: libc::Ioctl = 0x4004_54CA;

/// A new interface `srv` of the calling thread's namespace; each read gives a frame, and each write sends one.
fn tap() -> File {
    let tap = File::options().read(true).write(true).open("/dev/net/tun").expect("the kernel has taps");
    // A name of 16 bytes, flags, and the rest of the kernel's `ifreq`.
    let mut request = [0_u8; 40];
    request[..3].copy_from_slice(b"srv");
    let flags = i16::try_from(libc::IFF_TAP | libc::IFF_NO_PI).expect("flags of 16 bits");
    request[16..18].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: the request has the size of an ifreq, and outlives the call.
    let made = unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETIFF, request.as_mut_ptr()) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    tap
}

/// Carries frames from one end of the cable to the other, until one is gone.
fn carry(
    mut next: impl FnMut(&mut [u8]) -> std::io::Result<usize>,
    mut send: impl FnMut(&[u8]) -> std::io::Result<()>,
) {
    let mut frame = vec![0; FRAME];
    while let Ok(length) = next(&mut frame)
        && send(&frame[..length]).is_ok()
    {}
}

/// Lays a cable from QEMU to an interface in a namespace. QEMU writes the length of a frame, and then the frame. Returns the port
/// for QEMU.
fn cable(server: &Namespace) -> u16 {
    let tap = server.socket(tap);
    server.ip("link set srv up");
    server.ip("-6 address add 2001:db8:5::1/64 dev srv nodad");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("a port").port();
    std::thread::spawn(move || {
        for machine in listener.incoming().map_while(Result::ok) {
            let ends = (tap.try_clone().expect("a descriptor"), machine.try_clone().expect("a descriptor"));
            let (mut from_tap, mut to_machine): (File, TcpStream) = ends;
            std::thread::spawn(move || {
                carry(
                    |frame| from_tap.read(frame),
                    |frame| {
                        let length = u32::try_from(frame.len()).expect("a short frame").to_be_bytes();
                        to_machine.write_all(&[&length[..], frame].concat())
                    },
                );
            });
            let (mut from_machine, mut to_tap): (TcpStream, &File) = (machine, &tap);
            carry(
                |frame| {
                    let mut length = [0; 4];
                    from_machine.read_exact(&mut length)?;
                    let length = usize::try_from(u32::from_be_bytes(length)).expect("a length");
                    from_machine.read_exact(&mut frame[..length])?;
                    Ok(length)
                },
                |frame| to_tap.write_all(frame),
            );
        }
    });
    port
}

/// dnsmasq, which gives this one address, and its messages.
fn dnsmasq(server: &Namespace, folder: &Path) -> (Guard, Log) {
    let mut command = server.command("dnsmasq");
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--port=0"]);
    command.args(["--log-facility=-", "--log-dhcp", "--interface=srv", "--bind-interfaces", "--pid-file="]);
    command.arg(format!("--dhcp-leasefile={}", folder.join("leases").display()));
    command
        .args(["--user=root", "--dhcp-range=2001:db8:5::50,2001:db8:5::50,64,3600"])
        .stderr(Stdio::piped());
    let mut dnsmasq = Guard(command.spawn().expect("dnsmasq is installed"));
    let log = Log::of(dnsmasq.0.stderr.take().expect("piped"));
    eventually("dnsmasq to have started", || log.count("started") > 0);
    (dnsmasq, log)
}

/// The addresses of eth1 by DHCPv6.
fn addresses(vm: &Vm) -> Vec<String> {
    let links: Value = vm.ctl(&["network", "eth1", "-o", "json"]).ok().json();
    let all = links[0]["addresses"].as_array().cloned().unwrap_or_default();
    let of_server =
        all.iter().filter_map(|one| one["address"].as_str()).filter(|one| one.starts_with("2001:"));
    of_server.map(str::to_owned).collect()
}

#[test]
fn n3_an_address_by_dhcpv6_outlives_its_client_and_a_crash_of_pid_1() {
    if !Path::new("/usr/sbin/dnsmasq").exists() {
        return skip("dnsmasq is not installed: hack/deps");
    }
    let (server, folder) = (Namespace::new(), tempfile::tempdir().expect("a folder"));
    let port = cable(&server);
    let (_dnsmasq, requests) = dnsmasq(&server, folder.path());
    let mut vm = Vm::builder("dhcp6")
        .machine(&format!(
            "network: [{{interface: eth0, address: 10.0.2.15/24, gateway: 10.0.2.2}}, {{mac: \"{MAC}\", dhcp6: true}}]\n"
        ))
        .qemu(&format!("-netdev socket,id=six,connect=127.0.0.1:{port} -device virtio-net-pci,netdev=six,mac={MAC}"))
        .runs("web", "serve")
        .boot();
    vm.wait_up(&["web", "net"]);
    until("the address", BOOT_PATIENCE, || (addresses(&vm) == [ADDRESS]).then_some(()));
    assert_eq!(
        (requests.count("DHCPSOLICIT"), requests.count("DHCPCONFIRM")),
        (1, 0),
        "{:?}",
        requests.all()
    );

    // The next client asks whether what it has is still right.
    vm.ctl(&["signal", "net", "KILL"]).ok();
    until("the next client to have asked", BOOT_PATIENCE, || {
        assert_eq!(addresses(&vm), [ADDRESS]);
        (requests.count("DHCPCONFIRM") == 1).then_some(())
    });
    vm.wait_up(&["net"]);
    let client = vm.client().service("net").pid;
    // PID 1 is another, and the client the same: it has nothing to ask.
    vm.ctl(&["reexec"]).ok();
    vm.wait_up(&["web", "net"]);
    assert_eq!((addresses(&vm), vm.client().service("net").pid), (vec![ADDRESS.to_owned()], client));
    // Of a PID 1 that has forgotten nothing the client after a crash asks in the same way.
    vm.ctl(&["signal", "net", "KILL"]).ok();
    until("the third client to have asked", BOOT_PATIENCE, || {
        assert_eq!(addresses(&vm), [ADDRESS]);
        (requests.count("DHCPCONFIRM") == 2).then_some(())
    });
    let others =
        ["DHCPSOLICIT", "DHCPREQUEST", "DHCPDECLINE", "DHCPRELEASE"].map(|kind| requests.count(kind));
    assert_eq!(others, [1, 1, 0, 0], "{:?}", requests.all());
    vm.poweroff();
}
