//! The kernel's names as they stand in a service file: signals, resource limits, capabilities.

use nix::sys::signal::Signal;

/// Resource limits by name, with the numbers of the kernel's generic ABI (x86, Arm, RISC-V).
#[rustfmt::skip]
pub const LIMITS: [(&str, u32); 16] = [
    ("cpu", 0), ("fsize", 1), ("data", 2), ("stack", 3), ("core", 4), ("rss", 5), ("nproc", 6),
    ("nofile", 7), ("memlock", 8), ("as", 9), ("locks", 10), ("sigpending", 11), ("msgqueue", 12),
    ("nice", 13), ("rtprio", 14), ("rttime", 15),
];

/// Capabilities; the place in the list is the number.
#[rustfmt::skip]
pub const CAPABILITIES: [&str; 41] = [
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
    "setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw",
    "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
    "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod",
    "lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog",
    "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
];

/// The mask of all of [`CAPABILITIES`].
pub const ALL_CAPABILITIES: u64 = (1 << 41) - 1;

/// The capabilities of a container whose file names none: the fourteen that container engines give by default
/// (containerd's `oci.WithDefaultSpec`, and Docker's, which it took them from).
#[rustfmt::skip]
pub const CONTAINER_CAPABILITIES: u64 =
    /* chown, dac_override, fowner, fsetid */ 1 | 1 << 1 | 1 << 3 | 1 << 4
    /* kill, setgid, setuid, setpcap */ | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8
    /* net_bind_service, net_raw, sys_chroot */ | 1 << 10 | 1 << 13 | 1 << 18
    /* mknod, audit_write, setfcap */ | 1 << 27 | 1 << 29 | 1 << 31;

/// Reads `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3` or `SIGRTMAX-1`.
fn signal(text: &str) -> Option<i32> {
    if let Some(number) = crate::units::number(text) {
        return i32::try_from(number).ok().filter(|number| (1..=libc::SIGRTMAX()).contains(number));
    }
    let name = text.strip_prefix("SIG").unwrap_or(text);
    if let Some(offset) = name.strip_prefix("RTMIN") {
        let offset = if offset.is_empty() { 0 } else { small(offset.strip_prefix('+')?)? };
        return libc::SIGRTMIN().checked_add(offset).filter(|number| *number <= libc::SIGRTMAX());
    }
    if let Some(offset) = name.strip_prefix("RTMAX") {
        let offset = if offset.is_empty() { 0 } else { small(offset.strip_prefix('-')?)? };
        return libc::SIGRTMAX().checked_sub(offset).filter(|number| *number >= libc::SIGRTMIN());
    }
    Signal::iterator().find(|known| bare(*known) == name).map(|known| known as i32)
}

/// The name of a signal without `SIG`.
fn bare(signal: Signal) -> &'static str {
    signal.as_str().strip_prefix("SIG").unwrap_or_default()
}

/// A text that names no signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a signal{}", crate::quote::quoted(.text), self.hint())]
pub struct NoSignal {
    text: String,
}

impl NoSignal {
    /// The name that was most likely meant.
    fn hint(&self) -> String {
        let upper = self.text.to_ascii_uppercase();
        let near = crate::near::near(upper.trim_start_matches("SIG"), signal_names());
        near.map(|name| format!("; did you mean SIG{name}?")).unwrap_or_default()
    }
}

/// As [`signal`].
///
/// # Errors
/// The text names no signal.
pub fn parse_signal(text: &str) -> Result<i32, NoSignal> {
    signal(text).ok_or_else(|| NoSignal { text: text.to_owned() })
}

fn small(text: &str) -> Option<i32> {
    crate::units::number(text).and_then(|number| i32::try_from(number).ok())
}

/// The name of a signal, with `SIG`; a number that has none as digits.
pub fn signal_name(number: i32) -> String {
    if let Ok(signal) = Signal::try_from(number) {
        return signal.as_str().to_owned();
    }
    match number.checked_sub(libc::SIGRTMIN()) {
        Some(0) => "SIGRTMIN".to_owned(),
        Some(offset) if offset > 0 && number <= libc::SIGRTMAX() => format!("SIGRTMIN+{offset}"),
        _ => number.to_string(),
    }
}

/// The names of all signals that have one, for "did you mean".
pub fn signal_names() -> impl Iterator<Item = &'static str> {
    Signal::iterator().map(bare)
}

/// The number of a capability: `net_bind_service`, also as `CAP_NET_BIND_SERVICE`.
pub fn capability(text: &str) -> Option<u32> {
    let name = text.to_ascii_lowercase();
    let name = name.strip_prefix("cap_").unwrap_or(&name);
    CAPABILITIES.iter().position(|known| *known == name).and_then(|place| u32::try_from(place).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals() {
        let rtmin = libc::SIGRTMIN();
        for (text, number) in [
            ("SIGTERM", 15),
            ("TERM", 15),
            ("15", 15),
            ("KILL", 9),
            ("SIGRTMIN+3", rtmin + 3),
            ("RTMIN", rtmin),
            ("SIGRTMAX-1", 63),
            ("64", 64),
        ] {
            assert_eq!(signal(text), Some(number), "{text}");
        }
        for text in
            ["", "0", "65", "SIG", "sigterm", "TERMINATE", "SIGRTMIN+40", "SIGRTMIN3", "SIGRTMAX-40", "-1"]
        {
            assert_eq!(signal(text), None, "{text}");
        }
        for number in 1..=64 {
            assert_eq!(signal(&signal_name(number)), Some(number));
        }
        assert_eq!(signal_name(15), "SIGTERM");
    }

    #[test]
    fn limits_are_those_of_this_machine() {
        let number = |name: &str| LIMITS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        assert_eq!(number("nofile"), Some(libc::RLIMIT_NOFILE));
        assert_eq!(number("core"), Some(libc::RLIMIT_CORE));
        assert_eq!(number("memlock"), Some(libc::RLIMIT_MEMLOCK));
        assert_eq!(number("rttime"), Some(libc::RLIMIT_RTTIME));
    }

    #[test]
    fn capabilities() {
        assert_eq!(capability("net_bind_service"), Some(10));
        assert_eq!(capability("CAP_SYS_ADMIN"), Some(21));
        assert_eq!(capability("checkpoint_restore"), Some(40));
        assert_eq!(capability("all"), None);
        assert_eq!(ALL_CAPABILITIES.count_ones() as usize, CAPABILITIES.len());
        let usual = [
            "chown",
            "dac_override",
            "fowner",
            "fsetid",
            "kill",
            "setgid",
            "setuid",
            "setpcap",
            "net_bind_service",
            "net_raw",
            "sys_chroot",
            "mknod",
            "audit_write",
            "setfcap",
        ];
        let mask = usual.iter().fold(0, |mask, name| mask | 1_u64 << capability(name).unwrap());
        assert_eq!(CONTAINER_CAPABILITIES, mask);
    }
}
