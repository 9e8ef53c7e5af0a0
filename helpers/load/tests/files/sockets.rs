//! `sockets` and `start: onDemand`: read, written again, and refused where they cannot be.
use crate::folder::Folder;
use kelson_load::written;
use kelson_spec::service::{SocketOptions, SocketSpec, StartMode};

fn folder(text: &str) -> Folder {
    Folder::of("web", text)
}

const PROCESS: &str = "process: {command: [/bin/web]}\n";

#[test]
fn they_are_read_and_written_as_they_were() {
    let folder = folder(&format!(
        "{PROCESS}start: onDemand\nsockets:\n  - {{name: http, listen: '*:80', backlog: 7, freeBind: true, ipv6Only: true, reusePort: true, keepAlive: true}}\n  \
         - {{name: ctl, listen: /run/web.sock, mode: '0660', user: '7:8', passCredentials: true, nonBlocking: true, stdin: true}}\n  \
         - {{name: ctl, listen: 'udp:[::1]:53'}}\n"
    ));
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let spec = &loaded.services[0];
    let socket = |name: &str, listen: &str| SocketSpec {
        name: name.into(),
        listen: listen.into(),
        ..SocketSpec::default()
    };
    let options = |pass_credentials: bool| SocketOptions {
        ipv6_only: !pass_credentials,
        reuse_port: !pass_credentials,
        free_bind: !pass_credentials,
        pass_credentials,
        keep_alive: !pass_credentials,
        non_blocking: pass_credentials,
        stdin: pass_credentials,
    };
    let expected = [
        SocketSpec { backlog: 7, options: options(false), ..socket("http", "*:80") },
        SocketSpec {
            mode: 0o660,
            owner: Some((7, 8)),
            options: options(true),
            ..socket("ctl", "/run/web.sock")
        },
        socket("ctl", "udp:[::1]:53"),
    ];
    assert_eq!(spec.sockets, expected);
    assert_eq!((spec.start, spec.on_demand), (StartMode::Auto, true));
    let before = loaded.services.clone();
    folder.service("web", written(spec).file());
    assert_eq!(folder.load().services, before);
}

#[test]
fn who_cannot_have_them_is_told_why() {
    let one = "sockets: [{name: a, listen: /run/a}]\n";
    for (text, why) in [
        (
            format!("container: {{image: a}}\n{one}"),
            "sockets: no descriptor reaches into a container; publish ports in container.network",
        ),
        (
            format!("target: {{}}\n{one}"),
            "sockets: a target runs no program, so sockets means nothing; leave it out",
        ),
        (
            format!("{PROCESS}start: onDemand\n"),
            "start: a service is started on demand by its sockets and paths; name some in sockets or paths",
        ),
        (
            format!("{PROCESS}{one}start: onDemand\ntype: oneshot\n"),
            "start: a oneshot ends before it takes a connection; write type: service, or leave sockets out",
        ),
        (
            format!("{PROCESS}{one}readiness: {{fd: 3}}\n"),
            "readiness: its sockets are descriptors 3 to 3; choose one above them",
        ),
        (
            format!("{PROCESS}sockets: [{{name: a, listen: /run/a}}, {{name: b, listen: /run/a}}]\n"),
            "sockets: two of them listen on /run/a; leave one out",
        ),
        (
            format!(
                "{PROCESS}sockets: [{{name: a, listen: /run/a, stdin: true}}, {{name: b, listen: /run/b, stdin: true}}]\n"
            ),
            "sockets: a process has one standard input; write stdin: true at one of them",
        ),
        (
            format!("{PROCESS}sockets: [{{name: a, listen: /run/a, keepAlive: true}}]\n"),
            "sockets[0].keepAlive: only TCP has it; leave it out",
        ),
        (
            format!("{PROCESS}sockets: [{{name: a:b, listen: /run/a}}]\n"),
            "sockets[0].name: \"a:b\" is not a name of a socket; use letters, digits, and . _ @ -",
        ),
        (
            format!("{PROCESS}sockets: [{{name: a, listen: '80'}}]\n"),
            "sockets[0].listen: \"80\" is no address and port; write such as 0.0.0.0:80, [::1]:80 or *:80; \
             see sockets.listen in docs/service-file.md for all forms",
        ),
        (
            format!("{PROCESS}sockets: [{{name: a, listen: '0.0.0.0:80', mode: '0600'}}]\n"),
            "sockets[0].mode: only a Unix socket or FIFO with a path has permissions; leave it out",
        ),
        (
            format!("{PROCESS}sockets: [{{name: a, listen: '0.0.0.0:80', ipv6Only: true}}]\n"),
            "sockets[0].ipv6Only: this is no IPv6 address; leave it out",
        ),
        (
            format!("{PROCESS}sockets: [{{name: a, listen: 'udp:*:80', backlog: 3}}]\n"),
            "sockets[0].backlog: it takes no connections; leave it out",
        ),
    ] {
        let loaded = folder(&text).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        assert_eq!(found, [why], "{text}");
    }
}
