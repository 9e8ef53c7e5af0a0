//! `fleet` of the machine file, and `register` and `disconnect` of a service file.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddrV6};

use super::checks::{CheckOf, checks};
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::registration;
use super::seen::Seen;
use super::values::{
    SHORTEST, boolean, choice, distinct, duration, duration_from, map, name, number, path, text,
    too_many_bytes, word,
};
use crate::decode::{Decoder, diagnostic, quoted};
use kelson_spec::fleet::{Consul, Disconnect, FleetSpec, OnReconnect, Registration};
use kelson_spec::names::{LONGEST_NAME, is_host_name};
use kelson_spec::registries::is_registry;
use kelson_spec::service::{ServiceKind, ServiceSpec};
use kelson_spec::units::duration_text;
use kelson_spec::variables;

/// The most members of etcd, which has no more than seven.
const MOST_ENDPOINTS: usize = 16;
/// The most labels, tags and entries of `meta`.
const MOST: usize = 64;
/// The most bytes of all labels of a host, and of all tags and `meta` of a service: each fits into one packet of its helper.
const MOST_BYTES: usize = 4 << 10;
const LONGEST_LABEL: usize = 63;
const LONGEST_META: usize = 512;
const LONGEST_PREFIX: usize = 255;
/// The longest name of a host in DNS, and the longest part of it.
const LONGEST_HOST: usize = 253;
const LONGEST_PART: usize = 63;
const AUTO: &str = "auto";
const AGENT: &str = "http://127.0.0.1:8500";

/// The store of the fleet, and who the host is in it.
pub fn fleet() -> Codec<FleetSpec> {
    Mapping::codec(|| {
        let host = label("name of a host", "edge-1", r"^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$", ".-");
        keys! {
            Mapping::new("fleet", FleetSpec::default);
            means "endpoints" endpoints = endpoints(), "–", "the members of etcd. Kelson uses one that answers";
            means "consul" consul = consul().optional(), "–", "the agent of [Consul](fleet.md#consul) on this host";
            means "ca" ca = path().optional(), "none",
                "a PEM file with the CAs that the certificates of the members must lead to. It is needed with `https`; the CAs \
                 of the system do not count";
            means "certificate" certificate = path().optional(), "none",
                "a PEM file with the certificate of this host, for members that ask for one";
            means "key" key = path().optional(), "none", "a PEM file with the key of `certificate`";
            means "join" join = path().optional(), "none",
                "a file with a token of `kelsonctl fleet token`, in the place of `certificate` and `key`: the host gets its \
                 certificate from the [issuer of the fleet](fleet.md#who-can-write), and renews it";
            key "prefix" prefix = prefix(), "the beginning of all keys of the fleet";
            means "name" name = host.optional(), "the name of the host",
                "the name of this host in the fleet: letters, digits, `-` and `.`, at most 63. No other host of the fleet has it";
            key "labels" labels = texts("labels", "role", LONGEST_LABEL, |_| None),
                "texts by which others choose among hosts: `{role: edge}`";
        }
        .one_of(&["endpoints", "consul"])
        .strict()
        .check(|d, seen, fleet| secured(d, seen, fleet))
    })
}

/// The agent of Consul on this host.
fn consul() -> Codec<Consul> {
    Mapping::codec(|| {
        let address =
            word("`http://HOST:PORT`", r"^http://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]+$", AGENT).but(
                |text| {
                    let wrong = || {
                        format!(
                            "{} is not the address of an agent; write such as {AGENT}, with the port",
                            quoted(text)
                        )
                    };
                    (!text.starts_with("http:") || !is_endpoint(text)).then(wrong)
                },
            );
        keys! {
            Mapping::new("consul", || Consul { address: AGENT.to_owned(), token: None });
            key "address" address = address, "where the agent answers";
            means "token" token = path().optional(), "none",
                "a file with the token of the calls, for an agent that asks for one";
        }
    })
}

/// What a service registers while it is up.
pub fn register() -> Codec<Registration> {
    Mapping::codec(|| {
        keys! {
            Mapping::new("registration", Registration::default);
            means "name" name = name(), "the name of the service", "the name under which others find it";
            means "port" port = number(1..=u16::MAX).optional(), "none", "the port on which it is reached";
            key "tags" tags = tags(), "words by which others choose among several: `[primary]`";
            key "address" address = address(),
                "the address at which it is reached. `auto`: that of the host from which it reaches etcd";
            key "meta" meta = texts("entries", "version", LONGEST_META, unfit),
                "texts for those who find it: `{version: \"17\"}`. They may have [variables](fleet.md#variables)";
            key "required" required = boolean(),
                "`true`: the service is up only once etcd has confirmed the registration";
            key "checks" checks = checks(CheckOf::Registration),
                "[checks](#checks-of-a-registration) that must all pass for it to be registered";
        }
        .check(|d, seen, registration| {
            if !seen.has("name") {
                registration.name.clone_from(&d.stem);
            }
            let of_meta = registration.meta.iter().flat_map(|(key, text)| [key, text]);
            let size = registration.tags.iter().chain(of_meta).fold(0, |sum: usize, text| sum.saturating_add(text.len()));
            if let Some(message) = too_many_bytes(size, MOST_BYTES, "tags and entries of meta") {
                d.wrong(seen.node.at, message);
            }
        })
    })
}

