//! The sockets of a service, which PID 1 holds from its first preparation until it rests: across its runs, and across
//! incarnations of PID 1.
//!
//! PID 1 reads nothing from them. It looks whether something has come in, and hands copies to each run. The helper makes
//! them, and removes their files: both may wait for a disk.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use kelson_conditions::{BoxFuture, Condition, Level, Missing, Subject};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::SocketSpec;
use kelson_sys::descriptor::Watched;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::state_store::{Descriptor, KeptDescriptor, StateStore};

/// Whether this build holds sockets: what it leaves out then is not in the program.
pub const SUPPORTED: bool = OWN.has(Feature::Units);

/// Those of one service, in the order of its spec.
#[derive(Default)]
pub struct HeldSockets(Vec<Held>);

struct Held {
    spec: SocketSpec,
    descriptor: KeptDescriptor,
}

impl HeldSockets {
    /// Those that an earlier incarnation of PID 1 held, each with where it listens.
    pub fn inherited(
        service: &str,
        specs: &[SocketSpec],
        mut descriptors: Vec<(String, OwnedFd)>,
        store: Option<&StateStore>,
    ) -> HeldSockets {
        let mut held = HeldSockets::default();
        for spec in specs {
            let place = descriptors.iter().position(|(listen, _)| *listen == spec.listen);
            if let Some(place) = place {
                held.add(service, spec, descriptors.swap_remove(place).1, store);
            }
        }
        held
    }

    fn add(&mut self, service: &str, spec: &SocketSpec, descriptor: OwnedFd, store: Option<&StateStore>) {
        let (service, listen) = (service.to_owned(), spec.listen.clone());
        let descriptor = KeptDescriptor::new(descriptor, store, || Descriptor::Socket { service, listen });
        self.0.push(Held { spec: spec.clone(), descriptor });
    }

    /// Whether these are the ones that a spec names.
    pub fn are(&self, specs: &[SocketSpec]) -> bool {
        self.0.iter().map(|held| &held.spec).eq(specs)
    }

    /// Those of the specs that are not held.
    pub fn missing(&self, specs: &[SocketSpec]) -> Vec<SocketSpec> {
        let is_held = |spec: &SocketSpec| self.0.iter().any(|held| held.spec == *spec);
        specs.iter().filter(|spec| !is_held(spec)).cloned().collect()
    }

    /// Closes all but those of these specs, and returns the specs of what was closed.
    pub fn keep_only(&mut self, specs: &[SocketSpec]) -> Vec<SocketSpec> {
        let closed = self.0.extract_if(.., |held| !specs.contains(&held.spec));
        closed.map(|held| held.spec).collect()
    }

    /// Adds those that were missing, in the order in which [`HeldSockets::missing`] named them.
    pub fn fill(
        &mut self,
        service: &str,
        specs: &[SocketSpec],
        made: Vec<OwnedFd>,
        store: Option<&StateStore>,
    ) {
        for (spec, descriptor) in self.missing(specs).iter().zip(made) {
            self.add(service, spec, descriptor, store);
        }
        let place = |held: &Held| specs.iter().position(|spec| *spec == held.spec);
        self.0.sort_by_key(place);
    }

    /// Copies for a run, each with its name.
    ///
    /// # Errors
    /// When PID 1 has no descriptor left.
    pub fn copies(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let copy = |held: &Held| Ok((held.spec.name.clone(), held.descriptor.as_fd().try_clone_to_owned()?));
        self.0.iter().map(copy).collect()
    }

    /// That something has come in on one of them. Watched for as long as the condition lives: while the service runs,
    /// PID 1 does not wake for what the service takes.
    pub fn condition(&self) -> Box<dyn Condition> {
        let names: Vec<String> = self.0.iter().map(|held| format!("\"{}\"", held.spec.name)).collect();
        let watch = |held: &Held| Watched::reading(held.descriptor.as_fd().try_clone_to_owned()?);
        // Where one cannot be watched, the service is started at once: better than never.
        let watched = self.0.iter().map(watch).collect::<io::Result<Vec<_>>>().ok();
        Box::new(Connection { names: names.join(" or ").into(), watched })
    }
}

struct Connection {
    names: Arc<str>,
    /// `None`: it is not known.
    watched: Option<Vec<Watched<OwnedFd>>>,
}

