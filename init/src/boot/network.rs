//! The network: the loopback, interfaces with a static address, and the name servers. PID 1 waits for an interface to
//! appear; `kelson-task` makes the calls that may wait for a driver or a disk.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::task::Prefixed;
use kelson_spec::machine::InterfaceSpec;

use super::interface::{appear, names};
use super::{Order, Phase, Task, TaskFailure};
use crate::kernel_words::IpWord;
use kelson_helper::Launcher;

use crate::task::{self, Request};

/// How long an interface may take to appear: a driver is loaded, the card is not found yet.
const APPEAR: Duration = Duration::from_secs(5);
/// How long an interface may take to come up: its driver may load firmware from the disk.
const SET_UP: Duration = Duration::from_secs(30);
/// How long the disk may take to keep the name servers.
const RESOLVER: Duration = Duration::from_secs(10);

/// One interface to set up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    /// `None`: the first network card.
    interface: Option<String>,
    address: Prefixed,
    gateway: Option<IpAddr>,
}

/// The network phase. An interface of the machine file wins over an `ip=` for the same one.
pub fn phase(
    launcher: &Arc<dyn Launcher>,
    configured: &[InterfaceSpec],
    from_kernel: &[IpWord],
    runtime: &Path,
) -> Phase {
    let interfaces = wanted(configured, from_kernel).into_iter().map(|wanted| {
        let name = wanted.interface.clone().unwrap_or_else(|| "first network card".to_owned());
        // The wait for the card and its setup have their own bounds and their own words.
        let longest = APPEAR.saturating_add(SET_UP).saturating_mul(2);
        Task::new(name, bring_up(Arc::clone(launcher), wanted)).within(longest)
    });
    Phase::new("network", Order::SideBySide)
        .task(Task::request("loopback", launcher, Request::SetUpLoopback, SET_UP))
        .tasks(interfaces)
        .task(resolver(launcher, name_servers(configured, from_kernel), runtime))
}

fn resolver(launcher: &Arc<dyn Launcher>, servers: Vec<IpAddr>, runtime: &Path) -> Task {
    let name = "name servers";
    if servers.is_empty() {
        return Task::call(name, || Ok("none are named".to_owned()));
    }
    let request = Request::WriteResolver { resolver: runtime.join("resolv.conf"), servers };
    Task::request(name, launcher, request, RESOLVER)
}

fn wanted(configured: &[InterfaceSpec], from_kernel: &[IpWord]) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = configured
        .iter()
        .map(|spec| Wanted {
            interface: Some(spec.interface.clone()),
            address: Prefixed(spec.address, spec.prefix),
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
                address: Prefixed(word.address, word.prefix),
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

async fn bring_up(launcher: Arc<dyn Launcher>, wanted: Wanted) -> Result<String, TaskFailure> {
    let appear = appear(wanted.interface.as_deref());
    let Ok(found) = tokio::time::timeout(APPEAR, appear).await else {
        let name = wanted.interface.as_deref().unwrap_or("network card");
        return Err(format!(
            "no {name} has come within {} s (there are: {}); is its driver among the modules of machine.yaml?",
            APPEAR.as_secs(),
            names().join(", ")
        )
        .into());
    };
    let (name, index) = found?;
    let Wanted { address, gateway, .. } = wanted;
    let request = Request::SetUpInterface { name, index, address, gateway };
    Ok(task::run(launcher.as_ref(), &request, SET_UP).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::Scripted;

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
        let names =
            |all: Vec<Wanted>| all.into_iter().map(|one| one.address.0.to_string()).collect::<Vec<_>>();
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

    #[tokio::test(start_paused = true)]
    async fn a_card_that_never_comes_is_said() {
        let wanted = wanted(&[spec("nope0", "10.0.0.1", &[])], &[]).remove(0);
        let launcher = Arc::new(Scripted::new(|_| None));
        let error = bring_up(launcher.clone(), wanted).await.unwrap_err();
        assert!(error.message.starts_with("no nope0 has come within 5 s"), "{error:?}");
        assert!(launcher.1.lock().unwrap().is_empty());
    }
}