/// When a service stops because the store of the fleet does not answer.
pub fn disconnect() -> Codec<Disconnect> {
    Mapping::codec(|| {
        keys! {
            Mapping::new("disconnect", Disconnect::default);
            needed "stopAfter" stop_after = duration_from(SHORTEST), "stopAfter: 10m",
                "the service is stopped so long after the last answer of etcd";
            means "startupGrace" startup_grace = duration(), "as `stopAfter`",
                "the same after the start of the host, as long as etcd has not answered since the boot";
            key "onReconnect" on_reconnect = choice(OnReconnect::ALL.map(|one| (one.name(), one))),
                "when etcd answers again: `start`: a service that was stopped for this starts again, unless somebody has \
                 stopped it since; `leave`: it stays stopped";
        }
        .check(|_, seen, disconnect| {
            if !seen.has("startupGrace") {
                disconnect.startup_grace = disconnect.stop_after;
            }
        })
    })
}

/// Notes mistakes that other keys make, and warns of what is hardly meant.
pub fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut ServiceSpec) {
    registration::check(d, seen, spec);
    if let Some(disconnect) = spec.disconnect {
        if spec.kind == ServiceKind::Oneshot {
            let text = "a one-shot ends by itself; leave disconnect out, or write type: service if its program runs on";
            seen.wrong_key(d, "disconnect", text);
        }
        if disconnect.stop_after < FleetSpec::TTL {
            let least = duration_text(FleetSpec::TTL);
            let text = format!(
                "disconnect: others see this host until {least} after the last answer of etcd; with a stopAfter of less than \
                 {least} one late answer stops the service"
            );
            d.warnings.push(diagnostic(d.file, seen.position("disconnect"), d.service, text));
        }
    }
    if spec.register.is_some() && spec.kind == ServiceKind::Oneshot {
        let text = "register: a one-shot is up, and so registered, once it has ended; write type: service if its program answers, \
                    or leave register out unless something else answers then";
        d.warnings.push(diagnostic(d.file, seen.position("register"), d.service, text));
    }
}

fn endpoints() -> Codec<Vec<String>> {
    let pattern = r"^https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]+$";
    let endpoint = word("`https://HOST:PORT` or `http://HOST:PORT`", pattern, "https://etcd-1.example:2379")
        .but(|text| {
            let wrong = || {
                format!(
                    "{} is not an endpoint; write such as https://etcd-1.example:2379, with the port",
                    quoted(text)
                )
            };
            (!is_endpoint(text)).then(wrong)
        });
    let empty = "this list is empty; name a member of etcd, or remove fleet";
    distinct(endpoint.some("a list of endpoints", empty)).around(|d, node, inner| {
        let most = |count| format!("these are {count} endpoints; at most {MOST_ENDPOINTS} can stand here");
        d.at_most(node, MOST_ENDPOINTS, most)?;
        inner(d, node)
    })
}

fn is_endpoint(text: &str) -> bool {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    authority.is_some_and(|authority| match authority.parse::<SocketAddrV6>() {
        Ok(address) => address.port() > 0 && address.scope_id() == 0,
        Err(_) => authority.contains(':') && is_registry(authority),
    })
}

fn prefix() -> Codec<String> {
    word("prefix of keys", "^(/[A-Za-z0-9._-]+)+$", "/kelson/v1").but(|text| {
        let sound = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        let is_prefix = text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(sound));
        (!is_prefix || text.len() > LONGEST_PREFIX).then(|| {
            format!(
                "{} is not a prefix of keys; write such as /kelson/v1, of letters, digits, ., _ and -, at most {LONGEST_PREFIX}, \
                 without a / at the end",
                quoted(text)
            )
        })
    })
}

