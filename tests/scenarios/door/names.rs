//! A host that is called by a name which a name server knows.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use kelson_tests::authority::Authority;
use kelson_tests::{Host, Output, remote, skip};

const NAME: &[u8] = b"\x04edge\x04test\0";

/// Answers as long as the test runs: `edge.test` is 127.0.0.1, and there is no other name; nothing to `silent.test`.
fn serve(socket: UdpSocket) {
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let question = &question[..length];
            // One question follows the head of 12 bytes: its name, up to an empty label, its type and its class.
            let Some(end) = question.iter().skip(12).position(|byte| *byte == 0).map(|end| 12 + end + 1)
            else {
                continue;
            };
            if question[12..end].starts_with(b"\x06silent") {
                continue;
            }
            let is_known = &question[12..end] == NAME;
            let is_ipv4 = question[end..].starts_with(&[0, 1]);
            let mut answer = question[..2].to_vec();
            answer.extend([
                0x81,
                if is_known { 0x80 } else { 0x83 },
                0,
                1,
                0,
                u8::from(is_known && is_ipv4),
                0,
                0,
                0,
                0,
            ]);
            answer.extend(&question[12..end + 4]);
            if is_known && is_ipv4 {
                // The name of the question, an address of the internet, for a minute, in 4 bytes.
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            }
            socket.send_to(&answer, from).expect("the test's own socket");
        }
    });
}

#[test]
fn a_name_of_a_name_server_leads_to_the_host() {
    // An address of this test alone.
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = format!("127.53.{high}.{low}");
    let socket = match UdpSocket::bind((address.as_str(), 53)) {
        Ok(socket) => socket,
        Err(error) => return skip(&format!("port 53 of the loopback: {error}")),
    };
    serve(socket);
    let authority = Authority::new("names");
    let mut host = Host::builder().machine(&authority.machine("")).up(&["apid"]);
    let client = remote::client_for(&host, &authority, Duration::from_secs(3600));
    let port = remote::port(&host);
    let files = [("resolv", format!("nameserver {address}\n")), ("nss", "hosts: mdns4 resolve\n".to_owned())];
    let [resolv, nss] = files.map(|(name, text)| {
        std::fs::write(host.path(name), text).expect("the test's folder is writable");
        host.path(name)
    });
    // In a mount namespace of its own, where the resolver's files are others. It has an /etc/nsswitch.conf that asks modules
    // which a static program cannot load.
    let call = |endpoint: &str| {
        let kelsonctl = client.command(&["-e", endpoint, "-o", "json", "services"]);
        let mut command = Command::new("unshare");
        command.args(["-m", "--", "sh", "-c"]);
        command.arg("mount --bind \"$1\" /etc/resolv.conf && mount --bind \"$2\" /etc/nsswitch.conf && shift 2 && exec \"$@\"");
        command.arg("sh").args([&resolv, &nss]).arg(kelsonctl.get_program()).args(kelsonctl.get_args());
        for (name, value) in kelsonctl.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Output::of(command, &format!("kelsonctl -e {endpoint}"))
    };
    let services: serde_json::Value = call(&format!("edge.test:{port}")).ok().json();
    assert!(services.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "apid")), "{services}");
    let unknown = call(&format!("other.test:{port}")).expect(3);
    assert!(
        unknown.stderr.starts_with("kelsonctl: the name other.test has no address: "),
        "{}",
        unknown.stderr
    );
    let silent = call("silent.test").expect(3);
    let said = "kelsonctl: the name silent.test has no address: no name server answers within 5 s";
    assert!(silent.stderr.starts_with(said), "{}", silent.stderr);
    let nobody = call("edge.test:1").expect(3);
    assert!(nobody.stderr.starts_with("kelsonctl: nobody listens on edge.test:1: "), "{}", nobody.stderr);
    host.poweroff();
}
