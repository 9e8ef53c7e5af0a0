//! The conditions of a service: the entries of `depends` and `when`.

use super::at::At;
use super::codec::{Codec, either, part};
use super::fact::fact;
use super::fleet::tag;
use super::mapping::{Mapping, keys};
use super::network::interface_name;
use super::seen::Seen;
use super::values::{boolean, choice, duration_from, name, number, path, text};
use crate::decode::{Decoder, quoted, shown};
use crate::schema::{Kind, form};
use crate::tree::Position;
use kelson_spec::features::Feature;
use kelson_spec::fleet::{FleetSpec, Instances};
use kelson_spec::names::is_point;
use kelson_spec::service::{NetworkAspect, Requirement, ServiceEvent, WhenDown};

/// The purpose of a list of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Depends,
    /// Asked once at the start.
    When,
    /// One of them is enough.
    Any,
}

/// The entries of a list. The decoder's `references` get the position of each service named, in the order of a walk.
pub fn requirements(within: Use) -> Codec<Vec<Requirement>> {
    entry(within).list(WHAT)
}

/// The names of `after`.
pub fn after() -> Codec<Vec<String>> {
    place(|d, _, at| d.references.push(at)).list(PLACES)
}

/// The names of `before`, which the decoder keeps; they become entries of `after` of other services.
pub fn before() -> Codec<Vec<String>> {
    place(|d, name, at| d.mentions.push(("before", name.to_owned(), at))).list(PLACES)
}

/// Names of services of a key that orders nothing.
pub fn others(key: &'static str) -> Codec<Vec<String>> {
    let one = name().around(move |d, node, inner| {
        let name = inner(d, node)?;
        d.mentions.push((key, name.clone(), node.at));
        Some(name)
    });
    one.list(PLACES)
}

const PLACES: &str = "a list of names of services, such as [db, cache]";

