//! The clock at the start: not before what is known to have passed.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_sys::clock::HARDWARE;
use kelson_sys::ordered;

use crate::failure::at;

/// 2025-01-01, since 1970: before the first release.
const FIRST_RELEASE: Duration = Duration::from_secs(1_735_689_600);
/// Its time of change is that of this build, where the initramfs keeps such times.
const PROGRAM: &str = "/sbin/init";

/// Sets a clock that shows a time before this build or before the last change of `saved`: from the first hardware clock
/// that shows a later one, else to that time.
pub fn set(saved: &Path) -> Result<String, String> {
    let least = [PROGRAM.as_ref(), saved].into_iter().filter_map(changed).fold(FIRST_RELEASE, Duration::max);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if now >= least {
        return Ok("the kernel has set it".to_owned());
    }
    let hardware = read(Path::new(HARDWARE), least);
    nix::time::clock_settime(nix::time::ClockId::CLOCK_REALTIME, hardware.unwrap_or(least).into())
        .map_err(|errno| format!("setting it: {}", errno.desc()))?;
    match hardware {
        Some(_) => Ok("set from the hardware clock".to_owned()),
        None => Err("no hardware clock has the time; it starts at the last time that is known".to_owned()),
    }
}

/// Changes `saved`, so that the next boot knows that this time has passed.
pub fn save(saved: &Path) -> Result<String, String> {
    let change = || {
        let file = File::options().create(true).truncate(false).write(true).open(saved)?;
        file.write_all_at(b"\n", 0)?;
        file.sync_all()
    };
    change().map(|()| String::new()).map_err(|error: std::io::Error| at(saved, error))
}

/// When the file was changed last, since 1970.
fn changed(path: &Path) -> Option<Duration> {
    path.metadata().ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()
}

/// The first hardware clock that shows a time from `least` on.
fn read(clocks: &Path, least: Duration) -> Option<Duration> {
    let mut names: Vec<_> = std::fs::read_dir(clocks).ok()?.flatten().map(|entry| entry.path()).collect();
    ordered::sort(&mut names);
    names.into_iter().find_map(|clock| {
        let seconds = std::fs::read_to_string(clock.join("since_epoch")).ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds)).filter(|time| *time >= least)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_lags_behind_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        for (name, time) in [("rtc0", "12\n"), ("rtc1", "1800000000\n")] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("since_epoch"), time).unwrap();
        }
        let time = Duration::from_secs(1_800_000_000);
        assert_eq!(read(folder.path(), FIRST_RELEASE), Some(time));
        assert_eq!(read(folder.path(), time + Duration::from_secs(1)), None);
        assert_eq!(read(&folder.path().join("none"), FIRST_RELEASE), None);
    }

    #[test]
    fn the_time_of_a_saved_file_is_that_of_its_last_change() {
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("clock");
        assert_eq!(changed(&saved), None);
        save(&saved).unwrap();
        let old = UNIX_EPOCH + Duration::from_secs(7);
        File::options().write(true).open(&saved).unwrap().set_modified(old).unwrap();
        assert_eq!(changed(&saved), Some(Duration::from_secs(7)));
        save(&saved).unwrap();
        assert!(changed(&saved).unwrap() >= FIRST_RELEASE, "the clock of this machine is right");
        assert!(save(&folder.path().join("none/clock")).unwrap_err().contains("none/clock"));
    }
}
