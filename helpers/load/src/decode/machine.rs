//! The machine file. What is wrong in it is left out; the rest of it holds.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::health::CheckOf;
use super::requirement::Use;
use super::{Decoder, Fields, Place, quoted};
use crate::tree::{Node, Position, Value};
use kelson_spec::machine::{
    ApiSpec, BuiltinSpec, InterfaceSpec, MachineSpec, MountSpec, NodeHealthSpec, WatchdogSpec,
};
use kelson_spec::names::BUILTINS;
use kelson_spec::near::near;
use kelson_spec::service::ServiceKind;

pub const KEYS: [&str; 11] = [
    "hostname", "modules", "sysctl", "network", "mounts", "api", "builtins", "health", "shutdown",
    "watchdog", "images",
];

/// The longest name of an interface, in bytes.
const LONGEST_INTERFACE: usize = 15;
/// The longest name of a host, in bytes.
const LONGEST_HOSTNAME: usize = 64;
/// A watchdog of less would take a busy machine for a dead one.
const SHORTEST_WATCHDOG: Duration = Duration::from_secs(5);
/// More than any device counts to.
const LONGEST_WATCHDOG: Duration = Duration::from_secs(3600);

/// With connections of less, clients would do little but make handshakes.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(1);

/// What a built-in service may be changed in; of the others only what their starter can do.
const CHANGES: [&str; 12] = [
    "enabled",
    "environment",
    "environmentFiles",
    "depends",
    "restart",
    "required",
    "startTimeout",
    "health",
    "stop",
    "resources",
    "limits",
    "logs",
];
const CHANGES_OF_HELPERS: [&str; 1] = ["resources"];

/// The machine file, and where the `depends` of each of its `builtins` name services.
#[derive(Debug, Default)]
pub struct DecodedMachine {
    pub spec: MachineSpec,
    pub references: Vec<Vec<Position>>,
}

/// Decodes the tree of the machine file.
pub fn machine(d: &mut Decoder<'_>, root: &Node) -> DecodedMachine {
    let mut decoded = DecodedMachine::default();
    let DecodedMachine { spec, references } = &mut decoded;
    let place = Place::Root;
    let Some(fields) = d.fields(&place, root, &KEYS) else { return decoded };
    d.set(&fields, "hostname", &mut spec.hostname, |d, p, n| d.hostname(p, n).map(Some));
    d.set(&fields, "modules", &mut spec.modules, |d, p, n| {
        d.list(p, n, "a list of kernel modules", |d, p, n| d.module(p, n))
    });
    d.set(&fields, "sysctl", &mut spec.sysctl, |d, p, n| d.sysctl(p, n));
    d.set(&fields, "network", &mut spec.network, |d, p, n| {
        d.list(p, n, "a list of interfaces", |d, p, n| d.interface(p, n))
    });
    d.set(&fields, "mounts", &mut spec.mounts, |d, p, n| {
        d.list(p, n, "a list of mounts", |d, p, n| d.mount(p, n))
    });
    d.set(&fields, "api", &mut spec.api, |d, p, n| d.api(p, n).map(Some));
    d.set(&fields, "builtins", &mut spec.builtins, |d, p, n| d.builtins(p, n, references));
    d.set(&fields, "health", &mut spec.health, |d, p, n| d.node_health(p, n));
    d.set(&fields, "shutdown", &mut spec.shutdown_timeout, |d, p, n| {
        let fields = d.fields(p, n, &["timeout"])?;
        d.read(&fields, "timeout", |d, p, n| d.duration(p, n, Duration::from_secs(1)))
    });
    d.set(&fields, "watchdog", &mut spec.watchdog, |d, p, n| d.watchdog(p, n));
    d.set(&fields, "images", &mut spec.images, |d, p, n| {
        d.list(p, n, "a list of directories", |d, p, n| d.path(p, n))
    });
    decoded
}