/// Checks `ca`, `certificate` and `key` with the endpoints and with each other.
fn secured(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, fleet: &FleetSpec) {
    let is_secure = |endpoint: &String| endpoint.starts_with("https:");
    let secure = fleet.endpoints.iter().filter(|endpoint| is_secure(endpoint)).count();
    if secure == 0 {
        for key in ["ca", "certificate", "key", "join"].into_iter().filter(|key| seen.has(key)) {
            let text = format!(
                "without TLS there is no certificate; write https:// in endpoints, or leave {key} out"
            );
            seen.wrong_key(d, key, text);
        }
        return;
    }
    if secure < fleet.endpoints.len() {
        seen.wrong_value(
            d,
            "endpoints",
            "some are https and others http, without TLS; write https:// in all of them",
        );
    }
    if !seen.has("ca") {
        seen.wrong_key(
            d,
            "endpoints",
            "https needs ca: FILE with the CAs that the certificates of etcd lead to",
        );
    }
    for key in ["certificate", "key"].into_iter().filter(|key| seen.has("join") && seen.has(key)) {
        let text = "with join the host has a certificate and a key of its own; leave one of both out";
        seen.wrong_key(d, key, text);
    }
    for (key, other) in [("certificate", "key"), ("key", "certificate")] {
        if seen.has(key) && !seen.has(other) {
            seen.wrong_key(d, key, format_args!("{other} is missing beside it; write {other}: PATH"));
        }
    }
}

/// One word by which others choose among several.
pub fn tag() -> Codec<String> {
    label("tag", "primary", r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$", "._:-")
}

fn tags() -> Codec<Vec<String>> {
    distinct(tag().list_of(0..=MOST, "a list of tags such as [primary]")).around(|d, node, inner| {
        d.at_most(node, MOST, |count| format!("these are {count} tags; a service has at most {MOST}"))?;
        inner(d, node)
    })
}

/// The address of this host is `None`.
fn address() -> Codec<Option<String>> {
    word("`auto`, IP address or host name", "^[0-9A-Za-z:][0-9A-Za-z:._-]*$", "192.0.2.7").parsed(
        |text| match text.as_str() {
            AUTO => Ok(None),
            text if is_address(text) => Ok(Some(text.to_owned())),
            text => Err(format!(
                "nothing is reached at {}; write auto, or such as 192.0.2.7, 2001:db8::7 or db.example, without a port",
                quoted(text)
            )),
        },
        |address| address.as_deref().unwrap_or(AUTO).to_owned(),
    )
}

/// Whether it is an address or a name of one host. A name that ends with a number is an address that was written wrongly.
fn is_address(text: &str) -> bool {
    if let Ok(address) = text.parse::<IpAddr>() {
        return !address.is_unspecified() && !address.is_multicast();
    }
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    text.len() <= LONGEST_HOST
        && is_host_name(text, LONGEST_PART, b"_")
        && !text.rsplit('.').next().is_some_and(is_number)
}

/// The first mistake in a variable.
fn unfit(text: &str) -> Option<String> {
    variables::expand(text, |_| Some("".into())).err().map(|unfit| unfit.to_string())
}

/// Texts by keys, each of at most `longest` characters. `what` they are, the key of `sample`, and what else is wrong with one.
fn texts(
    what: &'static str,
    sample: &'static str,
    longest: usize,
    wrong: fn(&str) -> Option<String>,
) -> Codec<BTreeMap<String, String>> {
    const ALSO: &str = "._/-";
    let value = text().but(move |text| {
        if text.chars().any(char::is_control) {
            return Some("a control character cannot stand here; write one line of text".to_owned());
        }
        let count = text.chars().count();
        let too_long = format!("this text has {count} characters; at most {longest} can stand here");
        if count > longest { Some(too_long) } else { wrong(text) }
    });
    let mistake =
        |key: &str, _: &[(String, String)]| (!is_label(key, ALSO)).then(|| no_label(key, "key", ALSO));
    let entries = map(
        ("key", "^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$", sample),
        "write \"\" for an empty text",
        mistake,
        value,
    );
    entries.parsed(
        move |entries| {
            let count = entries.len();
            if count > MOST {
                return Err(format!("these are {count} {what}; at most {MOST} can stand here"));
            }
            let sizes = entries.iter().flat_map(|(key, text)| [key.len(), text.len()]);
            let size = sizes.fold(0, usize::saturating_add);
            too_many_bytes(size, MOST_BYTES, what).map_or_else(|| Ok(entries.iter().cloned().collect()), Err)
        },
        |texts: &BTreeMap<String, String>| texts.clone().into_iter().collect(),
    )
}

/// A word of letters and digits, and of the characters of `also` but not first.
fn label(
    what: &'static str,
    sample: &'static str,
    pattern: &'static str,
    also: &'static str,
) -> Codec<String> {
    word(what, pattern, sample).but(move |text| (!is_label(text, also)).then(|| no_label(text, what, also)))
}

fn is_label(text: &str, also: &str) -> bool {
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || also.as_bytes().contains(&byte);
    text.len() <= LONGEST_NAME
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(sound)
}

fn no_label(text: &str, what: &str, also: &str) -> String {
    format!(
        "{} is not a {what}; use letters, digits and {}, a letter or digit first, at most {LONGEST_NAME}",
        quoted(text),
        also.chars().map(String::from).collect::<Vec<_>>().join(" ")
    )
}
