//! `container`: the image, and what of the host is seen in it.

use std::path::{Component, Path, PathBuf};

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::ports::ports;
use super::values::{boolean, choice, host_name, path, text, word};
use crate::decode::{Decoder, quoted};
use crate::json::Json;
use crate::schema::{Kind, form};
use crate::tree::{Node, Value};
use kelson_spec::near::near;
use kelson_spec::registries::PullPolicy;
use kelson_spec::service::{
    ContainerDevice, ContainerMount, ContainerNetwork, ContainerRuntime, ContainerSpec, Credentials,
};
use kelson_spec::units;

/// Options of a mount by the names that runtimes know. Those of one row exclude each other.
pub const MOUNT_OPTIONS: [&[&str]; 9] = [
    &["ro", "rw"],
    &["bind", "rbind"],
    &["nosuid", "suid"],
    &["nodev", "dev"],
    &["noexec", "exec"],
    &["noatime", "relatime", "strictatime"],
    &["nodiratime", "diratime"],
    &["sync", "async"],
    &["private", "rprivate", "slave", "rslave", "shared", "rshared", "unbindable", "runbindable"],
];

/// The further options of a tmpfs: the word before `=`, and an example.
const TMPFS_OPTIONS: [(&str, &str); 5] = [
    ("size", "size=64Mi or size=50%"),
    ("mode", "mode=0755"),
    ("uid", "uid=1000"),
    ("gid", "gid=1000"),
    ("nr_inodes", "nr_inodes=10000"),
];

/// The letters of a device's permissions, in the order in which they are kept.
const PERMISSIONS: [char; 3] = ['r', 'w', 'm'];

pub fn container() -> Codec<ContainerSpec> {
    Mapping::codec(mapping).around(|d, node, inner| {
        d.targets.clear();
        inner(d, node)
    })
}

/// The name of an image.
pub(super) fn image() -> Codec<String> {
    word("reference of an image", r"^\S+$", "demo/nginx:1").but(|image| {
        let strange = image.contains(|c: char| c.is_whitespace() || c.is_control());
        strange.then(|| format!("{} is not a reference of an image, such as demo/nginx:1", quoted(image)))
    })
}

fn mapping() -> Mapping<ContainerSpec> {
    let runtimes = [("containerd", ContainerRuntime::Containerd), ("kelson", ContainerRuntime::Kelson)];
    let networks = [
        ("host", ContainerNetwork::Host),
        ("none", ContainerNetwork::None),
        ("bridge", ContainerNetwork::Bridge),
    ];
    keys! {
        Mapping::new("container", ContainerSpec::default);
        needed "image" image = image(), "image: NAME:TAG",
            "the name of an [image](images.md) in an archive, in one of the `images` folders of the [machine \
             file](machine-file.md), or [in a registry](howto/registry.md): `registry.example/app:1.4`";
        means "runtime" runtime = choice(runtimes).optional(), "`containerd` if the host has it, else `kelson`",
            "`containerd`: containerd and runc run it. `kelson`: [Kelson runs it itself](images.md#without-containerd)";
        key "pull" pull if Pull = choice(PullPolicy::NAMES),
            "when an image with the host of a registry in its name [is pulled](howto/registry.md#when-kelson-pulls). \
             `ifMissing`: if no archive has it and it was not unpacked before. `always`: before each start. `never`: not at all";
        key "command" command = command(),
            "replaces the entrypoint and command of the image; an empty list keeps them";
        key "arguments" arguments = text().list("a list of arguments such as [--verbose]"),
            "replaces the command of the image alone: its entrypoint gets these arguments";
        means "workingDirectory" working_directory = path().optional(), "the image's",
            "a path in the container";
        means "hostname" hostname = host_name().optional(),
            "the host's; with another `network` the service's name", "at most 64 letters";
        key "network" network = choice(networks),
            "`host`: the interfaces of the host. `none`: only a loopback interface of its own. `bridge`: \
             [an address of its own](howto/container-network.md)";
        key "ports" ports = ports(), "the ports of its program, [with those of the host that lead there](howto/container-network.md#ports)";
        key "mounts" mounts = Mapping::codec(mount).list("a list of mounts"), "the parts of the host that the container sees";
        key "userNamespace" user_namespace = boolean(), "its root is [no user of the host](howto/user-namespace.md)";
        key "devices" devices = device().list("a list of devices such as [/dev/ttyS0]"), "devices of the host";
    }
    .check(|d, seen, container| {
        if !container.command.is_empty() && !container.arguments.is_empty() {
            let text = "command stands for the entrypoint too, so nothing gets these arguments; add them to command";
            d.at_key("arguments", |d| d.wrong(seen.position("arguments"), text));
        }
        if container.network == ContainerNetwork::Host && container.ports.iter().any(|port| port.address.is_some()) {
            let text = "with the network of the host the program chooses its address; write network: bridge, or remove address";
            d.at_key("ports", |d| d.wrong(seen.position("ports"), text));
        }
        if container.network == ContainerNetwork::None && !container.ports.is_empty() {
            let text = "nothing reaches a port of a container with network: none; write network: bridge, or remove ports";
            d.at_key("ports", |d| d.wrong(seen.position("ports"), text));
        }
    })
}