/// A service, or a point of the order that no file defines.
fn place(note: fn(&mut Decoder<'_>, &str, Position)) -> Codec<String> {
    let kind =
        || Kind::Form(form("name or point", "^([a-z0-9][a-z0-9-]{0,62}|[A-Za-z0-9@_.:-]+\\.target)$", "db"));
    name().of_kind(kind).around(move |d, node, inner| {
        let point = node.scalar().filter(|text| is_point(text)).map(str::to_owned);
        let name = point.map_or_else(|| inner(d, node), Some)?;
        note(d, &name, node.at);
        Some(name)
    })
}

/// A service of this name is meant.
fn reference() -> Codec<String> {
    name().around(|d, node, inner| {
        let name = inner(d, node)?;
        d.references.push(node.at);
        Some(name)
    })
}

/// Each entry has exactly one of these.
const KINDS: [&str; 12] = [
    "service",
    "path",
    "device",
    "network",
    "interface",
    "time",
    "mount",
    "kernelArgument",
    "fact",
    "registered",
    "any",
    "not",
];

/// Of which kinds the others are, none of which stands for itself.
const OWNERS: [(&str, &[&str]); 5] = [
    ("event", &["service"]),
    ("whenDown", &["service", "registered"]),
    ("tag", &["registered"]),
    ("min", &["registered"]),
    ("staleFor", &["registered"]),
];

/// Those that know no service.
const OF_THE_HOST: [&str; 8] =
    ["path", "device", "network", "interface", "time", "mount", "kernelArgument", "fact"];

const EMPTY: &str = "this list is empty, so it could never hold";

const WHAT: &str = "a list such as [{service: NAME}, {path: /PATH}]";

fn entry(within: Use) -> Codec<Requirement> {
    Mapping::codec(move || requirement(within)).around(|d, node, inner| {
        if let Some(text) = node.scalar() {
            let entry = if text.starts_with('/') { "path" } else { "service" };
            let text =
                format!("found {} where a mapping belongs; write {entry}: {}", quoted(text), shown(text));
            return d.refuse(node, text);
        }
        inner(d, node)
    })
}

fn requirement(within: Use) -> Mapping<Requirement> {
    let name_at = At::new(
        |entry: &Requirement| match entry {
            Requirement::Service { name, .. } => Some(name.clone()),
            _ => None,
        },
        |entry, name| *entry = Requirement::service(name, ServiceEvent::Up),
    );
    let event_at = At::new(
        |entry: &Requirement| match entry {
            Requirement::Service { event, .. } => Some(*event),
            _ => None,
        },
        |entry, new| {
            if let Requirement::Service { event, .. } = entry {
                *event = new;
            }
        },
    );
    let when_down_at = At::new(
        |entry: &Requirement| match entry {
            Requirement::Service { when_down, .. } | Requirement::Registered { when_down, .. } => {
                Some(*when_down)
            }
            _ => None,
        },
        |entry, new| {
            if let Requirement::Service { when_down, .. } | Requirement::Registered { when_down, .. } = entry
            {
                *when_down = new;
            }
        },
    );
    let any_at = At::new(
        |entry: &Requirement| if let Requirement::Any(list) = entry { Some(list.clone()) } else { None },
        |entry, list| *entry = Requirement::Any(list),
    );
    let not_at = At::new(
        |entry: &Requirement| if let Requirement::Not(one) = entry { Some((**one).clone()) } else { None },
        |entry, one| *entry = Requirement::Not(Box::new(one)),
    );
    let events = ServiceEvent::ALL.map(|event| (event.name(), event));
    let downs = [("ignore", WhenDown::Ignore), ("stop", WhenDown::Stop), ("restart", WhenDown::Restart)];
    let mapping = keys! {
        Mapping::new("requirement", || Requirement::service("", ServiceEvent::Up));
        alternative "service" (name_at) = reference(), "the `event` holds for the service of this name";
    };
    let mapping = keys! {
        registered(mapping);
        key "event" (event_at) = choice(events),
            "`up`: ready and healthy. `running`: its process runs, ready or not. `finished`: ended \
             successfully by itself. `down`: ended, stopped, failed, skipped, or nothing will start it";
        key "whenDown" (when_down_at) = choice(downs),
            "what Kelson does with this service, once it runs, when the run of the other service ends, or when too few are \
             `registered`. `stop`: stop it; it stays stopped. `restart`: start it again once all of `depends` holds. \
             Only in an entry of `depends`, with the event `up` or `running`";
    };
    keys! {
        of_the_host(mapping);
        alternative "any" (any_at) = entry(Use::Any).some(WHAT, EMPTY), "one of these entries holds";
        alternative "not" (not_at) = part(Feature::Units, || Mapping::codec(negated)),
            "this entry, of another kind than `service`, `registered`, `any` and `not`, does not hold";
    }
    .one_of(&KINDS)
    .check(move |d, seen, entry| {
        let kind = KINDS.into_iter().find(|kind| seen.has(kind)).unwrap_or_default();
        for (key, owners) in
            OWNERS.into_iter().filter(|(key, owners)| seen.has(key) && !owners.contains(&kind))
        {
            let owners = owners.join(" and ");
            seen.wrong_key(d, key, format_args!("{key} belongs to {owners}, not to {kind}"));
        }
        match entry {
            Requirement::Service { event, .. } => when_down(within, *event, d, seen),
            Requirement::Registered { .. } => when_down(within, ServiceEvent::Up, d, seen),
            _ => {}
        }
    })
}

/// Adds what is registered in the fleet.
fn registered(mapping: Mapping<Requirement>) -> Mapping<Requirement> {
    fn of<T: 'static>(get: fn(&Instances) -> T, set: fn(&mut Instances, T)) -> At<Requirement, T> {
        At::new(
            move |entry: &Requirement| match entry {
                Requirement::Registered { instances, .. } => Some(get(instances)),
                _ => None,
            },
            move |entry, new| {
                if let Requirement::Registered { instances, .. } = entry {
                    set(instances, new);
                }
            },
        )
    }
    let name_at = At::new(
        |entry: &Requirement| match entry {
            Requirement::Registered { instances, .. } => Some(instances.name.clone()),
            _ => None,
        },
        |entry, name| {
            let instances = Instances { name, ..Instances::default() };
            *entry = Requirement::Registered { instances, when_down: WhenDown::Ignore };
        },
    );
    let tag_at = of(|instances| instances.tag.clone(), |instances, tag| instances.tag = tag);
    let min_at = of(|instances| instances.min, |instances, min| instances.min = min);
    let stale_at = of(|instances| instances.stale_for, |instances, time| instances.stale_for = time);
    let registered = name().around(|d, node, inner| {
        d.registered.get_or_insert(node.at);
        inner(d, node)
    });
    keys! {
        mapping;
        alternative "registered" (name_at) if Fleet = registered,
            "at least `min` instances of this name are [registered](#register) in the fleet, on this host or on others";
        means "tag" (tag_at) if Fleet = tag().optional(), "any tags or none", "those `registered` with this tag alone count";
        means "min" (min_at) if Fleet = number(1..=u32::MAX), "1", "this number must be `registered`";
        means "staleFor" (stale_at) if Fleet = duration_from(FleetSpec::TTL), "10m",
            "while etcd does not answer, its last answer about `registered` counts for so long. Then the entry does not hold";
    }
}

/// What can be negated.
fn negated() -> Mapping<Requirement> {
    of_the_host(Mapping::new("negated", || Requirement::TimeSynced)).one_of(&OF_THE_HOST).elsewhere(
        vec!["service", "registered", "any", "not"],
        "this cannot be negated; for a service write event: down",
    )
}

