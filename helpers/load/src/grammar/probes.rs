//! The probes of checks that Kelson asks itself: `tcp`, `http`, `grpc`, `csi`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::at::At;
use super::codec::Codec;
use super::environment::EMPTY;
use super::mapping::{Mapping, keys};
use super::values::{any_word, boolean, choice, map, number, path, some_text, span, text};
use crate::certificates::{self, MAX_CERTIFICATES};
use crate::decode::{Decoder, quoted, shown};
use crate::json::Json;
use crate::read;
use crate::schema::{Kind, form};
use crate::tree::{Node, Value};
use kelson_spec::loaded::Unchecked;
use kelson_spec::names::is_host_name;
use kelson_spec::pattern;
use kelson_spec::service::{Asks, GrpcProbe, HttpProbe, NetworkProbe, ProbeTls, UnixPlace};

/// The longest path of a URL with its query, and the longest value of a header, in bytes.
const LONGEST_LINE: usize = 4096;
/// The longest name of a host, in bytes, as DNS has it.
const LONGEST_HOST: usize = 253;
/// The longest part of such a name between two dots.
const LONGEST_LABEL: usize = 63;
/// The most headers of one request, besides those that every request has.
const MOST_HEADERS: usize = 32;
/// The first and the last status code there is.
const STATUS: RangeInclusive<u16> = 100..=599;

/// Headers that belong to the connection, which is not the file's.
const OWN_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A field of what is asked in this protocol.
macro_rules! part {
    ($kind:ident.$field:ident) => {
        At::new(
            |probe: &NetworkProbe| match &probe.asks {
                Asks::$kind(part) => Some(part.$field.clone()),
                _ => None,
            },
            |probe: &mut NetworkProbe, value| {
                if let Asks::$kind(part) = &mut probe.asks {
                    part.$field = value;
                }
            },
        )
    };
}

pub fn tcp() -> Codec<NetworkProbe> {
    Mapping::codec(|| address(port("tcp", || Asks::Tcp)))
}

pub fn http() -> Codec<NetworkProbe> {
    Mapping::codec(|| {
        let asks = || {
            Asks::Http(HttpProbe {
                path: "/".to_owned(),
                host: None,
                headers: Vec::new(),
                status: Vec::new(),
                body: None,
                tls: None,
            })
        };
        let url_path = text()
            .of_kind(|| Kind::Form(form("path of a URL", "^/[^\\s#<>\"`]*$", "/healthz")))
            .but(|path| url_mistake(path));
        let pattern = any_word("regular expression", "^ok")
            .but(|text| pattern::compile(text).err().map(|error| format!("{} {error}", quoted(text))));
        let about = "the path with its query; characters that a URL cannot contain are escaped, such as \
             `%20`";
        let mapping = keys! {
            port("http", asks);
            key "path" (part!(Http.path)) = url_path, about;
        };
        keys! {
            secured(address(mapping), part!(Http.host), || part!(Http.tls));
            key "headers" (part!(Http.headers)) = headers(),
                "at most 32 headers. `host` sets the header `Host`. Headers of the connection \
             (`Connection`, `Content-Length`, …) cannot be set";
            means "status" (part!(Http.status)) = statuses(), "`200-399`",
                "the codes that pass: `200`, `200-299`, or a list of both";
            means "body" (part!(Http.body)) = pattern.optional(),
                "any",
                "a pattern that must match somewhere in the first 64 KiB: `ok`, `^[0-9]+$`, `(?i)ready`. \
             It has at most 1 KiB, is small enough for a quick search (some 500 letters, repetitions \
             counted), and has the [syntax](https://docs.rs/regex-lite/latest/regex_lite/#syntax) of the \
             crate regex-lite";
        }
    })
}

pub fn grpc() -> Codec<NetworkProbe> {
    Mapping::codec(|| {
        let asks = || Asks::Grpc(GrpcProbe { service: String::new(), host: None, tls: None });
        let mapping = keys! {
            port("grpc", asks);
            means "service" (part!(Grpc.service)) = text(), "the server as a whole",
                "the name in the request of `grpc.health.v1.Health/Check`; `SERVING` passes";
        };
        secured(address(mapping), part!(Grpc.host), || part!(Grpc.tls))
    })
}

