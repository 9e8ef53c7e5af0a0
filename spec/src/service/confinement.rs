//! As whom a service runs, how much it may use, and what it may do.

use serde::{Deserialize, Serialize};

use super::directories::{Directories, Directory, DirectoryKind};
use super::sandbox::{Protection, Sandbox};
use crate::places::places;

/// A resolved user: PID 1 never reads `/etc/passwd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// For messages and `USER`/`LOGNAME`: the name in passwd, or the number as written where passwd does not know it.
    pub name: String,
    /// `HOME`, where passwd knows it.
    pub home: Option<String>,
}

impl Credentials {
    /// The user and the group of processes that need no file.
    pub const NOBODY: u32 = 65_534;
    /// The name of a user that no other service of the host has, and that no file names.
    pub const DYNAMIC: &str = "dynamic";
    /// The ids of the host among which those are. systemd keeps them free for the same purpose.
    const FIRST_DYNAMIC: u32 = 61_184;
    const DYNAMIC_COUNT: u32 = 4096;

    pub fn is_dynamic(&self) -> bool {
        self.name == Self::DYNAMIC
            && self.uid.checked_sub(Self::FIRST_DYNAMIC).is_some_and(|place| place < Self::DYNAMIC_COUNT)
    }

    /// The ids that a service of this name tries as its dynamic user, each once.
    pub fn dynamic_ids(service: &str) -> impl Iterator<Item = u32> + Clone + use<> {
        places(service, Self::DYNAMIC_COUNT).map(|place| Self::FIRST_DYNAMIC.saturating_add(place))
    }
}

/// Nobody: where it cannot be read from a record of the state who a user is, that must not be root.
impl Default for Credentials {
    fn default() -> Self {
        Credentials {
            uid: Self::NOBODY,
            gid: Self::NOBODY,
            groups: Vec::new(),
            name: "nobody".to_owned(),
            home: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Bytes.
    pub memory_max: Option<u64>,
    /// Bytes.
    pub memory_high: Option<u64>,
    /// Thousandths of one CPU.
    pub cpu_max_millis: Option<u64>,
    /// 1 to 10000.
    pub cpu_weight: Option<u64>,
    /// 1 to 10000.
    pub io_weight: Option<u64>,
    pub pids_max: Option<u64>,
}

/// One rlimit, by its number in `<sys/resource.h>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    pub resource: u32,
    /// `u64::MAX` is unlimited.
    pub soft: u64,
    pub hard: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Security {
    pub no_new_privileges: bool,
    pub read_only_root: bool,
    /// Bit n set: capability n stays in the bounding set. `None`: for a process, nothing was dropped, all that PID 1 has stays;
    /// for a container, the usual ones ([`CONTAINER_CAPABILITIES`](crate::CONTAINER_CAPABILITIES)).
    pub capabilities: Option<u64>,
    /// The capabilities that `add` names: what a user other than root holds after the start.
    pub ambient: u64,
    pub seccomp: Seccomp,
    /// A view of the file system of its own; of a process.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub view: FileView,
    /// Further namespaces of its own; of a process.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub own: OwnNamespaces,
    /// The devices of a process. `None`: all.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub devices: Option<DeviceAccess>,
    /// Of a process.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub sandbox: Sandbox,
}

/// Devices that a process may open, whatever its user and its view of `/dev`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceAccess {
    /// Without those that belong to no machine: `null`, `zero`, `full`, `random`, `urandom` and terminals.
    pub no_usual: bool,
    /// Each a path below `/dev`, or `char-` or `block-` and a name in `/proc/devices`; with `:` and some of `rwm` after it.
    pub allow: Vec<String>,
}

impl DeviceAccess {
    /// Whether `allow` can name this device, with this access.
    pub fn is_device(device: &str, access: &str) -> bool {
        let is_path = device.starts_with("/dev/") && !device.split('/').any(|part| part == "..");
        let name = device.strip_prefix("char-").or_else(|| device.strip_prefix("block-"));
        let is_name = name.is_some_and(|name| !name.is_empty() && !name.contains('/'));
        let is_access = !access.is_empty() && access.chars().all(|letter| "rwm".contains(letter));
        is_access && (is_path || is_name)
    }
}

/// What a process has for itself, besides a view of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnNamespaces {
    /// A network of the loopback interface alone.
    pub network: bool,
    /// Of the users of the host, only root and its own are known.
    pub users: bool,
}

/// How the files of the host look for a process. A path with `-` before it may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileView {
    /// With all that is mounted below.
    pub read_only: Vec<String>,
    /// In spite of a read-only path above, or a read-only root.
    pub writable: Vec<String>,
    /// An empty folder or file stands there.
    pub hidden: Vec<String>,
    /// No program there can be executed.
    pub no_exec: Vec<String>,
    /// In spite of a path above from which none can be.
    pub exec: Vec<String>,
    /// `/tmp` and `/var/tmp` are empty file systems in memory.
    pub private_tmp: bool,
    /// `/dev` has only what belongs to no device.
    pub private_devices: bool,
    /// `SOURCE:TARGET`: what is at the first path is at the second too.
    pub bind: Vec<String>,
    /// The same, and nothing can be changed there.
    pub bind_read_only: Vec<String>,
}

