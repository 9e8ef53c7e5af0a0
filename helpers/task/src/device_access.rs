//! The program that tells which devices the processes of a service may open. PID 1 puts it in force for their cgroup.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use kelson_spec::service::ViewRule;
use kelson_sys::device_program::{BLOCK, CHARACTER, Rule, USUAL, access, load_program};
use kelson_sys::fnmatch;
use nix::sys::stat::{major, minor};

/// Makes the program. `None`: no rule asks for it.
pub fn make(words: &[String]) -> Result<Option<OwnedFd>, String> {
    let of_kind = |wanted: ViewRule| {
        let read = words.iter().filter_map(|word| ViewRule::of_word(word));
        read.filter(move |(rule, _)| *rule == wanted).map(|(_, text)| text)
    };
    let Some(usual) = of_kind(ViewRule::DeviceProgram).next() else { return Ok(None) };
    let mut rules: Vec<Rule> = if usual.is_empty() { Vec::new() } else { USUAL.to_vec() };
    let registered = fs::read_to_string("/proc/devices").unwrap_or_default();
    for device in of_kind(ViewRule::Device) {
        rules.extend(found(device, &registered));
    }
    let cannot = |errno: nix::errno::Errno| {
        format!("cannot make the program that guards its devices: {}", errno.desc())
    };
    load_program(&rules).map(Some).map_err(cannot)
}

/// The rules of one device; none where the host does not have it now.
fn found(device: &str, registered: &str) -> Vec<Rule> {
    let (device, allowed) = device.rsplit_once(':').unwrap_or((device, "rwm"));
    let allowed = access(allowed);
    if let Some(name) = device.strip_prefix("char-") {
        return of_drivers(CHARACTER, name, allowed, registered);
    }
    if let Some(name) = device.strip_prefix("block-") {
        return of_drivers(BLOCK, name, allowed, registered);
    }
    let Ok(node) = fs::metadata(device) else { return Vec::new() };
    let kind = match node.file_type() {
        kind if kind.is_char_device() => CHARACTER,
        kind if kind.is_block_device() => BLOCK,
        _ => return Vec::new(),
    };
    let number = |number: u64| u32::try_from(number).ok();
    vec![(kind, number(major(node.rdev())), number(minor(node.rdev())), allowed)]
}

/// Of all drivers with such a name in `/proc/devices`.
fn of_drivers(kind: u32, pattern: &str, allowed: u32, registered: &str) -> Vec<Rule> {
    let title = if kind == BLOCK { "Block devices:" } else { "Character devices:" };
    let lines = registered.lines().skip_while(|line| *line != title).skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let drivers = lines.filter_map(|line| line.trim_start().split_once(' '));
    let fitting = drivers.filter(|(_, name)| fnmatch::matches(pattern, name));
    fitting.filter_map(|(number, _)| Some((kind, Some(number.parse().ok()?), None, allowed))).collect()
}

#[cfg(test)]
mod tests {
    use kelson_sys::device_program::{MAKE, READ, WRITE};

    use super::*;

    const REGISTERED: &str = "Character devices:\n  1 mem\n  5 /dev/tty\n136 pts\n250 rtc0\n251 rtc1\n\nBlock devices:\n  8 sd\n250 rtc\n";

    #[test]
    fn devices_are_found_by_their_path_or_their_driver() {
        let all = READ | WRITE | MAKE;
        assert_eq!(found("/dev/null", ""), [(CHARACTER, Some(1), Some(3), all)]);
        assert_eq!(found("/dev/null:r", ""), [(CHARACTER, Some(1), Some(3), READ)]);
        assert_eq!(found("/dev/no-such", ""), []);
        assert_eq!(found("/dev", ""), []);
        assert_eq!(found("char-pts:rw", REGISTERED), [(CHARACTER, Some(136), None, READ | WRITE)]);
        let rtc = |number| (CHARACTER, Some(number), None, READ);
        assert_eq!(found("char-rtc*:r", REGISTERED), [rtc(250), rtc(251)]);
        assert_eq!(found("block-sd", REGISTERED), [(BLOCK, Some(8), None, all)]);
        assert_eq!(found("block-rtc0", REGISTERED), []);
        assert!(make(&["network:".to_owned()]).unwrap().is_none());
    }
}
