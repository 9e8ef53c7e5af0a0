//! `register` of a service file with the other keys there: `health`, `sockets` and `type`.

use std::collections::BTreeMap;

use super::checks::{MOST_CERTIFICATES, MOST_CHECKS, authority};
use super::seen::Seen;
use crate::decode::Decoder;
use crate::tree::Node;
use kelson_spec::service::{Listen, ServiceKind, ServiceSpec, SocketSpec};
use kelson_spec::units::size_text;
use kelson_spec::variables;

/// Notes mistakes that other keys make, and fills in the ports of sockets.
pub fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut ServiceSpec) {
    if let Some(registration) = spec.register.as_mut().filter(|_| !seen.is_wrong("sockets")) {
        fill_in_ports(d, seen, &mut registration.meta, &spec.sockets);
    }
    checks(d, seen, spec);
}

/// Looks at the checks of the registration with those of `health`.
fn checks(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &ServiceSpec) {
    let own = spec.registration_checks();
    let mut wrong = |text: String| {
        let at = below(seen, &["register", "checks"]).at;
        d.at_key("register.checks", |d| d.wrong(at, text));
    };
    let count = spec.checks().count();
    if count > MOST_CHECKS && !own.is_empty() {
        wrong(format!("with those of health these are {count} checks; a service has at most {MOST_CHECKS}"));
    }
    let certificates: usize = spec.checks().filter_map(|(check, _)| authority(check)).map(str::len).sum();
    if certificates > MOST_CERTIFICATES && own.iter().any(|check| authority(check).is_some()) {
        let most = size_text(MOST_CERTIFICATES as u64);
        wrong(format!("with those of health the certificates of these checks are more than {most} in all"));
    }
    for check in own.iter().filter(|check| spec.health.iter().any(|other| other.name == check.name)) {
        wrong(format!("one of health is named {} too; give each a name of its own", check.name));
    }
    if !own.is_empty() && spec.kind == ServiceKind::Oneshot {
        let text = "a one-shot is registered once it has ended, and no check runs then; leave checks out";
        wrong(text.to_owned());
    }
}

/// The value of a key in the value of a key, or as far as there is one.
fn below<'n>(seen: &Seen<'_, 'n>, path: &[&str]) -> &'n Node {
    path.iter().try_fold(seen.node, |node, key| node.get(key)).unwrap_or(seen.node)
}

/// Ports of the sockets of the same file in values of `meta`.
fn fill_in_ports(
    d: &mut Decoder<'_>,
    seen: &Seen<'_, '_>,
    meta: &mut BTreeMap<String, String>,
    sockets: &[SocketSpec],
) {
    let port = |socket: &SocketSpec| Listen::read(&socket.listen).ok()?.port();
    let ports: Vec<(&str, u32)> =
        sockets.iter().filter_map(|socket| Some((socket.name.as_str(), port(socket)?))).collect();
    let port_of = |name: &str| ports.iter().find(|(socket, _)| *socket == name).map(|(_, port)| *port);
    for (key, text) in meta {
        match variables::expand_ports(text, port_of) {
            Ok(whole) => *text = whole,
            Err(variable) => {
                let names: Vec<&str> = ports.iter().map(|(name, _)| *name).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let text = format!("{variable} is the port of no socket; sockets with a port: {names}");
                let path = ["register", "meta", key];
                d.at_key(path.join("."), |d| d.wrong(below(seen, &path).at, text));
            }
        }
    }
}