/// A program and its arguments; empty for those of the image.
fn command() -> Codec<Vec<String>> {
    text().list("").read_by(|d, node| if node.is_empty_list() { Some(Vec::new()) } else { d.command(node) })
}

fn mount() -> Mapping<ContainerMount> {
    let source = path()
        .read_by(|d, node| d.mount_source(node))
        .of_kind(|| Kind::Either(vec![Kind::Form(form("path", "^/", "/srv")), Kind::Choice(vec!["tmpfs"])]));
    let kind = || {
        let words = Kind::Choice(MOUNT_OPTIONS.iter().copied().flatten().copied().collect());
        let of_tmpfs = form("option of a tmpfs", "^(size|mode|uid|gid|nr_inodes)=.", "size=64Mi");
        Kind::List(Box::new(Kind::Either(vec![words, Kind::Form(of_tmpfs)])), 0..=usize::MAX)
    };
    keys! {
        Mapping::new("container-mount", ContainerMount::default);
        needed "source" source = source, "source: PATH",
            "a path of the host, or `tmpfs` for a file system in memory";
        needed "target" target = path().read_by(|d, node| d.place_within(node)), "target: PATH",
            "a path in the container other than `/`; each path at most once";
    }
        .own(
            (
                "options",
                "",
                "a path is bound with `bind` and `rprivate`, and a tmpfs is `nosuid` and `nodev`, unless the options say otherwise",
            ),
            kind,
            |d, seen, mount| {
                let in_memory = mount.is_tmpfs();
                let options = &mut mount.options;
                seen.read(d, "options", |d, node| {
                    d.list(node, "a list of options such as [ro, nosuid]", |d, node| {
                        let option = d.mount_option(node, in_memory, options)?;
                        options.push(option);
                        Some(())
                    })
                });
            },
            |mount, _| Json::texts(mount.options.iter().map(String::as_str)),
        )
}

/// `/dev/ttyS0`, or `{source: /dev/ttyS0, target: /dev/modem, permissions: rw}`.
fn device() -> Codec<ContainerDevice> {
    let whole = Mapping::codec(device_mapping);
    let kind = whole.kind.clone();
    whole.of_kind(move || Kind::Either(vec![device_path(), kind()])).around(|d, node, inner| {
        if node.is_mapping() {
            return inner(d, node);
        }
        d.below_dev(node)?;
        let source = d.place_within(node)?;
        let permissions = ContainerDevice::PERMISSIONS.to_owned();
        Some(ContainerDevice { target: source.clone(), source, permissions })
    })
}

fn device_path() -> Kind {
    Kind::Form(form("path below `/dev`", "^/+dev/+[^/]", "/dev/ttyS0"))
}

fn device_mapping() -> Mapping<ContainerDevice> {
    let permissions = word("some of `r`, `w`, `m`", "^[rwm]{1,3}$", "r").parsed(
        |text| {
            permissions(text).ok_or_else(|| {
                format!(
                    "{} are not permissions; write r (read), w (write), m (make nodes of it), such as rw",
                    quoted(text)
                )
            })
        },
        String::clone,
    );
    let target = At::new(
        |device: &ContainerDevice| (device.target != device.source).then(|| Some(device.target.clone())),
        |device, target: Option<PathBuf>| device.target = target.unwrap_or_default(),
    );
    let initial = || ContainerDevice {
        source: PathBuf::new(),
        target: PathBuf::new(),
        permissions: ContainerDevice::PERMISSIONS.to_owned(),
    };
    keys! {
        Mapping::new("device", initial);
        needed "source" source = path().of_kind(device_path).read_by(|d, node| {
                d.below_dev(node)?;
                d.path(node)
            }), "source: /dev/ttyS0", "the device of the host";
        means "target" (target) = path().read_by(|d, node| d.place_within(node)).optional(), "`source`",
            "its path in the container";
        key "permissions" permissions = permissions, "`r`: read. `w`: write. `m`: create nodes of it";
    }
    .check(|d, seen, device| {
        if let Some(source) = seen.get("source").filter(|_| !seen.has("target") && !seen.is_wrong("source")) {
            d.at_key("source", |d| d.place_within(source));
            device.target.clone_from(&device.source);
        }
    })
}

/// In the order in which they are kept. `None`: they are none.
fn permissions(text: &str) -> Option<String> {
    let once = |letter: char| text.chars().filter(|other| *other == letter).count() == 1;
    let sound = text.chars().all(|letter| PERMISSIONS.contains(&letter) && once(letter));
    sound.then(|| PERMISSIONS.into_iter().filter(|letter| text.contains(*letter)).collect())
}

