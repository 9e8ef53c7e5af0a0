//! The system calls of Linux by their names, and the groups that systemd puts them in.

/// A line for each: its name, its numbers and its groups.
const TABLE: &str = include_str!("calls.txt");

/// The newest call of the table: the numbers from 424 on are the same on every architecture.
pub const NEWEST: u32 = 467;

#[cfg(target_arch = "x86_64")]
const COLUMN: usize = 0;
#[cfg(target_arch = "aarch64")]
const COLUMN: usize = 1;

/// One system call.
struct Call {
    name: &'static str,
    numbers: [Option<u32>; 2],
    groups: &'static str,
}

fn calls() -> impl Iterator<Item = Call> {
    TABLE.lines().filter_map(|line| {
        let mut words = line.splitn(4, ' ');
        let name = words.next().filter(|name| *name != "#")?;
        let mut number = || words.next()?.parse().ok();
        let numbers = [number(), number()];
        Some(Call { name, numbers, groups: words.next().unwrap_or_default() })
    })
}

impl Call {
    /// Whether a name stands for it, or for a group that has it.
    fn is_in(&self, name: &str) -> bool {
        match name.strip_prefix('@') {
            Some(group) => self.groups.split(' ').any(|known| known == group),
            None => self.name == name,
        }
    }
}

/// Whether it is a call of some architecture, or a group (`@system-service`).
pub fn is_known(name: &str) -> bool {
    calls().any(|call| call.is_in(name))
}

/// The calls that a name stands for: those of a group.
pub fn members(name: &str) -> impl Iterator<Item = &'static str> {
    calls().filter(move |call| call.is_in(name)).map(|call| call.name)
}

/// The call or the group that somebody meant by a name that is none.
pub fn near(name: &str) -> Option<String> {
    match name.strip_prefix('@') {
        Some(group) => {
            let groups = calls().flat_map(|call| call.groups.split(' '));
            kelson_spec::near::near(group, groups).map(|group| format!("@{group}"))
        }
        None => kelson_spec::near::near(name, calls().map(|call| call.name)).map(str::to_owned),
    }
}

/// The numbers, on this architecture, of the calls that these names stand for.
pub fn numbers<'a>(names: impl Iterator<Item = &'a str> + Clone) -> impl Iterator<Item = u32> {
    let meant = calls().filter(move |call| names.clone().any(|name| call.is_in(name)));
    meant.filter_map(|call| call.numbers.get(COLUMN).copied().flatten())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::process::Command;

    use super::*;

    fn of(name: &str) -> Vec<u32> {
        numbers([name].into_iter()).collect()
    }

    #[test]
    fn names_have_the_numbers_of_this_machine() {
        let number = |call| u32::try_from(call).unwrap();
        for (name, call) in [
            ("read", libc::SYS_read),
            ("openat", libc::SYS_openat),
            ("clone3", libc::SYS_clone3),
            ("init_module", libc::SYS_init_module),
            ("getrlimit", libc::SYS_getrlimit),
            ("landlock_restrict_self", libc::SYS_landlock_restrict_self),
        ] {
            assert_eq!(of(name), [number(call)], "{name}");
        }
        assert_eq!(of("open_tree_attr"), [NEWEST]);
        assert!(is_known("@clock") && !is_known("@nothing") && !is_known("reed") && !is_known("#"));
        assert!(of("@system-service").len() > 200);
        let mut seen = BTreeSet::new();
        for call in calls() {
            assert!(seen.insert(call.name), "{} has two lines", call.name);
            assert!(call.numbers.iter().flatten().all(|number| *number <= NEWEST), "{}", call.name);
        }
    }

    /// Compares the groups with those of systemd 252, where that is installed.
    #[test]
    fn groups_are_those_of_systemd() {
        let done = Command::new("systemd-analyze").arg("syscall-filter").output();
        let version = Command::new("systemd-analyze").arg("--version").output();
        let (Ok(done), Ok(version)) = (done, version) else { return };
        if !version.stdout.starts_with(b"systemd 252 ") {
            return;
        }
        let text = String::from_utf8(done.stdout).unwrap();
        let mut groups = BTreeMap::<&str, BTreeSet<&str>>::new();
        let mut group = "";
        for line in text.lines() {
            match line.strip_prefix("    ") {
                Some(name) if !name.starts_with('#') => drop(groups.entry(group).or_default().insert(name)),
                Some(_) => {}
                None => group = line,
            }
        }
        let has = |group: &str, call: &str| {
            let mut left = vec![group];
            while let Some(group) = left.pop() {
                let Some(names) = groups.get(group) else { continue };
                if names.contains(call) {
                    return true;
                }
                left.extend(names.iter().copied().filter(|name| name.starts_with('@')));
            }
            false
        };
        let known = groups.keys().filter(|group| group.starts_with('@') && **group != "@known");
        for group in known {
            for call in calls() {
                assert_eq!(call.is_in(group), has(group, call.name), "{} in {group}", call.name);
            }
        }
    }
}
