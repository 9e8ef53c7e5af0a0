//! The calls of the network phase: interfaces up, addresses, routes, and the file of name servers.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_helper::task::Prefixed;
use kelson_sys::netlink;
use nix::mount::{MsFlags, mount};

use crate::news::{self, INTERFACES};

const RESOLVER: &str = "/etc/resolv.conf";

pub fn set_up_loopback() -> Result<String, String> {
    let index = netlink::index_of("lo").ok_or("there is no loopback interface")?;
    netlink::set_up(index).map_err(|error| error.to_string())?;
    Ok(String::new())
}

/// Waits for an interface, takes it up and gives it its address and the default route. Without a name it is the first
/// network card.
pub fn set_up(
    name: &str,
    patience: Duration,
    Prefixed(address, prefix): Prefixed,
    gateway: Option<IpAddr>,
) -> Result<String, String> {
    let find = || match name {
        "" => first_card(),
        name => netlink::index_of(name).map(|index| (index, name.to_owned())),
    };
    let (index, name) = news::wait(INTERFACES, patience, find).ok_or_else(|| {
        format!(
            "no {} has come within {} s (there are: {}); is its driver among the modules of machine.yaml?",
            if name.is_empty() { "network card" } else { name },
            patience.as_secs(),
            names().join(", ")
        )
    })?;
    netlink::set_up(index).map_err(|error| format!("{name}: taking it up: {error}"))?;
    netlink::add_address(index, address, prefix)
        .map_err(|error| format!("{name}: address {address}/{prefix}: {error}"))?;
    let Some(gateway) = gateway else { return Ok(format!("{name} has {address}/{prefix}")) };
    netlink::set_default_route(index, gateway)
        .map_err(|error| format!("{name}: default route by {gateway}: {error}"))?;
    Ok(format!("{name} has {address}/{prefix}, default route by {gateway}"))
}

/// The names of all interfaces, sorted.
fn names() -> Vec<String> {
    let folder = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = folder.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The network card that came first: the lowest number of those that are Ethernet and belong to a device.
fn first_card() -> Option<(u32, String)> {
    let is_card = |name: &String| {
        let folder = Path::new("/sys/class/net").join(name);
        let kind = std::fs::read_to_string(folder.join("type")).unwrap_or_default();
        kind.trim() == "1" && folder.join("device").exists()
    };
    let cards = names().into_iter().filter(is_card);
    cards.filter_map(|name| netlink::index_of(&name).map(|index| (index, name))).min()
}

/// Writes the file `resolver` and makes `/etc/resolv.conf` lead to it.
pub fn write_resolver(servers: &[IpAddr], resolver: &Path) -> Result<String, String> {
    write_public(servers, resolver, Path::new(RESOLVER))
}

/// `public` becomes a link to `resolver` where the root can be written; where not, `resolver` is mounted over it. A link
/// to another file that exists stays as it is.
fn write_public(servers: &[IpAddr], resolver: &Path, public: &Path) -> Result<String, String> {
    let mut text = String::from("# Written by Kelson from machine.yaml or the kernel's command line.\n");
    for server in servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    std::fs::write(resolver, text).map_err(|error| format!("{}: {error}", resolver.display()))?;
    match std::fs::read_link(public) {
        Ok(link) if link == resolver => return Ok(format!("{} named", servers.len())),
        Ok(link) if public.exists() => {
            return Ok(format!("{} leads to {}; left alone", public.display(), link.display()));
        }
        _ => {}
    }
    let temporary: PathBuf = public.with_extension("conf.new");
    let linked =
        std::os::unix::fs::symlink(resolver, &temporary).and_then(|()| std::fs::rename(&temporary, public));
    if let Err(error) = linked {
        mount(Some(resolver), public, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(|errno| {
            format!("{}: {error}; laying one over it: {}", public.display(), errno.desc())
        })?;
    }
    Ok(format!("{} named", servers.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_never_comes_is_said() {
        let address = Prefixed("10.0.0.1".parse().unwrap(), 24);
        let error = set_up("nope0", Duration::from_millis(1), address, None).unwrap_err();
        assert!(error.starts_with("no nope0 has come within 0 s (there are: "), "{error}");
        assert!(names().contains(&"lo".to_owned()));
    }

    #[test]
    fn the_public_file_becomes_a_link_but_a_strangers_link_is_left() {
        let folder = std::env::temp_dir().join(format!("kelson-resolver-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (resolver, public, other) =
            (folder.join("resolv.conf"), folder.join("etc-resolv.conf"), folder.join("other"));
        std::fs::write(&public, "nameserver 8.8.8.8\n").unwrap();
        let servers = ["10.0.2.3".parse().unwrap()];
        write_public(&servers, &resolver, &public).unwrap();
        write_public(&servers, &resolver, &public).unwrap();
        assert!(std::fs::read_to_string(&public).unwrap().contains("nameserver 10.0.2.3"));
        std::fs::write(&other, "").unwrap();
        std::fs::remove_file(&public).unwrap();
        std::os::unix::fs::symlink(&other, &public).unwrap();
        assert!(write_public(&servers, &resolver, &public).unwrap().contains("left alone"));
        assert_eq!(std::fs::read_link(&public).unwrap(), other);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
