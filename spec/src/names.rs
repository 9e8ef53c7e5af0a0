//! Names of services, users and files.

/// The built-in service that every container waits for.
pub const CONTAINERD: &str = "containerd";

/// The user of the process of kelson-apid that reads what the network sends; no service may have it. It has no name: an
/// image need not know it. Debian reserves the numbers above 65,000 for nobody.
pub const APID_USER: u32 = 65_432;
/// The user of kelson-net, likewise: its folder holds the name servers of the host.
pub const NET_USER: u32 = 65_433;
/// The user of kelson-pull, likewise: its folder holds the images that were pulled.
pub const PULL_USER: u32 = 65_434;

/// `PATH` of every service that does not set its own.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The machine file in the configuration folder.
pub const MACHINE: &str = "machine.yaml";

/// The folder of the files of services in the configuration folder.
pub const SERVICES: &str = "services";

/// The folder of the files of groups in the configuration folder.
pub const GROUPS: &str = "groups";

/// The folder of the files of volumes in the configuration folder.
pub const VOLUMES: &str = "volumes";

/// The folders of files of other programs in the configuration folder: units of systemd, projects of Docker Compose, files of
/// Talos.
pub const UNITS: &str = "units";
pub const COMPOSE: &str = "compose";
pub const TALOS: &str = "talos";
pub const OF_OTHER_PROGRAMS: [&str; 3] = [UNITS, COMPOSE, TALOS];

/// The names that the file of a project of Docker Compose may have, the first that is there counts; and the one of its
/// variables.
pub const COMPOSE_FILES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];
pub const COMPOSE_VARIABLES: &str = ".env";

/// The folder of the cgroups in which the shims of containers are, one of a service each.
pub const SHIMS: &str = "shims";

/// The longest name of a service, a group or a check, in characters.
pub const LONGEST_NAME: usize = 63;

/// Whether it may be the name of a service, a group or a check: `[a-z0-9][a-z0-9-]{0,62}`.
pub fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Whether it names a point of the order of starts, such as `network.target`: a name that no file defines, and that services
/// come before or after.
pub fn is_point(name: &str) -> bool {
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    name.len() <= 255
        && name.strip_suffix(".target").is_some_and(|stem| !stem.is_empty() && stem.bytes().all(sound))
}

/// The longest host name that the kernel takes, in characters.
pub const LONGEST_HOSTNAME: usize = 64;

/// Whether it can be the name of this host.
pub fn is_hostname(name: &str) -> bool {
    name.len() <= LONGEST_HOSTNAME && is_host_name(name, LONGEST_HOSTNAME, b"")
}

/// Whether a host may take this name from a server: it can be its name, and tells it from others.
pub fn is_given_hostname(name: &str) -> bool {
    is_hostname(name) && name != "localhost"
}

/// Whether each part of a name between dots is of letters, digits and what `also` allows, no `-` at its ends, and within `most`.
pub fn is_host_name(name: &str, most: usize, also: &[u8]) -> bool {
    name.split('.').all(|label| {
        (1..=most).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || also.contains(&b))
    })
}

/// What hosts(5) says of a host of this name: its name, and the first part of it, stand for the host itself.
pub fn hosts_file(name: &str) -> String {
    let short = name.split('.').next().filter(|short| *short != name);
    let short = short.map(|short| format!(" {short}")).unwrap_or_default();
    format!(
        "# Written by Kelson. It leaves a file /etc/hosts alone that is there before its first boot.\n\
         127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {name}{short}\n"
    )
}

/// The service whose cgroup this is, by its path below that of all services. A service may have cgroups below its own:
/// leaves for its processes, and those that it made itself.
pub fn service_of_cgroup(below: &str) -> Option<&str> {
    let mut parts = below.split('/');
    let first = match parts.next() {
        Some(SHIMS) => parts.next()?,
        first => first?,
    };
    // Those of Kelson's own processes begin with `_`; no service's name does.
    (!first.is_empty() && !first.starts_with('_')).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_of_a_host_is_taken() {
        for name in ["edge-1", "edge-1.example.com", "7"] {
            assert!(is_given_hostname(name), "{name}");
        }
        for name in ["", "localhost", "a_b", "-a", "a-", "a..b", "a b", "a\nb", &"a".repeat(65)] {
            assert!(!is_given_hostname(name), "{name:?}");
        }
    }

    #[test]
    fn a_host_is_known_by_its_name_and_the_first_part_of_it() {
        assert!(hosts_file("edge-1.example.com").ends_with("\n127.0.1.1 edge-1.example.com edge-1\n"));
        assert!(hosts_file("edge-1").ends_with("\n127.0.1.1 edge-1\n"));
    }

    #[test]
    fn a_cgroup_is_of_one_service_or_of_none() {
        let of = ["web", "web/main", "web/exec/deep", "shims/web", "shims", "_init", "_unpack-1/x", ""];
        let services = of.map(service_of_cgroup);
        let web = Some("web");
        assert_eq!(services, [web, web, web, web, None, None, None, None]);
    }
}