pub fn csi() -> Codec<PathBuf> {
    path().but(|path| {
        let length = path.as_os_str().len();
        (length > UnixPlace::LONGEST).then(|| {
            format!("this path has {length} bytes; that of a Unix socket has at most {}", UnixPlace::LONGEST)
        })
    })
}

fn port(name: &'static str, asks: impl Fn() -> Asks + 'static) -> Mapping<NetworkProbe> {
    let initial = move || NetworkProbe { address: NetworkProbe::ADDRESS, port: 0, asks: asks() };
    let number = number(1..=u16::MAX);
    keys! {
        Mapping::new(name, initial);
        needed "port" port = number, "port: NUMBER", "the port of the server";
    }
}

fn address(mapping: Mapping<NetworkProbe>) -> Mapping<NetworkProbe> {
    let peer =
        super::values::address("; a check looks no names up: write such as 127.0.0.1 or ::1").but(|peer| {
            (peer.is_unspecified() || peer.is_multicast())
                .then(|| format!("nothing answers at {peer}; write the address of one host, or leave it out"))
        });
    keys! {
        mapping;
        key "address" address = peer, "the address of the server; Kelson resolves no names";
    }
}

/// `host`, and `scheme`, `ca` and `verify`.
fn secured(
    mapping: Mapping<NetworkProbe>,
    host_at: At<NetworkProbe, Option<String>>,
    tls: fn() -> At<NetworkProbe, Option<ProbeTls>>,
) -> Mapping<NetworkProbe> {
    let label = "[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?";
    let kind = move || {
        let pattern = format!(r"^{label}(\.{label})*$");
        Kind::Form(form("host name", &pattern, "www.example.org"))
    };
    let host = some_text().of_kind(kind).but(|text| {
        let sound = text.len() <= LONGEST_HOST && is_host_name(text, LONGEST_LABEL, b"_");
        (!sound).then(|| {
            format!(
                "{} is not the name of a host; write such as www.example.org, without scheme and port",
                quoted(text)
            )
        })
    });
    let scheme_at = At::new(
        move |probe| Some(tls().get(probe)?.is_some()),
        move |probe, secure: bool| tls().put(probe, secure.then_some(ProbeTls { ca: None })),
    );
    let ca_at = At::new(
        move |probe| Some(tls().get(probe)??.ca),
        move |probe, ca: Option<String>| {
            if tls().get(probe).flatten().is_some() {
                tls().put(probe, Some(ProbeTls { ca }));
            }
        },
    );
    let verify_at = At::new(
        // That there are no certificates is all that the spec knows of it.
        move |probe| Some(tls().get(probe)??.ca.is_none().then_some(false)),
        |_, _| {},
    );
    let ca = text().read_by(|d, node| d.authority(node)).of_kind(|| {
        let begin = "-----BEGIN CERTIFICATE-----";
        Kind::Either(vec![(path().kind)(), Kind::Form(form("certificates", begin, begin))])
    });
    keys! {
        mapping;
        means "host" (host_at) = host.optional(), "the address",
            "the name of the server, in the header `Host` (`:authority`) and in TLS";
        key "scheme" (scheme_at) = choice([("http", false), ("https", true)]),
            "`https`: with TLS; it needs one of the next two keys";
        means "ca" (ca_at) = ca.optional(), "none",
            "a PEM file of at most 64 KiB with certificates, one of which must have signed the \
             certificate of the server. Kelson reads it with the service file. The value may also be the \
             certificates themselves, as `kelsonctl status` shows them";
        means "verify" (verify_at) = boolean().optional(), "`true`",
            "`false`: Kelson does not check the certificate of the server";
    }
        .check(move |d, seen, probe| {
            let unverified = seen.get("verify").is_some_and(|verify| verify.is("false"));
            let secure = tls().get(probe).flatten().is_some();
            let has_ca = seen.has("ca");
            match secure {
                _ if seen.is_wrong("scheme") => {}
                false => {
                    for key in ["ca", "verify"].into_iter().filter(|key| seen.has(key)) {
                        let text = format!(
                            "without TLS there is no certificate; write scheme: https, or leave {key} out"
                        );
                        seen.wrong_key(d, key, text);
                    }
                }
                true if has_ca && unverified => seen.exclude(d, "ca", "verify", "ca and verify: false"),
                true if has_ca || unverified || seen.is_wrong("verify") => {}
                true => {
                    let text = "https needs ca: FILE with the certificates that may have signed the server's, or verify: false";
                    seen.wrong_key(d, "scheme", text);
                }
            }
        })
}

