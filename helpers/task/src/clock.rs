//! The clock: set from the hardware's where the kernel has not done it.

use std::path::Path;
use std::time::Duration;

use kelson_helper::task::EARLIEST_TIME;

/// Sets the clock from the first hardware clock that shows a time that can be right.
pub fn set() -> Result<String, String> {
    let Some(hardware) = read(Path::new("/sys/class/rtc")) else {
        return Err("it is not set, and there is no hardware clock that is".into());
    };
    nix::time::clock_settime(nix::time::ClockId::CLOCK_REALTIME, hardware.into())
        .map_err(|errno| format!("setting it: {}", errno.desc()))?;
    Ok("set from the hardware clock".to_owned())
}

/// The first hardware clock that tells a time that can be right.
fn read(clocks: &Path) -> Option<Duration> {
    let mut names: Vec<_> = std::fs::read_dir(clocks).ok()?.flatten().map(|entry| entry.path()).collect();
    names.sort();
    names.into_iter().find_map(|clock| {
        let seconds = std::fs::read_to_string(clock.join("since_epoch")).ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds)).filter(|time| *time >= EARLIEST_TIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_without_a_battery_is_passed_over() {
        let folder = std::env::temp_dir().join(format!("kelson-rtc-{}", std::process::id()));
        for (name, time) in [("rtc0", "12\n"), ("rtc1", "1800000000\n")] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("since_epoch"), time).unwrap();
        }
        assert_eq!(read(&folder), Some(Duration::from_secs(1_800_000_000)));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read(&folder), None);
    }
}
