//! The file systems of a container besides its image.

use std::borrow::Cow;

use kelson_spec::features::{Feature, OWN};
use kelson_spec::secrets::IN_CONTAINER;
use kelson_spec::service::{ContainerMount, ContainerNetwork, ContainerSpec, CsiPlugin, ServiceSpec, Volume};
use kelson_sys::ordered;

use super::oci::Mount;

/// Hidden: they tell of the host, or reach into it. The usual ones of container engines.
pub(crate) const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// To be read only.
pub(crate) const READ_ONLY: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

fn mount(destination: &str, kind: &'static str, source: &str, options: &[&str]) -> Mount {
    Mount {
        destination: destination.to_owned(),
        kind: kind.into(),
        source: source.to_owned(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
    }
}

/// A file of the host, which cannot be changed.
fn shown(path: &str, source: &str) -> Mount {
    mount(path, "bind", source, &["bind", "ro", "nosuid", "nodev", "noexec", "rprivate"])
}

/// The names of hosts.
const HOSTS: &str = "/etc/hosts";

/// What of the host a container is given, whatever its file says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OfHost<'h> {
    /// Files that it has at the same place, if it has a network.
    pub(crate) files: &'h [String],
    /// In place of [`HOSTS`] where it has an address of its own.
    pub(crate) hosts: &'h str,
    /// The socket by which it says that it is ready.
    pub(crate) notify_socket: Option<&'h str>,
    /// The folder of its secrets.
    pub(crate) secrets: Option<&'h str>,
}

