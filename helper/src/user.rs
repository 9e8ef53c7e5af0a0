//! How a helper that PID 1 started as root becomes another user.

use std::io;

use kelson_sys::capability;
use nix::sys::prctl::set_keepcaps;
use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};

/// Becomes this user, with this group alone, if the process is root. All capabilities go with root. False: the user namespace
/// has no such user, and nothing has changed.
///
/// # Errors
/// When the kernel refuses, with the user in the message.
pub fn leave_root(user: u32, group: u32) -> io::Result<bool> {
    leave_root_with(user, group, 0)
}

/// As [`leave_root`], but those of the capabilities `kept` that the process holds stay.
///
/// # Errors
/// As of [`leave_root`].
pub fn leave_root_with(user: u32, group: u32, kept: u64) -> io::Result<bool> {
    if !geteuid().is_root() {
        return Ok(true);
    }
    if !is_mapped(user, &std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default()) {
        return Ok(false);
    }
    if kept != 0 {
        set_keepcaps(true)?;
    }
    let changed =
        setgroups(&[]).and_then(|()| setgid(Gid::from_raw(group))).and_then(|()| setuid(Uid::from_raw(user)));
    let changed = changed.and_then(|()| if kept == 0 { Ok(()) } else { capability::keep(kept) });
    changed.map_err(|errno| io::Error::other(format!("cannot become user {user}: {errno}")))?;
    Ok(true)
}

/// Whether a user namespace with this map (user_namespaces(7): first within, first without, how many) has this user.
fn is_mapped(user: u32, map: &str) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u32>().ok());
        let (first, _, count) = (numbers.next().flatten(), numbers.next(), numbers.next().flatten());
        let after = first.and_then(|first| user.checked_sub(first));
        after.zip(count).is_some_and(|(after, count)| after < count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_says_which_users_it_has() {
        let whole = "         0          0 4294967295\n";
        assert!(is_mapped(0, whole) && is_mapped(65_432, whole));
        let alone = "         0       1000          1\n";
        assert!(is_mapped(0, alone) && !is_mapped(65_432, alone));
        let two = "0 1000 1\n65000 165000 500\n";
        assert!(is_mapped(65_432, two) && !is_mapped(65_500, two) && !is_mapped(64_999, two));
        assert!(!is_mapped(0, ""));
    }
}
