//! The network, as far as a service may wait for it: addresses, connectivity, a hostname.
//!
//! Addresses and routes come from one rtnetlink socket, which exists while a condition wants one of them: all is asked
//! for once, then followed. The hostname is not in netlink; the kernel tells of its changes to those who poll
//! `/proc/sys/kernel/hostname`.

mod hostname;
mod rtnetlink;
mod tables;

use std::sync::Arc;

use kelson_spec::service::NetworkAspect;
use tokio::sync::watch;

use self::tables::Levels;
use crate::compose::All;
use crate::condition::{BoxFuture, Condition, Level, changed};
use crate::missing::{Missing, Subject};
use crate::on_demand::OnDemand;

/// The network of the host. Cheap to clone; clones share their tasks.
#[derive(Clone, Default)]
pub struct Network {
    /// `None`: nobody has looked yet.
    levels: Arc<OnDemand<Option<Levels>>>,
    hostname: Arc<OnDemand<Option<bool>>>,
    /// Kelson's own bridge of containers.
    bridge: Option<Arc<str>>,
}

impl Network {
    /// A network in which the addresses of this bridge do not count: they lead to containers of the host alone.
    pub fn beside(bridge: &str) -> Network {
        Network { bridge: Some(Arc::from(bridge)), ..Network::default() }
    }

    /// Holds while this aspect of the network does.
    pub fn condition(&self, aspect: &NetworkAspect) -> NetworkCondition {
        let source = match aspect {
            NetworkAspect::Addresses | NetworkAspect::Connectivity | NetworkAspect::Interface(_) => {
                let follow = |levels| rtnetlink::follow(levels, self.bridge.clone());
                Source::Levels(self.levels.subscribe(follow))
            }
            NetworkAspect::Hostname => Source::Hostname(self.hostname.subscribe(hostname::follow)),
        };
        NetworkCondition { subject: Subject::of_network(aspect), source }
    }

    /// Holds while an interface of this name is up and can carry packets.
    pub fn interface(&self, name: &str) -> NetworkCondition {
        self.condition(&NetworkAspect::Interface(name.to_owned()))
    }

    /// Holds while all of these aspects do.
    pub fn all(&self, aspects: &[NetworkAspect]) -> All {
        All::new(
            aspects.iter().map(|aspect| Box::new(self.condition(aspect)) as Box<dyn Condition>).collect(),
        )
    }
}

/// Holds while one aspect of the network does, or an interface is up.
pub struct NetworkCondition {
    /// That aspect, or the interface.
    subject: Subject,
    source: Source,
}

enum Source {
    Levels(watch::Receiver<Option<Levels>>),
    Hostname(watch::Receiver<Option<bool>>),
}

impl Condition for NetworkCondition {
    fn level(&self) -> Level {
        let answer = match &self.source {
            Source::Hostname(set) => *set.borrow(),
            Source::Levels(levels) => levels.borrow().as_ref().map(|levels| match &self.subject {
                Subject::Interface(name) => levels.running.contains(name),
                Subject::Network(NetworkAspect::Connectivity) => levels.connectivity,
                _ => levels.addresses,
            }),
        };
        answer.into()
    }

    fn missing(&self) -> Vec<Missing> {
        if self.holds() { Vec::new() } else { vec![self.subject.clone().into()] }
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        match &mut self.source {
            Source::Levels(levels) => changed(levels),
            Source::Hostname(set) => changed(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::missing::sentence;

    /// Runs a test in a network and UTS namespace of its own, on a thread that is gone afterwards.
    fn in_new_namespaces<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
        let thread = std::thread::spawn(move || {
            // SAFETY: unshare changes this thread alone.
            let done = unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWUTS) };
            assert_eq!(done, 0, "needs root: {}", std::io::Error::last_os_error());
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(test());
        });
        thread.join().expect("the test's thread");
    }

    fn ip(arguments: &str) {
        let done = Command::new("ip").args(arguments.split(' ')).status().expect("ip is installed");
        assert!(done.success(), "ip {arguments}");
    }

    /// A pair of interfaces, each the other's cable; `two` is up, `one` is left to the test.
    fn make_link() {
        ip("link add one type veth peer name two");
        ip("link set two up");
    }

    async fn becomes(condition: &mut NetworkCondition, holds: bool) {
        let reached = timeout(Duration::from_secs(10), async {
            while condition.holds() != holds {
                condition.changed().await;
            }
        });
        reached.await.unwrap_or_else(|_| panic!("{:?} is not {holds}", condition.subject));
    }

