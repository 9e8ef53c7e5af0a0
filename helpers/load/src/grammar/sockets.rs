//! `sockets`: what PID 1 holds for a service; and `start`, which may wait for them.

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::seen::Seen;
use super::values::{boolean, choice, four_octal, number, some_text, word};
use crate::decode::{Decoder, quoted};
use crate::json::Json;
use crate::schema::{Kind, form};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{
    Listen, Readiness, ServiceKind, ServiceSpec, SocketOptions, SocketSpec, StartMode,
};

/// The number that the first of them has in a service.
const FIRST: i32 = 3;
const PERMISSIONS: u32 = 0o777;

/// The word of `start`.
#[derive(Clone, Copy, PartialEq)]
pub enum Start {
    Auto,
    Manual,
    OnDemand,
}

/// Where `start` belongs: a spec has no third mode, which another release would not know.
pub fn start_at() -> At<ServiceSpec, Start> {
    At::new(
        |spec: &ServiceSpec| match (spec.start, spec.on_demand) {
            // Its schedule says so.
            (StartMode::Manual, _) if spec.schedule().is_some() => None,
            (StartMode::Manual, _) => Some(Start::Manual),
            (StartMode::Auto, true) => Some(Start::OnDemand),
            (StartMode::Auto, false) => Some(Start::Auto),
        },
        |spec, start| {
            spec.start = if start == Start::Manual { StartMode::Manual } else { StartMode::Auto };
            spec.on_demand = start == Start::OnDemand;
        },
    )
}

pub fn start() -> Codec<Start> {
    let words = [("auto", Start::Auto), ("manual", Start::Manual), ("onDemand", Start::OnDemand)];
    choice(words.into_iter().filter(|(_, start)| *start != Start::OnDemand || OWN.has(Feature::Units)))
}

pub fn sockets() -> Codec<Vec<SocketSpec>> {
    const MOST: usize = SocketSpec::MOST;
    let list = Mapping::codec(socket)
        .list_of(0..=MOST, "a list of sockets such as [{name: http, listen: 0.0.0.0:80}]");
    list.around(|d, node, list| {
        d.at_most(node, MOST, |count| format!("these are {count} sockets; a service has at most {MOST}"))?;
        list(d, node)
    })
}

fn socket() -> Mapping<SocketSpec> {
    fn option(get: fn(&mut SocketOptions) -> &mut bool) -> At<SocketSpec, bool> {
        At::new(
            move |socket: &SocketSpec| Some(*get(&mut socket.options.clone())),
            move |socket: &mut SocketSpec, is_set| *get(&mut socket.options) = is_set,
        )
    }
    let mapping = keys! {
        Mapping::new("socket", SocketSpec::default);
        needed "name" name = name(), "name: http", "its name in `LISTEN_FDNAMES`; several can have the same";
        needed "listen" listen = listen(), "listen: 0.0.0.0:80", "[where it listens](#listen)";
        key "backlog" backlog = number(1..=65_535),
            "how many connections wait at most until the service takes them; the kernel's own limit is \
             `net.core.somaxconn`";
        key "mode" mode = four_octal("mode", PERMISSIONS, "0660"), "the permissions of the file of a Unix socket or FIFO";
        means "user" owner = owner().optional(), "PID 1's (root)",
            "the owner of that file: `user` or `user:group`, as names or numbers";
        key "ipv6Only" (option(|options| &mut options.ipv6_only)) = boolean(),
            "`true`: an IPv6 address takes no connections by IPv4";
        key "reusePort" (option(|options| &mut options.reuse_port)) = boolean(),
            "`true`: other sockets can listen on the same port (`SO_REUSEPORT`)";
        key "freeBind" (option(|options| &mut options.free_bind)) = boolean(),
            "`true`: it listens also while the host does not have the address";
        key "passCredentials" (option(|options| &mut options.pass_credentials)) = boolean(),
            "`true`: messages of a Unix socket name their sender (`SO_PASSCRED`)";
        key "keepAlive" (option(|options| &mut options.keep_alive)) = boolean(),
            "`true`: the kernel asks from time to time whether the other end of a quiet connection is there (`SO_KEEPALIVE`)";
        key "nonBlocking" (option(|options| &mut options.non_blocking)) = boolean(),
            "`true`: the service gets it with `O_NONBLOCK`";
        key "stdin" (option(|options| &mut options.stdin)) = boolean(),
            "`true`: it is the standard input of the main process too";
    };
    mapping.check(|d, seen, socket| {
        let Ok(listen) = Listen::read(&socket.listen) else { return };
        for (key, why) in socket.misplaced(&listen) {
            seen.wrong_key(d, key, format_args!("{why}; leave it out"));
        }
    })
}

fn name() -> Codec<String> {
    let is_name =
        |text: &str| text.len() <= SocketSpec::LONGEST_NAME && text.chars().all(SocketSpec::is_of_name);
    word("name of a socket", "^[A-Za-z0-9._@-]{1,255}$", "http").but(move |text| {
        (!is_name(text))
            .then(|| format!("{} is not a name of a socket; use letters, digits, and . _ @ -", quoted(text)))
    })
}

fn listen() -> Codec<String> {
    word("address or path", "^[^ ]", "0.0.0.0:80").but(|text| {
        Listen::read(text).err().map(|wrong| {
            format!("{} {wrong}; see sockets.listen in docs/service-file.md for all forms", quoted(text))
        })
    })
}

/// A user and a group of the host.
pub fn owner() -> Codec<(u32, u32)> {
    Codec::new(
        || Kind::Form(form("user or user:group", "^[^:]+(:[^:]+)?$", "root")),
        |d, node| {
            let text = some_text().decode(d, node)?;
            d.credentials(node, &text).map(|found| (found.uid, found.gid))
        },
        |(uid, gid), _| Json::Text(format!("{uid}:{gid}")),
    )
}

/// Notes mistakes of `sockets` and `start` that other keys make.
pub fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &ServiceSpec) {
    if spec.on_demand {
        let names_none = spec.sockets.is_empty() && spec.paths.is_empty();
        if names_none && !seen.is_wrong("sockets") && !seen.is_wrong("paths") {
            let text =
                "a service is started on demand by its sockets and paths; name some in sockets or paths";
            seen.wrong_value(d, "start", text);
        }
        if spec.kind == ServiceKind::Oneshot && !spec.sockets.is_empty() {
            let text =
                "a oneshot ends before it takes a connection; write type: service, or leave sockets out";
            seen.wrong_value(d, "start", text);
        }
    }
    if spec.sockets.is_empty() {
        return;
    }
    if seen.has("container") {
        seen.wrong_key(
            d,
            "sockets",
            "no descriptor reaches into a container; publish ports in container.network",
        );
        return;
    }
    for (place, socket) in spec.sockets.iter().enumerate() {
        if spec.sockets.iter().take(place).any(|other| other.listen == socket.listen) {
            seen.wrong_value(
                d,
                "sockets",
                format_args!("two of them listen on {}; leave one out", socket.listen),
            );
        }
    }
    if spec.sockets.iter().filter(|socket| socket.options.stdin).count() > 1 {
        let text = "a process has one standard input; write stdin: true at one of them";
        seen.wrong_value(d, "sockets", text);
    }
    let last = i32::try_from(spec.sockets.len()).unwrap_or(i32::MAX).saturating_add(FIRST.saturating_sub(1));
    if let Readiness::Descriptor(number) = spec.readiness
        && (FIRST..=last).contains(&number)
    {
        let text = format_args!("its sockets are descriptors {FIRST} to {last}; choose one above them");
        seen.wrong_value(d, "readiness", text);
    }
}