/// `user[:group]` of an image, which only a look into the image can resolve.
pub fn container_user() -> Codec<String> {
    word("user", "^[^:]+(:[^:]+)?$", "1000:1000").but(|text| {
        let sound = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != ':' && c != '/')
        };
        let (user, group) = text.split_once(':').unwrap_or((text, "0"));
        if user == Credentials::DYNAMIC {
            let text = "a container has no dynamic user; write userNamespace: true for users of its own";
            return Some(text.to_owned());
        }
        (!sound(user) || !sound(group))
            .then(|| format!("{} is not a user; write a name or number, or user:group", quoted(text)))
    })
}

impl Decoder<'_> {
    /// A path of the host, or the word for a file system in memory.
    fn mount_source(&mut self, node: &Node) -> Option<PathBuf> {
        match &node.value {
            Value::Scalar(text) if text == ContainerMount::TMPFS => Some(PathBuf::from(text)),
            Value::Scalar(text) if !text.starts_with('/') => {
                let text = format!("{} is neither a path from the root nor tmpfs", quoted(text));
                self.refuse(node, text)
            }
            _ => self.path(node),
        }
    }

    /// Where something of the host is seen in the container: not its root, and each place once.
    fn place_within(&mut self, node: &Node) -> Option<PathBuf> {
        let target = self.path(node)?;
        // Compared by components: /a/ and /a//. are one place.
        let plain: PathBuf = target.components().collect();
        let message = if target.components().any(|part| part == Component::ParentDir) {
            "a path in the container cannot hold .."
        } else if plain == Path::new("/") {
            "the root of the container is its image; write a path below it"
        } else if !self.targets.insert(plain) {
            "something else of this container is there already; write another path"
        } else {
            return Some(target);
        };
        self.refuse(node, message)
    }

    fn mount_option(&mut self, node: &Node, in_memory: bool, taken: &[String]) -> Option<String> {
        let text = self.word(node)?;
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text.as_str(), None),
        };
        let of_tmpfs = TMPFS_OPTIONS.iter().find(|(known, _)| *known == name);
        if let Some((_, example)) = of_tmpfs {
            let is_name = |other: &String| other.split_once('=').is_some_and(|(other, _)| other == name);
            let message = if !in_memory {
                format!("{name} is an option of a tmpfs; write source: tmpfs, or leave it out")
            } else if taken.iter().any(is_name) {
                format!("{name} stands here a second time")
            } else if let Some(value) = value.and_then(|value| tmpfs_value(name, value)) {
                return Some(format!("{name}={value}"));
            } else {
                format!("{} is not right; write such as {example}", quoted(&text))
            };
            return self.refuse(node, message);
        }
        let Some(row) = MOUNT_OPTIONS.iter().find(|row| row.contains(&text.as_str())) else {
            let known = MOUNT_OPTIONS.iter().copied().flatten().copied();
            let hint = match near(&text, known) {
                Some(near) => format!("; did you mean {near}?"),
                None => "; such are ro, rw, bind, rbind, nosuid, nodev, noexec, noatime".to_owned(),
            };
            return self.refuse(node, format_args!("{} is not an option of a mount{hint}", quoted(&text)));
        };
        if let Some(other) = taken.iter().find(|other| row.contains(&other.as_str())) {
            let message = if *other == text {
                format!("{text} stands here a second time")
            } else {
                format!("{other} and {text} exclude each other; keep one")
            };
            return self.refuse(node, message);
        }
        if in_memory && matches!(text.as_str(), "bind" | "rbind") {
            return self.refuse(node, format_args!("a tmpfs is not bound from anywhere; leave {text} out"));
        }
        Some(text)
    }

    /// A path elsewhere is a slip of the pen, or a node that somebody made.
    fn below_dev(&mut self, node: &Node) -> Option<()> {
        let path = self.path(node)?;
        let mut parts = path.strip_prefix("/dev").unwrap_or(Path::new("..")).components().peekable();
        if parts.peek().is_none() || parts.any(|part| part == Component::ParentDir) {
            return self.refuse(node, "a device is named by its path below /dev, such as /dev/ttyS0");
        }
        Some(())
    }
}

/// The value as the kernel takes it.
fn tmpfs_value(name: &str, value: &str) -> Option<String> {
    match name {
        "size" => match value.strip_suffix('%') {
            Some(share) => {
                units::number(share).filter(|share| (1..=100).contains(share)).map(|s| format!("{s}%"))
            }
            None => units::size(value).filter(|bytes| *bytes > 0).map(|bytes| bytes.to_string()),
        },
        "mode" => {
            let sound = matches!(value.len(), 3 | 4) && value.bytes().all(|b| (b'0'..=b'7').contains(&b));
            sound.then(|| value.to_owned())
        }
        _ => units::number(value)
            .and_then(|number| u32::try_from(number).ok())
            .map(|number| number.to_string()),
    }
}