/// One code, one range, or a list of both.
fn statuses() -> Codec<Vec<(u16, u16)>> {
    let one = status();
    let (kind, shown) = (one.kind.clone(), one.clone());
    Codec::new(
        move || Kind::Either(vec![kind(), Kind::List(Box::new(kind()), 1..=usize::MAX)]),
        move |d, node| match node.value {
            Value::Scalar(_) => one.decode(d, node).map(|range| vec![range]),
            Value::Sequence(_) => {
                let list = d.list(node, "", |d, node| one.decode(d, node))?;
                match node.is_empty_list() {
                    true => d.refuse(node, "this list is empty, so no answer could pass"),
                    false => Some(list),
                }
            }
            _ => d.expected(node, "a status such as 200, 200-299 or [200, 204]"),
        },
        move |list, extent| match list.as_slice() {
            [] => Json::Null,
            [range] => shown.encode(range, extent),
            several => Json::List(several.iter().map(|range| shown.encode(range, extent)).collect()),
        },
    )
}

fn status() -> Codec<(u16, u16)> {
    span(STATUS, ("status", "codes", "range of codes"), "200-299")
}

fn headers() -> Codec<Vec<(String, String)>> {
    let value = text().but(|value| {
        let sound = value.bytes().all(|b| b == b' ' || b == b'\t' || b.is_ascii_graphic())
            && value.trim() == value
            && value.len() <= LONGEST_LINE;
        (!sound).then(|| {
            format!(
                "{} is not the value of a header; write one line of ASCII, at most {LONGEST_LINE} bytes, no spaces around it",
                quoted(value)
            )
        })
    });
    map(("name", "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "X-Probe"), EMPTY, header_mistake, value).but(|list| {
        let count = list.len();
        (count > MOST_HEADERS)
            .then(|| format!("these are {count} headers; a request has at most {MOST_HEADERS}"))
    })
}

impl Decoder<'_> {
    /// The certificates of a file, or of the text itself where it holds them, as `kelsonctl status` shows them.
    fn authority(&mut self, node: &Node) -> Option<String> {
        let text = self.word(node)?;
        let (name, content) = if certificates::looks_like(&text) {
            (String::new(), Ok(text))
        } else {
            let path = self.path(node)?;
            let Some(located) = self.context.locate(&path, Unchecked::Certificates) else {
                return Some(String::new());
            };
            let content = read::utf8(&located, MAX_CERTIFICATES);
            (format!("{}: ", shown(&path.to_string_lossy())), content.map_err(|error| error.to_string()))
        };
        let read = content.and_then(|content| certificates::of(&content).map_err(|error| error.to_string()));
        read.map_err(|message| self.wrong(node.at, format_args!("{name}{message}"))).ok()
    }
}

/// Why this cannot be the path with its query in the first line of a request, if it cannot.
fn url_mistake(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return Some(format!("{} is not a path of a URL; write it with / first", quoted(path)));
    }
    let strange = path.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '#' | '<' | '>' | '"' | '`'));
    if let Some(strange) = strange {
        let escaped: String = strange.to_string().bytes().map(|b| format!("%{b:02X}")).collect();
        return Some(format!("{strange:?} cannot stand in a path of a URL; write {escaped}"));
    }
    (path.len() > LONGEST_LINE).then(|| format!("the path is longer than {LONGEST_LINE} bytes"))
}

/// Why a header of this name cannot be sent beside those of `others`, if it cannot.
fn header_mistake(name: &str, others: &[(String, String)]) -> Option<String> {
    let sound = !name.is_empty()
        && name.len() <= LONGEST_HOST
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    if !sound {
        return Some(format!("{} is not the name of a header, such as X-Probe", quoted(name)));
    }
    if name.eq_ignore_ascii_case("host") {
        return Some("the header Host has a key of its own; write host: NAME beside port".to_owned());
    }
    if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Some(format!("the header {name} belongs to the connection and cannot be set; remove it"));
    }
    let twin = others.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?;
    Some(format!("the headers {} and {name} are the same; keep one", twin.0))
}