/// One place that looks different for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewRule {
    /// With all that is mounted below.
    ReadOnly,
    Writable,
    Hidden,
    NoExec,
    Exec,
    /// An empty file system in memory, for all users.
    Temporary,
    Devices,
    /// What a [`Protection`](super::Protection) of this name asks for.
    Protect,
    /// A network namespace of its own, at no path.
    Network,
    /// A user namespace, at `UID:GID` of its user.
    Users,
    /// What is at a path, at `SOURCE:TARGET`.
    Bind,
    BindReadOnly,
    /// A [`Volume`](super::Volume), after `UID:GID:` of the user and the group of what is new in it.
    Volume,
    /// A program that allows no device but those of the next rules; with `usual` the usual ones too.
    DeviceProgram,
    /// One of [`DeviceAccess::allow`].
    Device,
}

impl ViewRule {
    const WORDS: [(ViewRule, &str); 15] = [
        (ViewRule::ReadOnly, "read-only"),
        (ViewRule::Writable, "writable"),
        (ViewRule::Hidden, "hidden"),
        (ViewRule::NoExec, "no-exec"),
        (ViewRule::Exec, "exec"),
        (ViewRule::Temporary, "temporary"),
        (ViewRule::Devices, "devices"),
        (ViewRule::Protect, "protect"),
        (ViewRule::Network, "network"),
        (ViewRule::Users, "users"),
        (ViewRule::Bind, "bind"),
        (ViewRule::BindReadOnly, "bind-read-only"),
        (ViewRule::Volume, "volume"),
        (ViewRule::DeviceProgram, "device-program"),
        (ViewRule::Device, "device"),
    ];

    /// A word for it and for its path, which [`ViewRule::of_word`] reads.
    pub fn to_word(self, path: &str) -> String {
        let word = Self::WORDS.into_iter().find(|(rule, _)| *rule == self).map_or("", |(_, word)| word);
        format!("{word}:{path}")
    }

    /// The rule and its path. `None`: it is no such word.
    pub fn of_word(word: &str) -> Option<(ViewRule, &str)> {
        let (word, path) = word.split_once(':')?;
        Some((Self::WORDS.into_iter().find(|(_, name)| *name == word)?.0, path))
    }
}

impl Security {
    /// Whether something is made for it that its processes enter.
    pub fn has_namespaces(&self, directories: &Directories) -> bool {
        self.own != OwnNamespaces::default() || self.devices.is_some() || self.has_view(directories)
    }

    /// The rules of all that is made for it: those of its view, and of its other namespaces. They come after the view, in the
    /// order of [`OwnNamespaces`].
    pub fn namespace_rules(&self, directories: &Directories, user: Option<&Credentials>) -> Vec<String> {
        let mut rules = self.view_rules(directories);
        if self.own.network {
            rules.push(ViewRule::Network.to_word(""));
        }
        if self.own.users {
            let (uid, gid) = user.map_or((0, 0), |user| (user.uid, user.gid));
            rules.push(ViewRule::Users.to_word(&format!("{uid}:{gid}")));
        }
        if let Some(devices) = &self.devices {
            rules.push(ViewRule::DeviceProgram.to_word(if devices.no_usual { "" } else { "usual" }));
            rules.extend(devices.allow.iter().map(|device| ViewRule::Device.to_word(device)));
        }
        rules
    }

    /// Whether the files of the host look different for it.
    pub fn has_view(&self, directories: &Directories) -> bool {
        self.view != FileView::default()
            || self.protections().next().is_some()
            || self.own_folders(directories).next().is_some()
    }

    fn protections(&self) -> impl Iterator<Item = &Protection> {
        self.sandbox.protect.iter().filter(|protection| protection.has_view())
    }