/// All mounts, those that lie below others after them: the usual ones, those of the host, and the service file's.
pub(crate) fn mounts(container: &ContainerSpec, delegated: bool, host: OfHost<'_>) -> Vec<Mount> {
    let mut mounts = vec![
        mount("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount(
            "/dev/pts",
            "devpts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        ),
        mount("/dev/shm", "tmpfs", "shm", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
        mount("/dev/mqueue", "mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        // Of the container's own network namespace, or of the host's where it shares that.
        mount("/sys", "sysfs", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        mount(
            "/sys/fs/cgroup",
            "cgroup",
            "cgroup",
            &["nosuid", "noexec", "nodev", "relatime", if delegated { "rw" } else { "ro" }],
        ),
    ];
    let is_listed = |path: &str| container.mounts.iter().any(|mount| mount.target.as_os_str() == path);
    let mut show = |path: &str, source: &str| {
        if !is_listed(path) {
            mounts.push(shown(path, source));
        }
    };
    let has_names = container.network == ContainerNetwork::Bridge;
    if container.network != ContainerNetwork::None {
        let same = |file: &&String| !(has_names && *file == HOSTS);
        host.files.iter().filter(same).for_each(|file| show(file, file));
    }
    if has_names {
        show(HOSTS, host.hosts);
    }
    mounts.extend(container.mounts.iter().map(|mount| listed_mount(mount, container.user_namespace)));
    // Over whatever of the host's /run the file shows: this run's socket is the one.
    mounts.extend(
        host.notify_socket
            .map(|path| mount(path, "bind", path, &["bind", "rw", "nosuid", "nodev", "rprivate"])),
    );
    let read_only = ["bind", "ro", "nosuid", "nodev", "noexec", "rprivate"];
    mounts.extend(host.secrets.map(|folder| mount(IN_CONTAINER, "bind", folder, &read_only)));
    mounts
}

/// A container with its service's volumes among its mounts, those that lie below others after them, and the folder of the
/// plugin that it is. What is new in the volumes belongs to this user and group of the container; `found` are those whose disks
/// were looked for.
pub(crate) fn with_volumes<'c>(
    container: &'c ContainerSpec,
    service: &ServiceSpec,
    owner: (u32, u32),
    found: &[Volume],
) -> Cow<'c, ContainerSpec> {
    let (volumes, plugin) = (&service.volumes, &service.provides);
    if const { !OWN.has(Feature::Volumes) } || (volumes.is_empty() && plugin.is_none()) {
        return Cow::Borrowed(container);
    }
    let mut container = container.clone();
    container.mounts.extend(volumes.iter().map(|volume| {
        let found = found.iter().find(|found| found.name == volume.name);
        found.unwrap_or(volume).mount(owner)
    }));
    container.mounts.extend(plugin.iter().map(CsiPlugin::mount));
    ordered::sort_by_key(&mut container.mounts, |mount| mount.target.clone());
    Cow::Owned(container)
}

/// How the container's mount namespace is tied to the host's. runc cuts what is mounted in the container off from the
/// host unless this says otherwise, whatever the single mounts ask for. `None`: no mount asks for anything.
pub(crate) fn propagation(container: &ContainerSpec) -> Option<&'static str> {
    let asked = |words: [&str; 2]| {
        let mut options = container.mounts.iter().flat_map(|mount| &mount.options);
        options.any(|option| words.contains(&option.as_str()))
    };
    if asked(["shared", "rshared"]) {
        Some("rshared")
    } else {
        asked(["slave", "rslave"]).then_some("rslave")
    }
}

/// A mount of the service file; `mapped`: the owners of its files are those that the container has for these ids.
pub fn listed_mount(listed: &ContainerMount, mapped: bool) -> Mount {
    let mut options = listed.options.clone();
    let has = |options: &[String], any: &[&str]| options.iter().any(|option| any.contains(&option.as_str()));
    let kind = if !listed.fs_type.is_empty() {
        if mapped {
            options.push(String::from("idmap"));
        }
        Cow::Owned(listed.fs_type.clone())
    } else if listed.is_tmpfs() {
        for safe in [["nosuid", "suid"], ["nodev", "dev"]] {
            if !has(&options, &safe) {
                options.extend(safe.first().map(|option| (*option).to_owned()));
            }
        }
        "tmpfs".into()
    } else {
        if !has(&options, &["bind", "rbind"]) {
            options.insert(0, String::from("bind"));
        }
        let propagation =
            ["private", "rprivate", "slave", "rslave", "shared", "rshared", "unbindable", "runbindable"];
        if !has(&options, &propagation) {
            options.push(String::from("rprivate"));
        }
        if mapped {
            // Of the mounts below it, too.
            options.push(String::from(if has(&options, &["rbind"]) { "ridmap" } else { "idmap" }));
        }
        "bind".into()
    };
    Mount {
        destination: listed.target.to_string_lossy().into_owned(),
        kind,
        source: listed.source.to_string_lossy().into_owned(),
        options,
    }
}

/// The options of a mount, and not of a file system.
const OF_MOUNTS: [&str; 7] =
    ["nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime", "strictatime"];

/// Mounts as runc makes them. It makes a file system read-only, and not its mount alone, so that mount is changed by a
/// further one.
pub(crate) fn for_runc(mounts: Vec<Mount>) -> Vec<Mount> {
    let mut all = Vec::with_capacity(mounts.len());
    for mut mount in mounts {
        let count = mount.options.len();
        mount.options.retain(|option| option != ContainerMount::READ_ONLY);
        let is_read_only = mount.options.len() < count;
        let mut change = mount.clone();
        all.push(mount);
        if is_read_only {
            change.options.retain(|option| OF_MOUNTS.contains(&option.as_str()));
            change.options.extend(["bind", "remount", "ro"].map(str::to_owned));
            // The kernel looks at the target alone, but runc looks for the source.
            all.push(Mount { kind: "bind".into(), source: "/".to_owned(), ..change });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use kelson_spec::service::{TmpfsSource, VolumeSource};

    use super::*;

    fn entry(source: &str, options: &[&str]) -> ContainerMount {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        ContainerMount { source: source.into(), target: "/t".into(), options, ..ContainerMount::default() }
    }

    #[test]
    fn mounts_of_the_file_are_binds_unless_they_are_in_memory() {
        let cases: [(ContainerMount, &str, &[&str]); 5] = [
            (entry("/a", &[]), "bind", &["bind", "rprivate"]),
            (entry("/a", &["ro", "rbind"]), "bind", &["ro", "rbind", "rprivate"]),
            (entry("/a", &["rw", "rslave"]), "bind", &["bind", "rw", "rslave"]),
            (entry("tmpfs", &["size=1024"]), "tmpfs", &["size=1024", "nosuid", "nodev"]),
            (entry("tmpfs", &["suid", "dev"]), "tmpfs", &["suid", "dev"]),
        ];
        for (entry, kind, options) in cases {
            let mount = listed_mount(&entry, false);
            assert_eq!((&*mount.kind, mount.options.as_slice()), (kind, &options.map_to_owned()[..]));
        }
    }

    #[test]
    fn runc_makes_the_mount_of_a_disk_read_only_by_a_further_one() {
        let disk =
            ContainerMount { fs_type: "ext4".to_owned(), ..entry("/dev/vdb", &["rro", "acl", "noexec"]) };
        let mapped = listed_mount(&disk, true);
        assert_eq!((&*mapped.kind, mapped.options[3].as_str()), ("ext4", "idmap"));
        let other = listed_mount(&entry("/a", &["ro"]), false);
        let made = for_runc(vec![listed_mount(&disk, false), other.clone()]);
        let found: Vec<_> = made.iter().map(|mount| (&*mount.kind, mount.options.join(","))).collect();
        let expected =
            [("ext4", "acl,noexec"), ("bind", "noexec,bind,remount,ro"), ("bind", "bind,ro,rprivate")];
        assert_eq!(found, expected.map(|(kind, options)| (kind, options.to_owned())));
        assert!(made.iter().all(|mount| mount.destination == "/t"));
    }

    #[test]
    fn volumes_are_mounts_after_those_above_them() {
        let mut container = ContainerSpec::new("x");
        container.mounts =
            ["/b/c", "/a"].map(|target| ContainerMount { target: target.into(), ..entry("/s", &[]) }).into();
        let at = |target: &str, source| Volume { source, target: target.into(), ..Volume::default() };
        let mut service = ServiceSpec::process("web", ["/web"]);
        assert!(matches!(with_volumes(&container, &service, (0, 0), &[]), Cow::Borrowed(_)));
        service.volumes =
            vec![at("/a/b", VolumeSource::default()), at("/b", VolumeSource::Tmpfs(TmpfsSource::default()))];
        service.provides = Some(CsiPlugin { id: "nfs".to_owned(), ..CsiPlugin::default() });
        let all = with_volumes(&container, &service, (7, 8), &[]);
        let targets: Vec<&str> = all.mounts.iter().filter_map(|mount| mount.target.to_str()).collect();
        assert_eq!(targets, ["/a", "/a/b", "/b", "/b/c", "/csi"]);
        assert_eq!(all.mounts[2].options, ["mode=0755", "uid=7", "gid=8"]);
        assert_eq!(all.mounts[4].source.to_str(), Some("/run/kelson/csi/nfs"));
        assert_eq!(propagation(&all), Some("rshared"));
    }

    #[test]
    fn the_widest_propagation_that_a_mount_asks_for_is_the_containers() {
        let of = |options: &[&[&str]]| {
            let mut container = ContainerSpec::new("x");
            container.mounts = options.iter().map(|options| entry("/a", options)).collect();
            propagation(&container)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[&["ro"], &["rprivate"]]), None);
        assert_eq!(of(&[&["ro"], &["rbind", "rslave"]]), Some("rslave"));
        assert_eq!(of(&[&["shared"], &["slave"]]), Some("rshared"));
        assert_eq!(of(&[&["slave"], &["rshared"]]), Some("rshared"));
    }

    trait MapToOwned {
        fn map_to_owned(&self) -> Vec<String>;
    }
    impl MapToOwned for &[&str] {
        fn map_to_owned(&self) -> Vec<String> {
            self.iter().map(|text| (*text).to_owned()).collect()
        }
    }

    #[test]
    fn a_delegated_container_may_write_to_its_cgroups() {
        let container = ContainerSpec::new("x");
        let options = |delegated| {
            let mounts = mounts(&container, delegated, OfHost::default());
            let of_cgroup = mounts.into_iter().find(|mount| mount.destination == "/sys/fs/cgroup").unwrap();
            of_cgroup.options.last().cloned().unwrap()
        };
        assert_eq!([options(false), options(true)], ["ro", "rw"]);
    }

    #[test]
    fn files_of_the_host_are_seen_with_a_network_alone() {
        let files = [String::from("/etc/hosts"), String::from("/etc/resolv.conf")];
        let mut container = ContainerSpec::new("x");
        let host = OfHost { files: &files, hosts: "/run/hosts", ..OfHost::default() };
        let of_etc = |container: &ContainerSpec| -> Vec<Mount> {
            let all = mounts(container, false, host).into_iter();
            all.filter(|mount| mount.destination.starts_with("/etc")).collect()
        };
        let count = |container: &ContainerSpec| of_etc(container).len();
        assert_eq!(count(&container), 2);
        container.network = ContainerNetwork::Bridge;
        let sources: Vec<String> = of_etc(&container).into_iter().map(|mount| mount.source).collect();
        assert_eq!(sources, ["/etc/resolv.conf", "/run/hosts"], "with the names of containers");
        container.network = ContainerNetwork::Host;
        container.mounts.push(ContainerMount { target: "/etc/hosts".into(), ..entry("/mine", &[]) });
        assert_eq!(count(&container), 2, "the service file's own counts");
        container.network = ContainerNetwork::Bridge;
        assert_eq!(count(&container), 2);
        container.network = ContainerNetwork::None;
        assert_eq!(count(&container), 1);
    }
}
