//! What the units of a host other than the one that is translated are to Kelson.

use std::path::{Path, PathBuf};

use kelson_spec::names::is_point;
use kelson_spec::service::{NetworkAspect, Requirement};

use crate::unit_name::{UnitName, kelson_name, path};

/// What Kelson does before it starts services, or has no need for.
const BY_THE_BOOT: [(&str, &str); 38] = [
    ("sysinit.target", BOOT),
    ("basic.target", BOOT),
    ("local-fs.target", BOOT),
    ("local-fs-pre.target", BOOT),
    ("remote-fs.target", BOOT),
    ("remote-fs-pre.target", BOOT),
    ("swap.target", BOOT),
    ("network-pre.target", BOOT),
    ("network.service", BOOT),
    ("networking.service", BOOT),
    ("systemd-networkd.service", BOOT),
    ("systemd-sysctl.service", BOOT),
    ("systemd-modules-load.service", BOOT),
    ("systemd-remount-fs.service", BOOT),
    ("systemd-random-seed.service", BOOT),
    ("systemd-udevd.service", BOOT),
    ("systemd-udev-trigger.service", BOOT),
    ("systemd-udev-settle.service", BOOT),
    ("systemd-hostnamed.service", BOOT),
    ("cryptsetup.target", BOOT),
    ("cryptsetup-pre.target", BOOT),
    ("time-set.target", BOOT),
    ("paths.target", NOTHING),
    ("slices.target", NOTHING),
    ("system.slice", NOTHING),
    ("-.slice", NOTHING),
    ("sockets.target", NOTHING),
    ("timers.target", NOTHING),
    ("systemd-user-sessions.service", NOTHING),
    ("systemd-tmpfiles-setup.service", NOTHING),
    ("systemd-tmpfiles-setup-dev.service", NOTHING),
    ("syslog.target", LOGS),
    ("syslog.socket", LOGS),
    ("syslog.service", LOGS),
    ("rsyslog.service", LOGS),
    ("systemd-journald.service", LOGS),
    ("systemd-journald.socket", LOGS),
    ("systemd-journald-dev-log.socket", LOGS),
];

pub const BOOT: &str = "Kelson's boot has done it before the first service starts";
pub const NOTHING: &str = "Kelson has no such thing to wait for";
/// Services that set up the network where Kelson does not.
pub const NETWORKS: [&str; 3] = ["networking.service", "network.service", "systemd-networkd.service"];

/// Points of the order that start nothing, by the rules of systemd.special(7).
pub const PASSIVE: [&str; 3] = ["network.target", "nss-lookup.target", "nss-user-lookup.target"];

const LOGS: &str = "Kelson takes logs before the first service starts";

/// What the end of a system orders before or conflicts with.
pub const OF_THE_END: [&str; 8] = [
    "shutdown.target",
    "umount.target",
    "final.target",
    "reboot.target",
    "poweroff.target",
    "halt.target",
    "rescue.target",
    "emergency.target",
];

/// The beginning of the units of interfaces of the network.
const INTERFACES: &str = "sys-subsystem-net-devices-";

/// Stages of the boot that consist of the services.
pub const STAGES: [&str; 4] = ["multi-user.target", "graphical.target", "default.target", "getty.target"];

/// What another unit is to Kelson.
#[derive(Debug)]
pub enum Other {
    /// Nothing to wait for, and why.
    Moot(&'static str),
    /// A condition that is not about a service.
    Condition(Requirement, &'static str),
    Service(String),
    /// A socket unit, and the service that has its sockets.
    Socket(String),
    /// A target, which is a point of the order.
    Point,
    /// A unit of a kind that Kelson does not have.
    Strange,
}

/// What a unit of this name is.
pub fn other(unit: &str) -> Other {
    if let Some((_, why)) = BY_THE_BOOT.iter().find(|(name, _)| *name == unit) {
        return Other::Moot(why);
    }
    match unit {
        "network-online.target"
        | "systemd-networkd-wait-online.service"
        | "NetworkManager-wait-online.service" => {
            let why = "the service waits for an address, without a limit of time";
            return Other::Condition(Requirement::Network(vec![NetworkAspect::Addresses]), why);
        }
        "time-sync.target" | "systemd-time-wait-sync.service" => {
            let why = "the service waits until the kernel counts the clock as synchronised, without a limit of time";
            return Other::Condition(Requirement::TimeSynced, why);
        }
        "rpc_pipefs.target" => {
            let why =
                "the service waits for the mount, without a limit of time; write it into the machine file";
            return Other::Condition(Requirement::Mount("/run/rpc_pipefs".into()), why);
        }
        _ => {}
    }
    match unit.rsplit_once('.') {
        Some((_, "target")) if is_point(unit) => Other::Point,
        Some((_, "service")) => {
            UnitName::new(unit).map_or(Other::Strange, |name| Other::Service(kelson_name(&name.bare)))
        }
        Some((bare, "socket")) => Other::Socket(kelson_name(bare)),
        Some((bare, "mount")) => match path(bare) {
            Some(path) if path == "/" => Other::Moot(BOOT),
            Some(path) => {
                let why = "the service waits for the mount, without a limit of time";
                Other::Condition(Requirement::Mount(PathBuf::from(path)), why)
            }
            None => Other::Strange,
        },
        Some((bare, "device")) if bare.starts_with(INTERFACES) => match path(bare) {
            Some(path) => {
                let why = "the service waits for the interface, and is not stopped when it goes";
                Other::Condition(
                    Requirement::Path(
                        Path::new("/sys/class/net").join(path.rsplit('/').next().unwrap_or_default()),
                    ),
                    why,
                )
            }
            None => Other::Strange,
        },
        Some((bare, "device")) => match path(bare).filter(|path| path.starts_with("/dev/")) {
            Some(path) => {
                let why = "the service waits for the device, and is not stopped when it goes";
                Other::Condition(Requirement::Device(PathBuf::from(path)), why)
            }
            None => Other::Strange,
        },
        _ => Other::Strange,
    }
}
