//! Kernel parameters: files of `/proc/sys`.

use std::path::PathBuf;

/// Sets all of them, in their order, and names those that could not be set.
pub fn set(settings: &[(String, String)]) -> Result<String, String> {
    let mut failures = Vec::new();
    for (key, value) in settings {
        if let Err(error) = std::fs::write(path_of(key), value) {
            failures.push(format!("{key} = {value}: {error}"));
        }
    }
    if failures.is_empty() { Ok(format!("{} set", settings.len())) } else { Err(failures.join("; ")) }
}

/// `net.ipv4.conf.eth0/1.x` → `/proc/sys/net/ipv4/conf/eth0.1/x`: as sysctl(8), a dot parts and a slash is a dot;
/// but where the first separator is a slash, it is a path as it stands.
fn path_of(key: &str) -> PathBuf {
    let slashes_part =
        key.find(['.', '/']).is_some_and(|at| key.get(at..).is_some_and(|rest| rest.starts_with('/')));
    let path: String = if slashes_part {
        key.to_owned()
    } else {
        let turned = |c| match c {
            '.' => '/',
            '/' => '.',
            c => c,
        };
        key.chars().map(turned).collect()
    };
    // Nothing above /proc/sys, whatever is written.
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    PathBuf::from("/proc/sys").join(parts.collect::<PathBuf>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_paths() {
        let path = |key| path_of(key).to_str().unwrap().to_owned();
        assert_eq!(path("net.ipv4.ip_forward"), "/proc/sys/net/ipv4/ip_forward");
        assert_eq!(path("net.ipv4.conf.eth0/1.forwarding"), "/proc/sys/net/ipv4/conf/eth0.1/forwarding");
        assert_eq!(path("net/ipv4/conf/eth0.1/forwarding"), "/proc/sys/net/ipv4/conf/eth0.1/forwarding");
        assert_eq!(path("net/../../etc/passwd"), "/proc/sys/net/etc/passwd");
        assert_eq!(path(".././x"), "/proc/sys/.x");
    }

    #[test]
    fn one_that_fails_is_named_and_keeps_none_from_being_set() {
        let settings = ["no.such.parameter", "no.other"].map(|key| (key.to_owned(), "1".to_owned()));
        let error = set(&settings).unwrap_err();
        assert!(error.contains("no.such.parameter = 1: ") && error.contains("; no.other = 1: "), "{error}");
        assert_eq!(set(&[]).unwrap(), "0 set");
    }
}