    #[test]
    fn follows_a_real_network() {
        in_new_namespaces(|| async {
            let network = Network::default();
            assert!(!network.levels.is_running());
            let mut addresses = network.condition(&NetworkAspect::Addresses);
            let mut connectivity = network.condition(&NetworkAspect::Connectivity);
            let mut one = network.interface("one");
            assert_eq!(sentence(&one.missing()), "interface one to be up");
            assert_eq!(addresses.missing(), [Subject::Network(NetworkAspect::Addresses).into()]);
            ip("link set lo up");
            make_link();
            ip("address add 10.1.2.3/24 dev one");
            ip("link set one up");
            becomes(&mut addresses, true).await;
            assert!(one.holds());
            assert_eq!(connectivity.missing(), [Subject::Network(NetworkAspect::Connectivity).into()]);
            ip("route add default via 10.1.2.1");
            becomes(&mut connectivity, true).await;

            // The cable is pulled.
            ip("link set two down");
            becomes(&mut addresses, false).await;
            becomes(&mut connectivity, false).await;
            becomes(&mut one, false).await;
            ip("link set two up");
            becomes(&mut one, true).await;
            becomes(&mut addresses, true).await;
            becomes(&mut connectivity, true).await;

            // The kernel removes the route without a message.
            ip("link set one down");
            becomes(&mut connectivity, false).await;
            becomes(&mut addresses, false).await;
            ip("link set one up");
            becomes(&mut addresses, true).await;
            assert!(!connectivity.holds());

            ip("route add default via 10.1.2.1");
            becomes(&mut connectivity, true).await;
            ip("route add default via 10.1.2.2 metric 7");
            ip("route del default via 10.1.2.1");
            ip("route del default via 10.1.2.2");
            becomes(&mut connectivity, false).await;
            ip("address del 10.1.2.3/24 dev one");
            becomes(&mut addresses, false).await;
            // It counts once the kernel has asked whether another host has it.
            ip("-6 address add fd00::1/64 dev one");
            becomes(&mut addresses, true).await;
            ip("link set one down");
            ip("link set one name other");
            ip("link set other up");
            becomes(&mut network.interface("other"), true).await;
            becomes(&mut one, false).await;
            ip("link del other");
            becomes(&mut addresses, false).await;
        });
    }

    #[test]
    fn what_was_there_before_is_found_and_nothing_stays_open() {
        in_new_namespaces(|| async {
            make_link();
            ip("address add 10.1.2.3/24 dev one");
            ip("link set one up");
            ip("route add default via 10.1.2.1");
            let network = Network::default();
            let one = NetworkAspect::Interface("one".to_owned());
            let mut all = network.all(&[NetworkAspect::Addresses, one, NetworkAspect::Connectivity]);
            let missing = "network addresses, interface one to be up, network connectivity";
            assert_eq!(sentence(&all.missing()), missing);
            timeout(Duration::from_secs(10), all.wait()).await.expect("all are there");
            drop(all);
            let ended = async {
                while network.levels.is_running() {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(10), ended).await.expect("the task ends with the last condition");
            assert!(
                !network.condition(&NetworkAspect::Addresses).holds(),
                "what is not followed is not known"
            );
        });
    }

    #[test]
    fn a_flood_that_overruns_the_socket_is_followed_to_its_end() {
        in_new_namespaces(|| async {
            let network = Network::default();
            let mut addresses = network.condition(&NetworkAspect::Addresses);
            make_link();
            ip("link set one up");
            ip("address add 10.1.2.3/24 dev one");
            becomes(&mut addresses, true).await;
            // This thread reads nothing meanwhile: more messages than the socket can hold.
            let flood: String = (0..4000).map(|n| format!("link set one mtu {}\n", 1400 + n % 2)).collect();
            let script = std::env::temp_dir().join(format!("kelson-flood-{}", std::process::id()));
            std::fs::write(&script, flood + "address del 10.1.2.3/24 dev one\n").expect("a script");
            ip(&format!("-batch {}", script.display()));
            std::fs::remove_file(script).expect("removes");
            becomes(&mut addresses, false).await;
        });
    }

    #[test]
    fn the_bridge_of_containers_gives_the_host_no_address() {
        in_new_namespaces(|| async {
            let network = Network::beside("bridge");
            let mut addresses = network.condition(&NetworkAspect::Addresses);
            make_link();
            ip("link add bridge type bridge");
            ip("link set two master bridge");
            ip("address add 10.88.0.1/16 dev bridge");
            ip("link set bridge up");
            ip("link set one up");
            becomes(&mut network.interface("bridge"), true).await;
            assert_eq!(addresses.level(), Level::DoesNotHold);
            ip("address add 10.1.2.3/24 dev one");
            becomes(&mut addresses, true).await;
            ip("address del 10.1.2.3/24 dev one");
            becomes(&mut addresses, false).await;
        });
    }

    #[test]
    fn follows_the_hostname() {
        in_new_namespaces(|| async {
            let set = |name: &str| nix::unistd::sethostname(name).expect("sets");
            set("(none)");
            let network = Network::default();
            let mut condition = network.condition(&NetworkAspect::Hostname);
            assert_eq!(sentence(&condition.missing()), "a hostname");
            set("localhost");
            assert!(!condition.holds());
            set("edge-1");
            becomes(&mut condition, true).await;
            set("(none)");
            becomes(&mut condition, false).await;
            set("edge-2");
            becomes(&mut condition, true).await;
        });
    }
}