impl Decoder<'_> {
    pub(super) fn hostname(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.word(place, node)?;
        let label = |label: &str| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if text.len() > LONGEST_HOSTNAME || !text.split('.').all(label) {
            let text = format!(
                "{} is not a host name; use letters, digits, - and ., at most {LONGEST_HOSTNAME}",
                quoted(&text)
            );
            self.wrong(place, node.at, text);
            return None;
        }
        Some(text)
    }

    fn module(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.word(place, node)?;
        if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
            let text =
                format!("{} is not the name of a kernel module; write such as virtio_net", quoted(&text));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(text)
    }

    fn sysctl(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<(String, String)>> {
        let mut list = Vec::new();
        for (key, entry) in self.entries(place, node)? {
            let inner = Place::Key(place, key);
            let sound = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/:".contains(&b))
                && key.contains(['.', '/'])
                && key.split(['.', '/']).all(|part| !part.is_empty());
            if !sound {
                self.wrong(
                    place,
                    entry.key.at,
                    format_args!("{} is not a key such as net.ipv4.ip_forward", quoted(key)),
                );
            } else if matches!(entry.value.value, Value::Null) {
                self.wrong(&inner, entry.value.at, "this key has no value; give it one or remove it");
            } else if let Some(value) = self.text(&inner, &entry.value) {
                list.push((key.to_owned(), value));
            }
        }
        Some(list)
    }

    fn interface(&mut self, place: &Place<'_>, node: &Node) -> Option<InterfaceSpec> {
        let fields = self.fields(place, node, &["interface", "address", "gateway", "dns", "dhcp"])?;
        let interface =
            self.require(&fields, "interface", "interface: eth0", |d, p, n| d.interface_name(p, n));
        let dhcp = self.read(&fields, "dhcp", |d, p, n| {
            let wanted = d.boolean(p, n)?;
            if wanted {
                d.wrong(p, n.at, "DHCP is not supported; write an address such as address: 10.0.2.15/24");
            }
            Some(wanted)
        });
        let address = if dhcp == Some(true) && !fields.has("address") {
            None
        } else {
            self.require(&fields, "address", "address: 10.0.2.15/24", |d, p, n| d.network_address(p, n))
        };
        let gateway = self.read(&fields, "gateway", |d, p, n| {
            let gateway = d.ip(p, n)?;
            if address.is_some_and(|(own, prefix)| !reaches(own, prefix, gateway)) {
                d.wrong(p, n.at, format_args!("{gateway} is not within the network of address"));
                return None;
            }
            Some(gateway)
        });
        let mut dns = Vec::new();
        self.set(&fields, "dns", &mut dns, |d, p, n| {
            d.list(p, n, "a list of addresses", |d, p, n| d.ip(p, n))
        });
        let (address, prefix) = address?;
        if dhcp == Some(true) {
            return None;
        }
        Some(InterfaceSpec { interface: interface?, address, prefix, gateway, dns })
    }

    fn interface_name(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.word(place, node)?;
        let sound = text.len() <= LONGEST_INTERFACE
            && !matches!(text.as_str(), "." | "..")
            && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':');
        if !sound {
            let text = format!("{} is not the name of an interface, such as eth0", quoted(&text));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(text)
    }

    fn network_address(&mut self, place: &Place<'_>, node: &Node) -> Option<(IpAddr, u8)> {
        let text = self.word(place, node)?;
        let parsed = text.split_once('/').and_then(|(address, prefix)| {
            let address: IpAddr = address.parse().ok()?;
            let longest = if address.is_ipv4() { 32 } else { 128 };
            let prefix =
                u8::try_from(kelson_spec::units::number(prefix)?).ok().filter(|prefix| *prefix <= longest)?;
            Some((address, prefix))
        });
        if parsed.is_none() {
            let text =
                format!("{} is not an address with its prefix; write such as 10.0.2.15/24", quoted(&text));
            self.wrong(place, node.at, text);
        }
        parsed
    }

    fn ip(&mut self, place: &Place<'_>, node: &Node) -> Option<IpAddr> {
        let text = self.word(place, node)?;
        let address = text.parse().ok();
        if address.is_none() {
            self.wrong(place, node.at, format_args!("{} is not an IP address", quoted(&text)));
        }
        address
    }

    fn mount(&mut self, place: &Place<'_>, node: &Node) -> Option<MountSpec> {
        let fields = self.fields(place, node, &["source", "target", "type", "options"])?;
        let source = self.require(&fields, "source", "source: DEVICE or LABEL=NAME", |d, p, n| d.word(p, n));
        let target = self.require(&fields, "target", "target: PATH", |d, p, n| d.path(p, n));
        let fs_type = self.require(&fields, "type", "type: ext4", |d, p, n| d.word(p, n));
        let mut options = Vec::new();
        self.set(&fields, "options", &mut options, |d, p, n| d.texts(p, n));
        Some(MountSpec { source: source?, target: target?, fs_type: fs_type?, options })
    }

    fn api(&mut self, place: &Place<'_>, node: &Node) -> Option<ApiSpec> {
        let before = self.diagnostics.len();
        let fields =
            self.fields(place, node, &["listen", "ca", "certificate", "key", "connectionLifetime"])?;
        let listen = self.require(&fields, "listen", "listen: [\"0.0.0.0:50000\"]", |d, p, n| {
            let list = d.list(p, n, "a list of ADDRESS:PORT", |d, p, n| d.listen_address(p, n))?;
            if matches!(&n.value, Value::Sequence(items) if items.is_empty()) {
                d.wrong(p, n.at, "this list is empty; write an ADDRESS:PORT, or remove api");
            }
            Some(list)
        });
        let mut file = |key| self.require(&fields, key, &format!("{key}: PATH"), |d, p, n| d.path(p, n));
        let (ca, certificate, key) = (file("ca"), file("certificate"), file("key"));
        let mut connection_lifetime = ApiSpec::default_lifetime();
        self.set(&fields, "connectionLifetime", &mut connection_lifetime, |d, p, n| {
            d.duration(p, n, SHORTEST_LIFETIME)
        });
        let api =
            ApiSpec { listen: listen?, ca: ca?, certificate: certificate?, key: key?, connection_lifetime };
        (self.diagnostics.len() == before).then_some(api)
    }

    fn listen_address(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.word(place, node)?;
        if text.parse::<SocketAddr>().is_err() {
            let text =
                format!("{} is not ADDRESS:PORT; write such as 0.0.0.0:50000 or [::]:50000", quoted(&text));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(text)
    }

    fn node_health(&mut self, place: &Place<'_>, node: &Node) -> Option<NodeHealthSpec> {
        let fields = self.fields(place, node, &["minimum", "deadline"])?;
        let before = self.diagnostics.len();
        let (minimum, deadline) = self.health_times(&fields, "the host");
        (self.diagnostics.len() == before)
            .then(|| NodeHealthSpec::filled(minimum, deadline, &NodeHealthSpec::default()))
    }

    /// The keys `minimum` and `deadline` of the host or of a group.
    pub(super) fn health_times(
        &mut self,
        fields: &Fields<'_, '_>,
        whose: &str,
    ) -> (Option<Duration>, Option<Duration>) {
        let minimum = self.read(fields, "minimum", |d, p, n| d.duration(p, n, Duration::ZERO));
        let deadline = self.read(fields, "deadline", |d, p, n| d.duration(p, n, Duration::from_secs(1)));
        if let (Some(least), Some(most)) = (minimum, deadline)
            && most < least
        {
            let at = fields.get("deadline").map_or(fields.node.at, |value| value.at);
            let text = format!("deadline is less than minimum, so {whose} could never be healthy");
            self.wrong(&Place::Key(fields.place, "deadline"), at, text);
        }
        (minimum, deadline)
    }

    /// `off`, or what is different from the usual.
    fn watchdog(&mut self, place: &Place<'_>, node: &Node) -> Option<Option<WatchdogSpec>> {
        if let Value::Scalar(text) = &node.value {
            if text == "off" {
                return Some(None);
            }
            let text = format!("{} is not off; write off, or keys such as {{timeout: 30s}}", quoted(text));
            self.wrong(place, node.at, text);
            return None;
        }
        let fields = self.fields(place, node, &["device", "timeout"])?;
        let mut watchdog = WatchdogSpec { expected: true, ..WatchdogSpec::default() };
        self.set(&fields, "device", &mut watchdog.device, |d, p, n| d.path(p, n));
        self.set(&fields, "timeout", &mut watchdog.timeout, |d, p, n| d.watchdog_timeout(p, n));
        Some(Some(watchdog))
    }

    /// The device counts whole seconds.
    fn watchdog_timeout(&mut self, place: &Place<'_>, node: &Node) -> Option<Duration> {
        let timeout = self.duration_within(place, node, SHORTEST_WATCHDOG..=LONGEST_WATCHDOG)?;
        if timeout.subsec_nanos() != 0 {
            self.wrong(place, node.at, "the device counts whole seconds; write such as 30s");
            return None;
        }
        Some(timeout)
    }

    fn builtins(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        references: &mut Vec<Vec<Position>>,
    ) -> Option<Vec<BuiltinSpec>> {
        let mut list = Vec::new();
        for (name, entry) in self.entries(place, node)? {
            let inner = Place::Key(place, name);
            if !BUILTINS.contains(&name) {
                let hint =
                    near(name, BUILTINS).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                let all = BUILTINS.join(", ");
                self.wrong(
                    &inner,
                    entry.key.at,
                    format_args!("this is not one of the built-in services {all}{hint}"),
                );
            } else if matches!(entry.value.value, Value::Null) {
                self.wrong(&inner, entry.value.at, "this key has no value; give it one or remove it");
            } else {
                let mut own = Vec::new();
                if let Some(builtin) = self.builtin(name, &inner, &entry.value, &mut own) {
                    list.push(builtin);
                    references.push(own);
                }
            }
        }
        Some(list)
    }

    fn builtin(
        &mut self,
        name: &str,
        place: &Place<'_>,
        node: &Node,
        references: &mut Vec<Position>,
    ) -> Option<BuiltinSpec> {
        let fields = if matches!(name, "logd" | "probe") {
            let mut elsewhere = super::service::KEYS.to_vec();
            elsewhere.push("enabled");
            let why = match name {
                "logd" => "logd is always at hand and cannot be changed in this",
                _ => {
                    "probe is there as long as a service has tcp, http or grpc checks and cannot be changed in this"
                }
            };
            self.fields_where(place, node, &CHANGES_OF_HELPERS, &elsewhere, why)?
        } else {
            let why = format!("this is settled for {name} and cannot be changed");
            self.fields_where(place, node, &CHANGES, &super::service::KEYS, &why)?
        };
        let mut builtin = BuiltinSpec::new(name);
        builtin.enabled = self.read(&fields, "enabled", |d, p, n| d.boolean(p, n));
        self.environments(&fields, &mut builtin.environment);
        self.set(&fields, "depends", &mut builtin.depends, |d, p, n| {
            d.requirements(Use::Depends, p, n, references)
        });
        builtin.restart = self.read(&fields, "restart", |d, p, n| {
            let no_group = "a built-in service is in no group; leave scope out";
            d.restart(ServiceKind::Service, Some(no_group), p, n)
        });
        builtin.required = self.read(&fields, "required", |d, p, n| d.boolean(p, n));
        builtin.start_timeout = self.read(&fields, "startTimeout", |d, p, n| d.start_timeout(p, n));
        self.set(&fields, "health", &mut builtin.health, |d, p, n| d.health(CheckOf::Service, p, n));
        builtin.stop = self.read(&fields, "stop", |d, p, n| d.stop(p, n, &mut false));
        builtin.resources = self.read(&fields, "resources", |d, p, n| d.resources(p, n));
        self.set(&fields, "limits", &mut builtin.limits, |d, p, n| d.limits(p, n));
        builtin.logs = self.read(&fields, "logs", |d, p, n| d.logs(p, n));
        Some(builtin)
    }
}

/// Whether the kernel takes `gateway` for an interface of this address: within its network, or link-local.
fn reaches(own: IpAddr, prefix: u8, gateway: IpAddr) -> bool {
    match (own, gateway) {
        // To a single address every gateway is outside; whoever writes that knows.
        (IpAddr::V4(own), IpAddr::V4(gateway)) if prefix < 32 => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
            own.to_bits() & mask == gateway.to_bits() & mask
        }
        (IpAddr::V6(own), IpAddr::V6(gateway)) if prefix < 128 => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
            own.to_bits() & mask == gateway.to_bits() & mask || gateway.is_unicast_link_local()
        }
        (own, gateway) => own.is_ipv4() == gateway.is_ipv4(),
    }
}
