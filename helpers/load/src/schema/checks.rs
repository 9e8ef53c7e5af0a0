//! Health checks: when they ask, and what.

use std::time::Duration;

use super::kinds::{address, choice, command, duration, duration_from, form, name, path, word};
use super::{Key, Kind, Mapping, needed, with, without};

/// The shortest time between two runs of a check, and the shortest timeout.
const SHORTEST: Duration = Duration::from_millis(10);
/// The largest count of results in a row.
const MOST: u64 = 1_000;

pub(super) fn checks() -> Kind {
    Kind::Mapping(check).list_of(0, 256)
}

/// Those of a group: the keys of a service's that need no process.
pub(super) fn group_checks() -> Kind {
    Kind::Mapping(group_check).list_of(0, 256)
}

fn group_check() -> Mapping {
    let mut mapping = check();
    mapping.keys.retain(|key| !matches!(key.name, "exec" | "startup"));
    for key in &mut mapping.keys {
        key.about = match key.name {
            "name" => "unique within the group",
            "http" => "[a GET](service-file.md#what-a-check-asks)",
            "tcp" => "[a connection](service-file.md#what-a-check-asks)",
            "grpc" => "[`grpc.health.v1.Health/Check`](service-file.md#what-a-check-asks)",
            "initialDelay" => "from when all required members are up to the first attempt",
            "timeout" => {
                "after this time the attempt has failed (`no answer within 1 s`). May be longer than `interval`"
            }
            "restartAfter" => {
                "failures in a row that restart the group; 0: never. [`restart`](#restart) decides how often. Several checks that \
                 ask at once cause one restart"
            }
            "grace" => {
                "from when all required members are up; failures in it do not count for `restartAfter`"
            }
            _ => key.about,
        };
    }
    Mapping { name: "group-check", ..mapping }.one_of(&["http", "tcp", "grpc"])
}

fn check() -> Mapping {
    let keys = [
        without("name", name(), "the kind", "unique within the service"),
        needed("http", Kind::Mapping(http), "[a GET](#what-a-check-asks)"),
        needed("tcp", Kind::Mapping(tcp), "[a connection](#what-a-check-asks)"),
        needed("grpc", Kind::Mapping(grpc), "[`grpc.health.v1.Health/Check`](#what-a-check-asks)"),
        needed("exec", Kind::Mapping(exec), "[a command](#what-a-check-asks)"),
        with(
            "initialDelay",
            duration(),
            "1s",
            "from ready to the first attempt; if there are checks with `startup`, from when these have passed",
        ),
        with(
            "interval",
            duration_from(SHORTEST),
            "5s",
            "from the end of one attempt to the start of the next. A random part of up to a tenth is added, so that many checks do \
             not run at the same moment. Until the check first passes, during `grace`, it is 1 s at most",
        ),
        with(
            "timeout",
            duration_from(SHORTEST),
            "1s",
            "after this time the attempt has failed (`no answer within 1 s`), and Kelson kills a command with its process group. While \
             a killed command has not ended, Kelson does not run it again, and that is a failure too. May be longer than `interval`",
        ),
        with("successThreshold", Kind::Number(1..=MOST), "1", "passes in a row after which the check passes"),
        with(
            "failureThreshold",
            Kind::Number(1..=MOST),
            "3",
            "failures in a row after which the check fails",
        ),
        with(
            "restartAfter",
            Kind::Number(0..=MOST),
            "0",
            "failures in a row that restart the service, or its [group](#restart); 0: never. The [restart policy](#restart) \
             counts it like any failure and decides. Several checks that ask at once cause one restart",
        ),
        with(
            "grace",
            duration(),
            "10s",
            "from ready, or from when the checks with `startup` have passed; failures in it do not count for `restartAfter`",
        ),
        with(
            "startup",
            Kind::Boolean,
            "false",
            "`true`: it only gates the start. The other checks begin once all checks with `startup` have passed, and those are not \
             asked again in that run. With `restartAfter` it restarts a service that does not come up",
        ),
    ];
    Mapping::new("check", keys).one_of(&["http", "tcp", "grpc", "exec"])
}

fn exec() -> Mapping {
    Mapping::new("exec", [needed("command", command(), "a program and its arguments; status 0 passes")])
}

fn tcp() -> Mapping {
    Mapping::new("tcp", [port(), peer()])
}

fn http() -> Mapping {
    let keys = [
        port(),
        with(
            "path",
            Kind::Form(form("path of a URL", "^/[^\\s#<>\"`]*$", "/healthz")),
            "/",
            "with its query; what cannot stand in a URL is written as `%20`",
        ),
        peer(),
        host(),
        scheme(),
        authority(),
        verify(),
        with(
            "headers",
            Kind::Map(form("name", "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "X-Probe"), Box::new(Kind::Text)),
            "{}",
            "at most 32. `Host` is `host`; those of the connection (`Connection`, `Content-Length`, …) cannot be set",
        ),
        without(
            "status",
            statuses(),
            "`200-399`",
            "the codes that pass: `200`, `200-299`, or a list of both",
        ),
        without(
            "body",
            word("regular expression", "^ok"),
            "any",
            "must match somewhere in the first 64 KiB: `ok`, `^[0-9]+$`, `(?i)ready`; at most 1 KiB, and small enough for a quick \
             search (some 500 letters, repetitions counted), with the \
             [syntax](https://docs.rs/regex-lite/latest/regex_lite/#syntax) of the crate regex-lite",
        ),
    ];
    Mapping::new("http", keys)
}

fn grpc() -> Mapping {
    let service = without(
        "service",
        Kind::Text,
        "the server as a whole",
        "the name in the request of `grpc.health.v1.Health/Check`; `SERVING` passes",
    );
    Mapping::new("grpc", [port(), service, peer(), host(), scheme(), authority(), verify()])
}

fn port() -> Key {
    needed("port", Kind::Number(1..=65_535), "the port of the server")
}

fn peer() -> Key {
    with("address", address(), "127.0.0.1", "names are not looked up")
}

fn host() -> Key {
    let label = "[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?";
    let host = form("host name", &format!(r"^{label}(\.{label})*$"), "www.example.org");
    without(
        "host",
        Kind::Form(host),
        "the address",
        "the name of the server, in the header `Host` (`:authority`) and in TLS",
    )
}

fn scheme() -> Key {
    with("scheme", choice(&["http", "https"]), "http", "`https`: with TLS, and one of the next two")
}

fn authority() -> Key {
    let certificates = form("certificates", "-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----");
    without(
        "ca",
        Kind::Either(vec![path(), Kind::Form(certificates)]),
        "none",
        "a file of certificates in PEM, at most 64 KiB, one of which must have signed the server's. Kelson reads it with the \
         service file. The certificates themselves may stand in its place, as `kelsonctl status` shows them",
    )
}

fn verify() -> Key {
    without("verify", Kind::Boolean, "`true`", "`false`: the server's certificate is not checked")
}

fn statuses() -> Kind {
    let one = || {
        let range = form("range of codes", "^[0-9]+-[0-9]+$", "200-299");
        Kind::Either(vec![Kind::Number(100..=599), Kind::Form(range)])
    };
    Kind::Either(vec![one(), one().list_of(1, usize::MAX)])
}
