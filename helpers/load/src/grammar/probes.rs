//! What checks ask over the network: `tcp`, `http`, `grpc`.

use std::net::IpAddr;

use super::codec::{Codec, any_word, boolean, choice, map, number, path, text, word};
use super::mapping::{At, Mapping, keys};
use crate::certificates::{self, MAX_CERTIFICATES};
use crate::decode::{Decoder, Place, found, quoted, shown};
use crate::json::Json;
use crate::read;
use crate::schema::{Kind, form};
use crate::tree::{Node, Value};
use kelson_spec::loaded::Unchecked;
use kelson_spec::pattern;
use kelson_spec::service::{Asks, GrpcProbe, HttpProbe, NetworkProbe, ProbeTls};

/// The longest path of a URL with its query, and the longest value of a header, in bytes.
const LONGEST_LINE: usize = 4096;
/// The longest name of a host, in bytes, as DNS has it.
const LONGEST_HOST: usize = 253;
/// The longest part of such a name between two dots.
const LONGEST_LABEL: usize = 63;
/// The most headers of one request, besides those that every request has.
const MOST_HEADERS: usize = 32;
/// The first and the last status code there is.
const STATUS: (u16, u16) = (100, 599);

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
        let url_path =
            word("path of a URL", "^/[^\\s#<>\"`]*$", "/healthz").read_by(|d, p, n| d.url_path(p, n));
        let headers =
            map(("name", "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "X-Probe"), |d, p, n| d.headers(p, n), text());
        let about = "with its query; what cannot stand in a URL is written as `%20`";
        let mapping = keys! {
            port("http", asks);
            key "path" (part!(Http.path)) = url_path, about;
        };
        keys! {
            secured(address(mapping), part!(Http.host), || part!(Http.tls));
            key "headers" (part!(Http.headers)) = headers,
                "at most 32. `Host` is `host`; those of the connection (`Connection`, `Content-Length`, …) \
                 cannot be set";
            means "status" (part!(Http.status)) = statuses(), "`200-399`",
                "the codes that pass: `200`, `200-299`, or a list of both";
            means "body" (part!(Http.body)) = any_word("regular expression", "^ok").read_by(|d, p, n| d.pattern(p, n)).optional(),
                "any",
                "must match somewhere in the first 64 KiB: `ok`, `^[0-9]+$`, `(?i)ready`; at most 1 KiB, and \
                 small enough for a quick search (some 500 letters, repetitions counted), with the \
                 [syntax](https://docs.rs/regex-lite/latest/regex_lite/#syntax) of the crate regex-lite";
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

fn port(name: &'static str, asks: impl Fn() -> Asks + 'static) -> Mapping<NetworkProbe> {
    let initial = move || NetworkProbe { address: NetworkProbe::ADDRESS, port: 0, asks: asks() };
    let number = number(1..=u16::MAX);
    keys! {
        Mapping::new(name, initial);
        needed "port" port = number, "port: NUMBER", "the port of the server";
    }
}

fn address(mapping: Mapping<NetworkProbe>) -> Mapping<NetworkProbe> {
    let peer = super::codec::address().read_by(|d, p, n| d.peer(p, n));
    keys! {
        mapping;
        key "address" address = peer, "names are not looked up";
    }
}

/// `host`, and `scheme`, `ca` and `verify`.
fn secured(
    mapping: Mapping<NetworkProbe>,
    host_at: At<NetworkProbe, Option<String>>,
    tls: fn() -> At<NetworkProbe, Option<ProbeTls>>,
) -> Mapping<NetworkProbe> {
    let label = "[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?";
    let host = text()
        .of_kind(move || {
            let pattern = format!(r"^{label}(\.{label})*$");
            Kind::Form(form("host name", &pattern, "www.example.org"))
        })
        .read_by(|d, p, n| d.host(p, n));
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
    let ca = text().read_by(|d, p, n| d.authority(p, n)).of_kind(|| {
        let begin = "-----BEGIN CERTIFICATE-----";
        Kind::Either(vec![(path().kind)(), Kind::Form(form("certificates", begin, begin))])
    });
    keys! {
        mapping;
        means "host" (host_at) = host.optional(), "the address",
            "the name of the server, in the header `Host` (`:authority`) and in TLS";
        key "scheme" (scheme_at) = choice(vec![("http", false), ("https", true)]),
            "`https`: with TLS, and one of the next two";
        means "ca" (ca_at) = ca.optional(), "none",
            "a file of certificates in PEM, at most 64 KiB, one of which must have signed the server's. Kelson \
             reads it with the service file. The certificates themselves may stand in its place, as `kelsonctl \
             status` shows them";
        means "verify" (verify_at) = boolean().optional(), "`true`",
            "`false`: the server's certificate is not checked";
    }
        .check(move |d, seen, probe| {
            let unverified = seen.fields.get("verify").is_some_and(|verify| verify.is("false"));
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
                true if has_ca && unverified => {
                    let at = seen.fields.position("ca").max(seen.fields.position("verify"));
                    d.wrong(seen.fields.place, at, "ca and verify: false exclude each other; keep one");
                }
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
    let kind = || {
        let one = || {
            let range = form("range of codes", "^[0-9]+-[0-9]+$", "200-299");
            Kind::Either(vec![Kind::Number(u64::from(STATUS.0)..=u64::from(STATUS.1)), Kind::Form(range)])
        };
        Kind::Either(vec![one(), Kind::List(Box::new(one()), 1..=usize::MAX)])
    };
    Codec::new(
        kind,
        |d, p, n| d.statuses(p, n),
        |list, _| {
            let one = |(first, last): &(u16, u16)| match first == last {
                true => Json::Number((*first).into()),
                false => Json::Text(format!("{first}-{last}")),
            };
            match list.as_slice() {
                [] => Json::Null,
                [range] => one(range),
                several => Json::List(several.iter().map(one).collect()),
            }
        },
    )
}

impl Decoder<'_> {
    fn peer(&mut self, place: &Place<'_>, node: &Node) -> Option<IpAddr> {
        let text = self.word(place, node)?;
        let Ok(address) = text.parse::<IpAddr>() else {
            let text = format!(
                "{} is not an IP address; a check looks no names up: write such as 127.0.0.1 or ::1",
                quoted(&text)
            );
            self.wrong(place, node.at, text);
            return None;
        };
        if address.is_unspecified() || address.is_multicast() {
            let text =
                format!("nothing answers at {address}; write the address of one host, or leave it out");
            self.wrong(place, node.at, text);
            return None;
        }
        Some(address)
    }

    /// The name of the host that is asked for: letters, digits, `-`, `_` and `.`, or an address.
    fn host(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.word(place, node)?;
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= LONGEST_LABEL
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if text.len() <= LONGEST_HOST && text.split('.').all(label) {
            return Some(text);
        }
        let text = format!(
            "{} is not the name of a host; write such as www.example.org, without scheme and port",
            quoted(&text)
        );
        self.wrong(place, node.at, text);
        None
    }

    /// The certificates of a file, or of the text itself where it holds them, as `kelsonctl status` shows them.
    fn authority(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.word(place, node)?;
        let (name, content) = if certificates::looks_like(&text) {
            (String::new(), Ok(text))
        } else {
            let path = self.path(place, node)?;
            let Some(located) = self.context.locate(&path, Unchecked::Certificates) else {
                return Some(String::new());
            };
            let content = read::utf8(&located, MAX_CERTIFICATES);
            (format!("{}: ", shown(&path.to_string_lossy())), content.map_err(|error| error.to_string()))
        };
        let read = content.and_then(|content| certificates::of(&content).map_err(|error| error.to_string()));
        read.map_err(|message| self.wrong(place, node.at, format_args!("{name}{message}"))).ok()
    }

    fn headers(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<(String, String)>> {
        let mut list: Vec<(String, String)> = Vec::new();
        for (name, entry) in self.entries(place, node)? {
            let inner = Place::Key(place, name);
            if let Some(message) = header_mistake(name, &list) {
                self.wrong(place, entry.key.at, message);
            } else if matches!(entry.value.value, Value::Null) {
                self.wrong(&inner, entry.value.at, "this key has no value; write \"\" for an empty one");
            } else if let Some(value) = self.header_value(&inner, &entry.value) {
                list.push((name.to_owned(), value));
            }
        }
        if list.len() > MOST_HEADERS {
            let text = format!("these are {} headers; a request has at most {MOST_HEADERS}", list.len());
            self.wrong(place, node.at, text);
            return None;
        }
        Some(list)
    }

    fn header_value(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let value = self.text(place, node)?;
        let sound = value.bytes().all(|b| b == b' ' || b == b'\t' || b.is_ascii_graphic());
        if !sound || value.trim() != value || value.len() > LONGEST_LINE {
            let text = format!(
                "{} is not the value of a header; write one line of ASCII, at most {LONGEST_LINE} bytes, no spaces around it",
                quoted(&value)
            );
            self.wrong(place, node.at, text);
            return None;
        }
        Some(value)
    }

    fn statuses(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<(u16, u16)>> {
        match &node.value {
            Value::Scalar(_) => self.status(place, node).map(|range| vec![range]),
            Value::Sequence(items) => {
                let list = self.list(place, node, "", |d, p, n| d.status(p, n))?;
                if items.is_empty() {
                    self.wrong(place, node.at, "this list is empty, so no answer could pass");
                    return None;
                }
                Some(list)
            }
            _ => {
                let text = format!(
                    "found {} where a status such as 200, 200-299 or [200, 204] belongs",
                    found(node)
                );
                self.wrong(place, node.at, text);
                None
            }
        }
    }

    fn status(&mut self, place: &Place<'_>, node: &Node) -> Option<(u16, u16)> {
        let text = self.text(place, node)?;
        let code = |text: &str| u16::try_from(kelson_spec::units::number(text)?).ok();
        let range = match text.split_once('-') {
            Some((first, last)) => code(first).zip(code(last)),
            None => code(&text).map(|code| (code, code)),
        };
        let Some((first, last)) = range else {
            let text = format!("{} is not a status; write such as 200 or 200-299", quoted(&text));
            self.wrong(place, node.at, text);
            return None;
        };
        if first < STATUS.0 || last > STATUS.1 || first > last {
            let (least, most) = STATUS;
            let text = format!(
                "{} is out of range; write codes from {least} to {most}, the lower first",
                shown(&text)
            );
            self.wrong(place, node.at, text);
            return None;
        }
        Some((first, last))
    }

    fn pattern(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.word(place, node)?;
        match pattern::compile(&text) {
            Ok(_) => Some(text),
            Err(error) => {
                self.wrong(place, node.at, format_args!("{} {error}", quoted(&text)));
                None
            }
        }
    }

    /// A path with its query, as it stands in the first line of a request.
    fn url_path(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let path = self.text(place, node)?;
        if !path.starts_with('/') {
            let text = format!("{} is not a path of a URL; write it with / first", quoted(&path));
            self.wrong(place, node.at, text);
            return None;
        }
        let strange =
            path.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '#' | '<' | '>' | '"' | '`'));
        if let Some(strange) = strange {
            let mut bytes = [0; 4];
            let escaped: String =
                strange.encode_utf8(&mut bytes).bytes().map(|b| format!("%{b:02X}")).collect();
            let text = format!("{strange:?} cannot stand in a path of a URL; write {escaped}");
            self.wrong(place, node.at, text);
            return None;
        }
        if path.len() > LONGEST_LINE {
            self.wrong(place, node.at, format_args!("the path is longer than {LONGEST_LINE} bytes"));
            return None;
        }
        Some(path)
    }
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