impl Connection {
    /// Takes note of what came in since the last call.
    fn poll_news(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut news = Poll::Pending;
        for socket in self.watched.iter().flatten() {
            while let Poll::Ready(ready) = socket.poll_read_ready(context) {
                news = Poll::Ready(());
                match ready {
                    Ok(mut ready) => ready.clear_ready(),
                    // The runtime ends.
                    Err(_) => break,
                }
            }
        }
        news
    }
}

impl Condition for Connection {
    fn level(&self) -> Level {
        let Some(watched) = &self.watched else { return Level::Holds };
        let mut asked: Vec<PollFd<'_>> =
            watched.iter().map(|socket| PollFd::new(socket.get_ref().as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0).into()
    }

    fn missing(&self) -> Vec<Missing> {
        match self.level() {
            Level::Holds => Vec::new(),
            _ => vec![Subject::Connection(Arc::clone(&self.names)).into()],
        }
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::poll_fn(|context| self.poll_news(context)))
    }
}

/// Whether all that a service waits for is that somebody demands it: its sockets listen, and its paths are watched.
pub fn awaits_demand(missing: &[Missing]) -> bool {
    let is_demand = |one: &Missing| match &one.subject {
        Subject::Connection(_) | Subject::Trigger(_) => true,
        Subject::Any(alternatives) => alternatives.iter().all(|one| awaits_demand(one)),
        _ => false,
    };
    !missing.is_empty() && missing.iter().all(is_demand)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn spec(listen: &str) -> SocketSpec {
        SocketSpec { name: "web".into(), listen: listen.into(), ..SocketSpec::default() }
    }

    fn held(specs: &[SocketSpec], made: Vec<OwnedFd>) -> HeldSockets {
        let mut held = HeldSockets::default();
        held.fill("a", specs, made, None);
        held
    }

    #[tokio::test]
    async fn a_connection_is_a_level_and_each_new_one_is_news() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (other, _end) = UnixDatagram::pair().unwrap();
        let specs = [spec("127.0.0.1:1"), SocketSpec { name: "log".into(), ..spec("@log") }];
        let held = held(&specs, vec![listener.try_clone().unwrap().into(), other.into()]);
        let mut condition = held.condition();
        let text = kelson_conditions::sentence(&condition.missing());
        assert_eq!(text, "a connection on socket \"web\" or \"log\"");
        let missing = condition.missing();
        assert!(awaits_demand(&missing) && !awaits_demand(&[]));
        let either = Subject::Any(vec![missing.clone(), vec![Subject::TimeSynced.into()]]);
        assert!(!awaits_demand(&[either.into()]));
        let short = Duration::from_millis(50);
        assert!(timeout(short, condition.changed()).await.is_err());
        let _first = TcpStream::connect(address).unwrap();
        timeout(Duration::from_secs(5), condition.changed()).await.unwrap();
        assert!(condition.holds() && condition.missing().is_empty());
        assert!(timeout(short, condition.changed()).await.is_err(), "it is no news any more");
        listener.accept().unwrap();
        assert!(!condition.holds(), "somebody has taken it");
        let _second = TcpStream::connect(address).unwrap();
        timeout(Duration::from_secs(5), condition.changed()).await.unwrap();
        assert!(held.condition().holds(), "one that is there from the start");
    }

    #[test]
    fn those_of_another_spec_go_and_the_others_stay_in_its_order() {
        let make = |count: usize| {
            (0..count).map(|_| UnixDatagram::pair().unwrap().0.into()).collect::<Vec<OwnedFd>>()
        };
        let (a, b, c) = (spec("@a"), spec("@b"), spec("@c"));
        let mut sockets = held(&[a.clone(), b.clone()], make(2));
        let new = [c.clone(), SocketSpec { mode: 0o600, ..a.clone() }, b.clone()];
        assert_eq!(sockets.keep_only(&new), std::slice::from_ref(&a));
        assert_eq!(sockets.missing(&new), new[..2]);
        sockets.fill("a", &new, make(2), None);
        assert!(sockets.are(&new) && !sockets.are(&new[1..]));
        assert_eq!(sockets.copies().unwrap().len(), 3);
        let left = vec![("@b".to_owned(), make(1).remove(0)), ("@x".to_owned(), make(1).remove(0))];
        assert!(HeldSockets::inherited("a", &new, left, None).are(&new[2..]));
    }
}
