//! The network: the loopback, one or more interfaces with a static address, and who answers names.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_spec::machine::InterfaceSpec;
use nix::mount::{MsFlags, mount};

use super::{Order, Phase, Task, TaskFailure};
use crate::kernel_words::IpWord;
use crate::netlink;

/// How long an interface may take to appear: a driver is loaded, the card is not found yet.
const APPEAR: Duration = Duration::from_secs(5);

/// One interface to set up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    /// `None`: the first network card.
    interface: Option<String>,
    address: IpAddr,
    prefix: u8,
    gateway: Option<IpAddr>,
}

/// The network phase. An interface of the machine file wins over an `ip=` for the same one.
pub fn phase(configured: &[InterfaceSpec], from_kernel: &[IpWord], runtime: &Path) -> Phase {
    let wanted = wanted(configured, from_kernel);
    let dns = name_servers(configured, from_kernel);
    let resolver = runtime.join("resolv.conf");
    Phase::new("network", Order::SideBySide)
        .task(Task::call("loopback", loopback))
        .tasks(wanted.into_iter().map(|wanted| {
            let name = wanted.interface.clone().unwrap_or_else(|| "first network card".to_owned());
            // The wait for the card has its own bound and its own words.
            Task::new(name, bring_up(wanted)).within(APPEAR.saturating_mul(2))
        }))
        .task(Task::call("name servers", move || {
            write_resolver(&dns, &resolver, Path::new("/etc/resolv.conf"))
        }))
}

fn wanted(configured: &[InterfaceSpec], from_kernel: &[IpWord]) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = configured
        .iter()
        .map(|spec| Wanted {
            interface: Some(spec.interface.clone()),
            address: spec.address,
            prefix: spec.prefix,
            gateway: spec.gateway,
        })
        .collect();
    for word in from_kernel {
        let taken = match &word.device {
            Some(device) => configured.iter().any(|spec| spec.interface == *device),
            None => !configured.is_empty(),
        };
        if !taken {
            all.push(Wanted {
                interface: word.device.clone(),
                address: word.address,
                prefix: word.prefix,
                gateway: word.gateway,
            });
        }
    }
    all
}

/// The name servers of the machine file, else those of `ip=`; each once.
fn name_servers(configured: &[InterfaceSpec], from_kernel: &[IpWord]) -> Vec<IpAddr> {
    let mut servers: Vec<IpAddr> = Vec::new();
    let configured = configured.iter().flat_map(|spec| spec.dns.iter());
    for server in configured.chain(from_kernel.iter().flat_map(|word| word.dns.iter())) {
        if !servers.contains(server) {
            servers.push(*server);
        }
    }
    servers
}

fn loopback() -> Result<String, TaskFailure> {
    let index = netlink::index_of("lo").ok_or("there is no loopback interface")?;
    netlink::set_up(index)?;
    Ok(String::new())
}

async fn bring_up(wanted: Wanted) -> Result<String, TaskFailure> {
    let appear = netlink::appear(wanted.interface.as_deref());
    let Ok(found) = tokio::time::timeout(APPEAR, appear).await else {
        let name = wanted.interface.as_deref().unwrap_or("network card");
        return Err(format!(
            "no {name} has come within {} s (there are: {}); is its driver among the modules of machine.yaml?",
            APPEAR.as_secs(),
            netlink::names().join(", ")
        )
        .into());
    };
    let (name, index) = found?;
    let address = format!("{}/{}", wanted.address, wanted.prefix);
    netlink::set_up(index).map_err(|error| format!("{name}: taking it up: {error}"))?;
    netlink::add_address(index, wanted.address, wanted.prefix)
        .map_err(|error| format!("{name}: address {address}: {error}"))?;
    match wanted.gateway {
        Some(gateway) => {
            netlink::set_default_route(index, gateway)
                .map_err(|error| format!("{name}: default route by {gateway}: {error}"))?;
            Ok(format!("{name} has {address}, default route by {gateway}"))
        }
        None => Ok(format!("{name} has {address}")),
    }
}

/// Writes `resolver` and makes `public` (`/etc/resolv.conf`) lead to it: as a link where the root can be written,
/// laid over the file where not. Somebody's link to a place of their own is left alone.
fn write_resolver(servers: &[IpAddr], resolver: &Path, public: &Path) -> Result<String, TaskFailure> {
    if servers.is_empty() {
        return Ok("none are named".to_owned());
    }
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

    fn spec(interface: &str, address: &str, dns: &[&str]) -> InterfaceSpec {
        InterfaceSpec {
            interface: interface.to_owned(),
            address: address.parse().unwrap(),
            prefix: 24,
            gateway: None,
            dns: dns.iter().map(|server| server.parse().unwrap()).collect(),
        }
    }

    fn word(device: Option<&str>, address: &str) -> IpWord {
        IpWord {
            address: address.parse().unwrap(),
            prefix: 24,
            gateway: None,
            hostname: None,
            device: device.map(str::to_owned),
            dns: vec!["1.1.1.1".parse().unwrap()],
        }
    }

    #[test]
    fn the_machine_file_wins_over_the_kernel_command_line() {
        let names = |all: Vec<Wanted>| all.into_iter().map(|one| one.address.to_string()).collect::<Vec<_>>();
        let configured = [spec("eth0", "10.0.0.1", &[])];
        assert_eq!(names(wanted(&configured, &[word(Some("eth0"), "10.0.0.9")])), ["10.0.0.1"]);
        assert_eq!(names(wanted(&configured, &[word(None, "10.0.0.9")])), ["10.0.0.1"]);
        assert_eq!(names(wanted(&configured, &[word(Some("eth1"), "10.0.0.9")])), ["10.0.0.1", "10.0.0.9"]);
        assert_eq!(names(wanted(&[], &[word(None, "10.0.0.9")])), ["10.0.0.9"]);
    }

    #[test]
    fn name_servers_are_named_once() {
        let configured =
            [spec("a", "10.0.0.1", &["9.9.9.9", "1.1.1.1"]), spec("b", "10.0.0.2", &["9.9.9.9"])];
        assert_eq!(name_servers(&configured, &[word(None, "10.0.0.9")]).len(), 2);
    }

    #[test]
    fn the_public_file_becomes_a_link_but_a_strangers_link_is_left() {
        let folder = std::env::temp_dir().join(format!("kelson-resolver-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (resolver, public, other) =
            (folder.join("resolv.conf"), folder.join("etc-resolv.conf"), folder.join("other"));
        std::fs::write(&public, "nameserver 8.8.8.8\n").unwrap();
        let servers = ["10.0.2.3".parse().unwrap()];
        write_resolver(&servers, &resolver, &public).unwrap();
        write_resolver(&servers, &resolver, &public).unwrap();
        assert!(std::fs::read_to_string(&public).unwrap().contains("nameserver 10.0.2.3"));
        std::fs::write(&other, "").unwrap();
        std::fs::remove_file(&public).unwrap();
        std::os::unix::fs::symlink(&other, &public).unwrap();
        assert!(write_resolver(&servers, &resolver, &public).unwrap().contains("left alone"));
        assert_eq!(std::fs::read_link(&public).unwrap(), other);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_card_that_never_comes_is_said() {
        let wanted = wanted(&[spec("nope0", "10.0.0.1", &[])], &[]).remove(0);
        let error = bring_up(wanted).await.unwrap_err();
        assert!(error.message.starts_with("no nope0 has come within 5 s"), "{error:?}");
    }
}