    /// Its own folders that would be read-only.
    fn own_folders<'d>(&self, directories: &'d Directories) -> impl Iterator<Item = &'d Directory> {
        let has_read_only = self.read_only_root || !self.view.read_only.is_empty();
        let stays = move |directory: &&Directory| directory.kind != DirectoryKind::Configuration;
        directories.list.iter().filter(move |_| has_read_only).filter(stays)
    }

    /// The rules of its view of the file system, each with its path, as words for `kelson-task`; none where it sees the files
    /// of the host. It can write to its own `directories`, whatever is read-only.
    pub fn view_rules(&self, directories: &Directories) -> Vec<String> {
        if !self.has_view(directories) {
            return Vec::new();
        }
        let FileView { read_only, writable, hidden, no_exec, exec, private_tmp, private_devices, .. } =
            &self.view;
        let own = self.own_folders(directories).map(|folder| folder.whole());
        let mut rules: Vec<String> = self
            .protections()
            .map(|protection| ViewRule::Protect.to_word(protection.name()))
            .chain(own.map(|path| ViewRule::Writable.to_word(&path.to_string_lossy())))
            .collect();
        let mut add = |rule: ViewRule, paths: &[String]| {
            rules.extend(paths.iter().map(|path| rule.to_word(path)));
        };
        add(ViewRule::ReadOnly, read_only);
        add(ViewRule::Writable, writable);
        add(ViewRule::Hidden, hidden);
        add(ViewRule::NoExec, no_exec);
        add(ViewRule::Exec, exec);
        add(ViewRule::Bind, &self.view.bind);
        add(ViewRule::BindReadOnly, &self.view.bind_read_only);
        let fixed = [
            (self.read_only_root, ViewRule::ReadOnly, "/"),
            (*private_tmp, ViewRule::Temporary, "-/tmp"),
            (*private_tmp, ViewRule::Temporary, "-/var/tmp"),
            (*private_devices, ViewRule::Devices, "/dev"),
        ];
        for (_, rule, path) in fixed.into_iter().filter(|(is_wanted, ..)| *is_wanted) {
            rules.push(rule.to_word(path));
        }
        rules
    }
}

impl Default for Security {
    fn default() -> Self {
        Security {
            no_new_privileges: true,
            read_only_root: false,
            capabilities: None,
            ambient: 0,
            seccomp: Seccomp::default(),
            view: FileView::default(),
            own: OwnNamespaces::default(),
            devices: None,
            sandbox: Sandbox::default(),
        }
    }
}

/// The access of a service's processes to PID 1 and logd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ApiAccess {
    /// Nothing.
    #[default]
    None,
    Reader,
    Operator,
    Admin,
}

impl ApiAccess {
    pub const ALL: [ApiAccess; 4] =
        [ApiAccess::None, ApiAccess::Reader, ApiAccess::Operator, ApiAccess::Admin];

    /// The word for it in a service file.
    pub fn name(self) -> &'static str {
        match self {
            ApiAccess::None => "none",
            ApiAccess::Reader => "reader",
            ApiAccess::Operator => "operator",
            ApiAccess::Admin => "admin",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Seccomp {
    /// Kelson's default profile: the usual container profile.
    #[default]
    Default,
    Unconfined,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_a_word_for_each_rule() {
        let none = Directories::default();
        assert_eq!(Security { read_only_root: true, ..Security::default() }.view_rules(&none), [""; 0]);
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let view = FileView {
            read_only: paths(&["-/srv"]),
            writable: paths(&["/srv/a"]),
            hidden: paths(&["/home"]),
            no_exec: paths(&["/"]),
            exec: paths(&["/usr"]),
            private_tmp: true,
            private_devices: true,
            bind: paths(&["/srv:/mnt"]),
            bind_read_only: paths(&["-/dev/log:/srv/log"]),
        };
        let protect = Protection::WORDS.map(|(_, protection)| protection).to_vec();
        let sandbox = Sandbox { protect, ..Sandbox::default() };
        let rules = Security { read_only_root: true, view, sandbox, ..Security::default() }.view_rules(&none);
        let expected = [
            "protect:kernelTunables",
            "protect:kernelModules",
            "protect:kernelLogs",
            "protect:controlGroups",
            "protect:processes",
            "protect:kernelFiles",
            "read-only:-/srv",
            "writable:/srv/a",
            "hidden:/home",
            "no-exec:/",
            "exec:/usr",
            "bind:/srv:/mnt",
            "bind-read-only:-/dev/log:/srv/log",
            "read-only:/",
            "temporary:-/tmp",
            "temporary:-/var/tmp",
            "devices:/dev",
        ];
        assert_eq!(rules, expected);
        assert!(
            rules.iter().all(|word| {
                ViewRule::of_word(word).is_some_and(|(rule, path)| rule.to_word(path) == *word)
            })
        );
        assert_eq!(ViewRule::of_word("nothing:/"), None);
    }

    #[test]
    fn devices_are_rules_of_a_program() {
        let rules = |devices| {
            let security = Security { devices: Some(devices), ..Security::default() };
            assert!(security.has_namespaces(&Directories::default()));
            security.namespace_rules(&Directories::default(), None)
        };
        assert_eq!(rules(DeviceAccess::default()), ["device-program:usual"]);
        let strict = DeviceAccess { no_usual: true, allow: vec!["/dev/sda:r".into()] };
        assert_eq!(rules(strict), ["device-program:", "device:/dev/sda:r"]);
    }

    #[test]
    fn a_service_writes_to_its_folders_in_a_read_only_view() {
        let directory = |kind| Directory { kind, path: "web".into(), mode: 0o755 };
        let list = vec![directory(DirectoryKind::State), directory(DirectoryKind::Configuration)];
        let directories = Directories { list, ..Directories::default() };
        let strict = Security { read_only_root: true, ..Security::default() };
        assert_eq!(strict.view_rules(&directories), ["writable:/var/lib/web", "read-only:/"]);
        assert_eq!(Security::default().view_rules(&directories), [""; 0]);
    }
}
