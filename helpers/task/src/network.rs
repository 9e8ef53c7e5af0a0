//! The calls of the network phase: interfaces up, addresses, routes, and the file of name servers.

use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_devices::modules;
use kelson_net::links::{LinkError, Outcome, settle};
use kelson_spec::network::InterfaceSpec;
use kelson_sys::netlink;
use kelson_sys::ordered;
use kelson_sys::text::first_of_many;
use nix::mount::{MsFlags, mount};

use crate::news::{self, INTERFACES};

const RESOLVER: &str = "/etc/resolv.conf";

pub fn set_up_loopback() -> Result<String, String> {
    let index = netlink::index_of("lo").ok_or("there is no loopback interface")?;
    netlink::set_up(index).map_err(|error| error.to_string())?;
    Ok(String::new())
}

/// Sets up these interfaces, and waits for those that are not there yet.
pub fn set_up(interfaces: &[InterfaceSpec], patience: Duration) -> Result<String, String> {
    let mut last: io::Result<Vec<Outcome>> = Ok(Vec::new());
    let load = |module: &str| modules::load(&[module.to_owned()]).map(drop);
    let is_absent = |outcome: &Outcome| outcome.errors.iter().any(LinkError::is_absence);
    let all_there = news::wait(INTERFACES, patience, || {
        last = settle(interfaces, &|_| true, &load);
        let waits = last.as_ref().is_ok_and(|outcomes| outcomes.iter().any(is_absent));
        if waits { Err(()) } else { Ok(()) }
    });
    let outcomes = last.map_err(|error| format!("the kernel does not tell of interfaces: {error}"))?;
    let errors = outcomes.iter().flat_map(|outcome| {
        outcome.errors.iter().map(|error| match error {
            // It names the interface itself.
            LinkError::Missing(_) => error.to_string(),
            error => format!("{}: {error}", outcome.name),
        })
    });
    let errors: Vec<String> = errors.collect();
    if errors.is_empty() {
        let texts = outcomes.iter().map(|outcome| outcome.has.as_str()).filter(|has| !has.is_empty());
        return Ok(first_of_many(texts.collect::<Vec<_>>().into_iter(), "; "));
    }
    let hint = match all_there {
        Ok(()) => String::new(),
        Err(()) => format!(
            ", after {} s (there are: {}); is a driver missing among the modules of machine.yaml?",
            patience.as_secs(),
            names().join(", ")
        ),
    };
    Err(format!("{}{hint}", first_of_many(errors.iter(), "; ")))
}

/// The names of all interfaces, sorted.
fn names() -> Vec<String> {
    let folder = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = folder.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    ordered::sort(&mut names);
    names
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
    use kelson_spec::network::Matches;

    #[test]
    fn a_card_that_never_comes_is_said() {
        let spec = InterfaceSpec {
            addresses: vec!["10.0.0.1/24".parse().unwrap()],
            ..InterfaceSpec::new(Matches::Name("nope0".to_owned()))
        };
        let error = set_up(&[spec], Duration::from_millis(1)).unwrap_err();
        assert!(error.starts_with("nope0 is not there, after 0 s (there are: "), "{error}");
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