/// Adds the kinds of entries that know no service.
fn of_the_host(mapping: Mapping<Requirement>) -> Mapping<Requirement> {
    let path_at = At::new(
        |entry: &Requirement| if let Requirement::Path(path) = entry { Some(path.clone()) } else { None },
        |entry, path| *entry = Requirement::Path(path),
    );
    let device_at = At::new(
        |entry: &Requirement| if let Requirement::Device(path) = entry { Some(path.clone()) } else { None },
        |entry, path| *entry = Requirement::Device(path),
    );
    let device = path().of_kind(|| Kind::Form(form("path below `/dev`", "^/dev/", "/dev/vdb"))).but(|path| {
        (!path.starts_with("/dev")).then_some("devices are below /dev; write such as /dev/disk/by-label/DATA")
    });
    let network_at = At::new(
        |entry: &Requirement| if let Requirement::Network(list) = entry { Some(list.clone()) } else { None },
        |entry, list| *entry = Requirement::Network(list),
    );
    let interface_at = At::new(
        |entry: &Requirement| {
            if let Requirement::Interface(name) = entry { Some(name.clone()) } else { None }
        },
        |entry, name| *entry = Requirement::Interface(name),
    );
    let time_at = At::new(
        |entry: &Requirement| matches!(entry, Requirement::TimeSynced).then_some(()),
        |entry, ()| *entry = Requirement::TimeSynced,
    );
    let mount_at = At::new(
        |entry: &Requirement| if let Requirement::Mount(path) = entry { Some(path.clone()) } else { None },
        |entry, path| *entry = Requirement::Mount(path),
    );
    let argument_at = At::new(
        |entry: &Requirement| {
            if let Requirement::KernelArgument(argument) = entry { Some(argument.clone()) } else { None }
        },
        |entry, argument| *entry = Requirement::KernelArgument(argument),
    );
    let fact_at = At::new(
        |entry: &Requirement| if let Requirement::Fact(test) = entry { Some(test.clone()) } else { None },
        |entry, test| *entry = Requirement::Fact(test),
    );
    let argument = text().but(|argument: &String| {
        let nameless = argument.is_empty() || argument.starts_with('=');
        nameless.then_some("an argument has a name; write NAME or NAME=VALUE")
    });
    keys! {
        mapping;
        alternative "path" (path_at) = path(),
            "the path exists; a symbolic link counts if its target exists";
        alternative "device" (device_at) = device,
            "the path below `/dev` is a block or character device, or a symbolic link that leads to one";
        alternative "network" (network_at) = aspect().some("a list such as [addresses, hostname]", EMPTY),
            "`addresses`: an interface other than the loopback is up and has an address of global scope. \
             `connectivity`: there is a default route through an interface that is up. `hostname`: the host \
             name is set. `{interface: NAME, up: true}`: as `interface`";
        alternative "interface" (interface_at) = interface_name(),
            "the network interface of this name is up and has a cable";
        alternative "time" (time_at) = choice([("synced", ())]),
            "the kernel reports that its clock is synchronised";
        alternative "mount" (mount_at) = path(),
            "a file system is mounted at this path, which has no symbolic link in it";
        alternative "kernelArgument" (argument_at) = argument,
            "the kernel's command line has this argument: `NAME`, with any value or none, or `NAME=VALUE`";
        alternative "fact" (fact_at) = part(Feature::Inspect, fact),
            "the host has the [fact](kelsonctl.md#facts) of this name, with a value as asked for";
    }
}

/// An entry of `network`: a word, or an interface.
fn aspect() -> Codec<NetworkAspect> {
    let (words, interface) = (choice(NetworkAspect::WORDS), Mapping::codec(interface_up));
    let (shown, described) = (words.clone(), interface.clone());
    Codec::new(
        either(&words, &interface),
        move |d, node| if node.scalar().is_some() { &words } else { &interface }.decode(d, node),
        move |aspect, extent| {
            let is_interface = matches!(aspect, NetworkAspect::Interface(_));
            if is_interface { &described } else { &shown }.encode(aspect, extent)
        },
    )
}

fn interface_up() -> Mapping<NetworkAspect> {
    let name_at = At::new(
        |aspect: &NetworkAspect| match aspect {
            NetworkAspect::Interface(name) => Some(name.clone()),
            _ => None,
        },
        |aspect, name| *aspect = NetworkAspect::Interface(name),
    );
    let up_at = At::new(|_: &NetworkAspect| Some(true), |_, _| {});
    let up = boolean()
        .but(|up| (!up).then_some("a condition waits for an interface to be up; write true"))
        .of_kind(|| Kind::Choice(vec!["true"]));
    keys! {
        Mapping::new("network-interface", || NetworkAspect::Interface(String::new()));
        needed "interface" (name_at) = interface_name(), "interface: eth1", "the name of the interface";
        key "up" (up_at) = up, "it is up and has a cable";
    }
    .strict()
}

fn when_down(within: Use, event: ServiceEvent, d: &mut Decoder<'_>, seen: &Seen<'_, '_>) {
    let refused = match (within, event) {
        (Use::When, _) => "when is asked once, at the start; write whenDown in depends",
        (Use::Any, _) => "inside any another entry may do; write whenDown in an entry of its own",
        (Use::Depends, ServiceEvent::Finished) => {
            "what has finished does not run any more; write event: up or running, or leave whenDown out"
        }
        (Use::Depends, ServiceEvent::Down) => {
            "this waits for the service to be down; write event: up or running, or leave whenDown out"
        }
        (Use::Depends, ServiceEvent::Up | ServiceEvent::Running | ServiceEvent::Settled) => return,
    };
    if seen.is_right("whenDown") {
        seen.wrong_key(d, "whenDown", refused);
    }
}
