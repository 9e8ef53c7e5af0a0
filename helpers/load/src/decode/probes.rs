//! What checks ask over the network: `tcp`, `http`, `grpc`.

use std::net::IpAddr;

use super::{Decoder, Fields, Place, found, quoted, shown};
use crate::certificates::{self, MAX_CERTIFICATES};
use crate::read;
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

impl Decoder<'_> {
    pub(super) fn tcp(&mut self, place: &Place<'_>, node: &Node) -> Option<NetworkProbe> {
        let fields = self.fields(place, node, &["port", "address"])?;
        let (port, address) = self.target(&fields);
        Some(NetworkProbe { address, port: port?, asks: Asks::Tcp })
    }

    pub(super) fn http(&mut self, place: &Place<'_>, node: &Node) -> Option<NetworkProbe> {
        let keys = ["port", "path", "address", "host", "scheme", "ca", "verify", "headers", "status", "body"];
        let fields = self.fields(place, node, &keys)?;
        let (port, address) = self.target(&fields);
        let mut http = HttpProbe {
            path: "/".to_owned(),
            host: self.read(&fields, "host", |d, p, n| d.host(p, n)),
            headers: Vec::new(),
            status: Vec::new(),
            body: self.read(&fields, "body", |d, p, n| d.pattern(p, n)),
            tls: self.tls(&fields),
        };
        self.set(&fields, "path", &mut http.path, |d, p, n| d.url_path(p, n));
        self.set(&fields, "headers", &mut http.headers, |d, p, n| d.headers(p, n));
        self.set(&fields, "status", &mut http.status, |d, p, n| d.statuses(p, n));
        Some(NetworkProbe { address, port: port?, asks: Asks::Http(http) })
    }

    pub(super) fn grpc(&mut self, place: &Place<'_>, node: &Node) -> Option<NetworkProbe> {
        let keys = ["port", "service", "address", "host", "scheme", "ca", "verify"];
        let fields = self.fields(place, node, &keys)?;
        let (port, address) = self.target(&fields);
        let mut grpc = GrpcProbe {
            service: String::new(),
            host: self.read(&fields, "host", |d, p, n| d.host(p, n)),
            tls: self.tls(&fields),
        };
        self.set(&fields, "service", &mut grpc.service, |d, p, n| d.text(p, n));
        Some(NetworkProbe { address, port: port?, asks: Asks::Grpc(grpc) })
    }

    /// Where the probe goes.
    fn target(&mut self, fields: &Fields<'_, '_>) -> (Option<u16>, IpAddr) {
        let port = self.require(fields, "port", "port: NUMBER", |d, p, n| d.number(p, n, 1..=u16::MAX));
        let mut address = NetworkProbe::ADDRESS;
        self.set(fields, "address", &mut address, |d, p, n| d.peer(p, n));
        (port, address)
    }

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

    /// `scheme`, `ca` and `verify`.
    fn tls(&mut self, fields: &Fields<'_, '_>) -> Option<ProbeTls> {
        let secure = self
            .read(fields, "scheme", |d, p, n| d.choice(p, n, &[("http", false), ("https", true)]))
            .or(if fields.has("scheme") { None } else { Some(false) });
        let verify = self.read(fields, "verify", |d, p, n| d.boolean(p, n));
        let ca = self.read(fields, "ca", |d, p, n| d.authority(p, n));
        match secure? {
            false => {
                for key in ["ca", "verify"].into_iter().filter(|key| fields.has(key)) {
                    let text = format!(
                        "without TLS there is no certificate; write scheme: https, or leave {key} out"
                    );
                    self.wrong(&Place::Key(fields.place, key), fields.position(key), text);
                }
                None
            }
            true if fields.has("ca") && verify == Some(false) => {
                let text = "ca and verify: false exclude each other; keep one";
                self.wrong(fields.place, fields.position("ca").max(fields.position("verify")), text);
                None
            }
            true if fields.has("ca") => ca.map(|ca| ProbeTls { ca: Some(ca) }),
            true if verify == Some(false) => Some(ProbeTls { ca: None }),
            // What is wrong with the value of verify has been said.
            true if fields.has("verify") && verify.is_none() => None,
            true => {
                let text = "https needs ca: FILE with the certificates that may have signed the server's, or verify: false";
                self.wrong(&Place::Key(fields.place, "scheme"), fields.position("scheme"), text);
                None
            }
        }
    }

    /// The certificates of a file, or of the text itself where it holds them, as [`kelson_spec::render`] writes them.
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

    /// One code, one range, or a list of both.
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
