//! `container`: the image, and what of the host is seen in it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{Decoder, Place, quoted};
use crate::tree::{Node, Value};
use kelson_spec::near::near;
use kelson_spec::service::{ContainerDevice, ContainerMount, ContainerNetwork, ContainerSpec};
use kelson_spec::units;

const KEYS: [&str; 7] = ["image", "command", "workingDirectory", "hostname", "network", "mounts", "devices"];

/// Options of a mount by the names that runtimes know. Those of one row exclude each other.
pub(crate) const OPTIONS: [&[&str]; 9] = [
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

/// What a tmpfs takes besides: the word before `=`, and an example.
const TMPFS_OPTIONS: [(&str, &str); 5] = [
    ("size", "size=64Mi or size=50%"),
    ("mode", "mode=0755"),
    ("uid", "uid=1000"),
    ("gid", "gid=1000"),
    ("nr_inodes", "nr_inodes=10000"),
];

/// The letters of a device's permissions, in the order in which they are kept.
const PERMISSIONS: [char; 3] = ['r', 'w', 'm'];

impl Decoder<'_> {
    pub(super) fn container(&mut self, place: &Place<'_>, node: &Node) -> Option<ContainerSpec> {
        let fields = self.fields(place, node, &KEYS)?;
        let image = self.require(&fields, "image", "image: NAME:TAG", |d, p, n| d.image(p, n));
        let mut spec = ContainerSpec::new("");
        self.set(&fields, "command", &mut spec.command, |d, p, n| d.container_command(p, n));
        self.set(&fields, "workingDirectory", &mut spec.working_directory, |d, p, n| d.path(p, n).map(Some));
        self.set(&fields, "hostname", &mut spec.hostname, |d, p, n| d.hostname(p, n).map(Some));
        let networks = [("host", ContainerNetwork::Host), ("none", ContainerNetwork::None)];
        self.set(&fields, "network", &mut spec.network, |d, p, n| d.choice(p, n, &networks));
        let mut targets = BTreeSet::new();
        self.set(&fields, "mounts", &mut spec.mounts, |d, p, n| {
            d.list(p, n, "a list of mounts", |d, p, n| d.container_mount(p, n, &mut targets))
        });
        self.set(&fields, "devices", &mut spec.devices, |d, p, n| {
            d.list(p, n, "a list of devices such as [/dev/ttyS0]", |d, p, n| d.device(p, n, &mut targets))
        });
        spec.image = image?;
        Some(spec)
    }

    fn image(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let image = self.word(place, node)?;
        if image.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let text = format!("{} is not a reference of an image, such as demo/nginx:1", quoted(&image));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(image)
    }

    /// A program and its arguments; empty for those of the image.
    fn container_command(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<String>> {
        if matches!(&node.value, Value::Sequence(items) if items.is_empty()) {
            return Some(Vec::new());
        }
        self.command(place, node)
    }

    fn container_mount(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        targets: &mut BTreeSet<PathBuf>,
    ) -> Option<ContainerMount> {
        let fields = self.fields(place, node, &["source", "target", "options"])?;
        let source = self.require(&fields, "source", "source: PATH", |d, p, n| d.mount_source(p, n));
        let in_memory = source.as_deref() == Some(Path::new(ContainerMount::TMPFS));
        let target = self.require(&fields, "target", "target: PATH", |d, p, n| d.place_within(p, n, targets));
        let mut options = Vec::new();
        self.set(&fields, "options", &mut options, |d, p, n| {
            let mut taken: Vec<String> = Vec::new();
            d.list(p, n, "a list of options such as [ro, nosuid]", |d, p, n| {
                let option = d.mount_option(p, n, in_memory, &taken)?;
                taken.push(option.clone());
                Some(option)
            })
        });
        Some(ContainerMount { source: source?, target: target?, options })
    }

    /// A path of the host, or the word for a file system in memory.
    fn mount_source(&mut self, place: &Place<'_>, node: &Node) -> Option<PathBuf> {
        match &node.value {
            Value::Scalar(text) if text == ContainerMount::TMPFS => Some(PathBuf::from(text)),
            Value::Scalar(text) if !text.starts_with('/') => {
                let text = format!("{} is neither a path from the root nor tmpfs", quoted(text));
                self.wrong(place, node.at, text);
                None
            }
            _ => self.path(place, node),
        }
    }

    /// Where something of the host is seen in the container: not its root, and each place once.
    fn place_within(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        targets: &mut BTreeSet<PathBuf>,
    ) -> Option<PathBuf> {
        let target = self.path(place, node)?;
        // Compared by components: /a/ and /a//. are one place.
        let plain: PathBuf = target.components().collect();
        let message = if target.components().any(|part| part == Component::ParentDir) {
            "a path in the container cannot hold .."
        } else if plain == Path::new("/") {
            "the root of the container is its image; write a path below it"
        } else if !targets.insert(plain) {
            "something else of this container is there already; write another path"
        } else {
            return Some(target);
        };
        self.wrong(place, node.at, message);
        None
    }

    fn mount_option(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        in_memory: bool,
        taken: &[String],
    ) -> Option<String> {
        let text = self.word(place, node)?;
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
            self.wrong(place, node.at, message);
            return None;
        }
        let Some(row) = OPTIONS.iter().find(|row| row.contains(&text.as_str())) else {
            let known = OPTIONS.iter().copied().flatten().copied();
            let hint = match near(&text, known) {
                Some(near) => format!("; did you mean {near}?"),
                None => "; such are ro, rw, bind, rbind, nosuid, nodev, noexec, noatime".to_owned(),
            };
            self.wrong(place, node.at, format_args!("{} is not an option of a mount{hint}", quoted(&text)));
            return None;
        };
        if let Some(other) = taken.iter().find(|other| row.contains(&other.as_str())) {
            let message = if *other == text {
                format!("{text} stands here a second time")
            } else {
                format!("{other} and {text} exclude each other; keep one")
            };
            self.wrong(place, node.at, message);
            return None;
        }
        if in_memory && matches!(text.as_str(), "bind" | "rbind") {
            self.wrong(place, node.at, format_args!("a tmpfs is not bound from anywhere; leave {text} out"));
            return None;
        }
        Some(text)
    }

    /// `/dev/ttyS0`, or `{source: /dev/ttyS0, target: /dev/modem, permissions: rw}`.
    fn device(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        targets: &mut BTreeSet<PathBuf>,
    ) -> Option<ContainerDevice> {
        let mut permissions = ContainerDevice::PERMISSIONS.to_owned();
        if !matches!(node.value, Value::Mapping(_)) {
            self.below_dev(place, node)?;
            let source = self.place_within(place, node, targets)?;
            return Some(ContainerDevice { target: source.clone(), source, permissions });
        }
        let fields = self.fields(place, node, &["source", "target", "permissions"])?;
        let source = self.require(&fields, "source", "source: /dev/ttyS0", |d, p, n| {
            d.below_dev(p, n)?;
            if fields.has("target") { d.path(p, n) } else { d.place_within(p, n, targets) }
        });
        let target = match fields.has("target") {
            true => self.read(&fields, "target", |d, p, n| d.place_within(p, n, targets)),
            false => source.clone(),
        };
        self.set(&fields, "permissions", &mut permissions, |d, p, n| d.permissions(p, n));
        Some(ContainerDevice { source: source?, target: target?, permissions })
    }

    /// A path elsewhere is a slip of the pen, or a node that somebody made.
    fn below_dev(&mut self, place: &Place<'_>, node: &Node) -> Option<()> {
        let path = self.path(place, node)?;
        let mut parts = path.strip_prefix("/dev").unwrap_or(Path::new("..")).components().peekable();
        if parts.peek().is_none() || parts.any(|part| part == Component::ParentDir) {
            self.wrong(place, node.at, "a device is named by its path below /dev, such as /dev/ttyS0");
            return None;
        }
        Some(())
    }

    fn permissions(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.word(place, node)?;
        let once = |letter: char| text.chars().filter(|other| *other == letter).count() == 1;
        if !text.chars().all(|letter| PERMISSIONS.contains(&letter) && once(letter)) {
            let text = format!(
                "{} are not permissions; write r (read), w (write), m (make nodes of it), such as rw",
                quoted(&text)
            );
            self.wrong(place, node.at, text);
            return None;
        }
        Some(PERMISSIONS.into_iter().filter(|letter| text.contains(*letter)).collect())
    }

    /// `user[:group]` of an image, which only a look into the image can resolve.
    pub(super) fn container_user(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.word(place, node)?;
        let sound = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != ':' && c != '/')
        };
        let (user, group) = text.split_once(':').unwrap_or((&text, "0"));
        if !sound(user) || !sound(group) {
            let text = format!("{} is not a user; write a name or number, or user:group", quoted(&text));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(text)
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
