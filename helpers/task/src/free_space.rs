//! Whether enough of a volume is free, where a service sees it.

use std::path::Path;

use kelson_spec::service::Share;
use kelson_sys::room::Room;
use kelson_sys::units;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;

use crate::failure::at;

/// Looks at a volume at this path of the files that a process sees. Returns how much is free.
///
/// # Errors
/// A sentence that names the volume: less is free, or it cannot be seen.
pub fn check(volume: &str, pid: u32, target: &Path, at_least: Share) -> Result<String, String> {
    let room = look(pid, target).map_err(|errno| {
        let why = match errno {
            Errno::ENOENT => "it is not there any more",
            errno => errno.desc(),
        };
        format!("volume {volume}: {}", at(target, why))
    })?;
    judge(&room, at_least).map_err(|why| format!("volume {volume}: {why}"))
}

/// The links of a path are the service's, and lead nowhere else than for the service.
fn look(pid: u32, target: &Path) -> nix::Result<Room> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let root = open(&*format!("/proc/{pid}/root"), flags | OFlag::O_DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let place = openat2(&root, target, OpenHow::new().flags(flags).resolve(resolve))?;
    Room::of(&place).map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

/// As df(1) counts: what only root may write is neither free nor used. A file system without inodes to give is full, however
/// many bytes it has.
fn judge(room: &Room, at_least: Share) -> Result<String, String> {
    let usable = room.used.saturating_add(room.available);
    if room.size == 0 {
        return Err("its file system does not count its space".to_owned());
    }
    let free = format!("{} % of {} are free", percent(room.available, usable), units::size(usable));
    let inodes = room.inodes.saturating_sub(room.inodes_used);
    let wanted = format!("at least {} is asked for", shown(at_least));
    match at_least {
        Share::Bytes(bytes) if room.available < bytes => {
            Err(format!("{} of {} are free; {wanted}", units::size(room.available), units::size(usable)))
        }
        Share::Percent(least) if is_less(room.available, usable, least) => Err(format!("{free}; {wanted}")),
        Share::Percent(least) if room.inodes > 0 && is_less(inodes, room.inodes, least) => {
            Err(format!("{} % of {} inodes are free; {wanted}", percent(inodes, room.inodes), room.inodes))
        }
        Share::Percent(_) | Share::Bytes(_) => Ok(free),
    }
}

fn shown(share: Share) -> String {
    match share {
        Share::Percent(percent) => format!("{percent} %"),
        Share::Bytes(bytes) => units::size(bytes),
    }
}

/// Exact: 4.9 % is less than 5 %.
fn is_less(part: u64, all: u64, percent: u8) -> bool {
    u128::from(part).saturating_mul(100) < u128::from(all).saturating_mul(percent.into())
}

/// Rounded down.
fn percent(part: u64, all: u64) -> u128 {
    u128::from(part).saturating_mul(100).checked_div(all.into()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room =
        Room { size: 22 << 30, used: 19 << 30, available: 1 << 30, inodes: 1000, inodes_used: 940 };

    #[test]
    fn what_is_free_is_what_a_user_may_write() {
        assert_eq!(judge(&ROOM, Share::Percent(5)).unwrap(), "5 % of 20.0 GiB are free");
        let bytes = |bytes| judge(&ROOM, Share::Bytes(bytes));
        assert_eq!(bytes(1 << 30).unwrap(), "5 % of 20.0 GiB are free");
        assert_eq!(
            bytes(3 << 29).unwrap_err(),
            "1.0 GiB of 20.0 GiB are free; at least 1.5 GiB is asked for"
        );
        let less = Room { available: (1 << 30) - 1, ..ROOM };
        assert_eq!(
            judge(&less, Share::Percent(5)).unwrap_err(),
            "4 % of 19.9 GiB are free; at least 5 % is asked for"
        );
    }

    #[test]
    fn inodes_count_where_a_percentage_is_asked_for() {
        let few = Room { inodes_used: 960, ..ROOM };
        assert_eq!(
            judge(&few, Share::Percent(5)).unwrap_err(),
            "4 % of 1000 inodes are free; at least 5 % is asked for"
        );
        assert!(judge(&few, Share::Bytes(1)).is_ok());
        assert!(judge(&Room { inodes: 0, inodes_used: 0, ..ROOM }, Share::Percent(5)).is_ok());
    }

    #[test]
    fn a_file_system_that_counts_nothing_does_not_pass() {
        let error = check("data", std::process::id(), Path::new("/proc"), Share::Percent(1)).unwrap_err();
        assert_eq!(error, "volume data: its file system does not count its space");
        let error = check("data", std::process::id(), Path::new("/no/such"), Share::Percent(1)).unwrap_err();
        assert_eq!(error, "volume data: /no/such: it is not there any more");
    }
}
