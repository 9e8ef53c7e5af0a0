//! One interface: the socket of its client of DHCPv6, and what the client wants to be done.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::Path;

use kelson_helper::log::line;
use kelson_spec::network::Dhcp6Spec;
use kelson_sys::netlink::{self, Address, Link, RA_MANAGED, RA_OTHER};
use kelson_sys::packet::Mac;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn6, bind, setsockopt, socket, sockopt};

use super::client::{Action, Client, Flags, Input};
use super::delegation::{self, NETWORK};
use super::identity::Identity;
use super::lease::{Granted, Lease};
use super::message::Message;
use super::placement::{Address6, Place, Placement};
use super::record;
use super::remainder::Remainder;
use crate::lease::{Moment, remaining};

const CLIENT: u16 = 546;
const SERVER: u16 = 547;
/// All servers and relays of the link.
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// More than a packet of Ethernet holds.
const PACKET: usize = 2048;

/// An interface that has a client of DHCPv6.
pub struct Interface {
    pub name: String,
    pub index: u32,
    pub hardware: Mac,
    client: Client,
    /// The interfaces that get a network of a delegated prefix.
    delegate: Vec<String>,
    socket: UdpSocket,
    placement: Placement,
    remainder: Remainder,
    /// The lease has changed since it was given to the interfaces.
    pub is_changed: bool,
    carrier_changes: u32,
    /// The last error that was logged, until something works.
    error: Option<String>,
    /// What happened to its lease, until somebody takes it.
    pub events: Vec<String>,
}

/// The links and the addresses of the host.
pub struct Kernel {
    pub links: Vec<Link>,
    pub addresses: Vec<Address>,
}

impl Interface {
    /// Switches the interface on and continues with the lease that an earlier process has left.
    ///
    /// # Errors
    /// When the kernel gives no socket for it.
    pub fn open(
        (name, index, hardware): (&str, u32, Mac),
        spec: &Dhcp6Spec,
        folder: &Path,
        now: Moment,
        dice: Box<dyn FnMut() -> u32>,
    ) -> io::Result<Interface> {
        netlink::set_up(index)?;
        let identity = Identity::new(hardware, name, spec.prefix());
        let held = record::read(folder, name, hardware, now);
        Ok(Interface {
            name: name.to_owned(),
            index,
            hardware,
            client: Client::new(identity, spec.always, held, dice),
            delegate: spec.delegate.clone(),
            socket: listen(name)?,
            placement: Placement::default(),
            remainder: Remainder::of(record::prefixes(folder, name)),
            is_changed: true,
            carrier_changes: 0,
            error: None,
            events: Vec::new(),
        })
    }

    /// What the interface has.
    pub fn lease(&self) -> Option<&Lease> {
        self.client.lease()
    }

    /// When [`Interface::handle`] is due with [`Input::Time`].
    pub fn deadline(&self) -> Option<Moment> {
        self.client.deadline()
    }

    /// A line for the status of the service.
    pub fn status(&self) -> String {
        let has = self.client.lease().map(|lease| lease.items.iter().map(shown).collect::<Vec<_>>());
        let has = has.filter(|has| !has.is_empty()).map(|has| format!(", {}", has.join(", ")));
        format!("{} by DHCPv6: {}{}", self.name, self.client.status(), has.unwrap_or_default())
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes in what the interface is like now. Returns whether the lease has changed.
    pub fn look(&mut self, link: &Link, kernel: &Kernel, folder: &Path, now: Moment) -> bool {
        let mut changed = false;
        // A cable that was out for a moment may be in another network now.
        if std::mem::replace(&mut self.carrier_changes, link.carrier_changes) != link.carrier_changes {
            self.placement.forgive();
            changed |= self.handle(Input::Link(false), folder, now);
        }
        // Servers answer to the address of the link, which the kernel asks the link for first.
        let can_send = kernel.addresses.iter().any(|address| {
            let is_ours = address.index == self.index && address.flags & libc::IFA_F_TENTATIVE == 0;
            is_ours && matches!(address.ip(), Some(std::net::IpAddr::V6(ip)) if ip.is_unicast_link_local())
        });
        let has = |flag| link.ipv6_flags & flag != 0;
        let flags = Flags { managed: has(RA_MANAGED), other: has(RA_OTHER) };
        changed |= self.handle(Input::Routers(flags), folder, now);
        changed |= self.handle(Input::Link(link.is_running() && can_send), folder, now);
        self.settle(kernel, folder, now) || changed
    }

    /// Takes in what has come. Returns whether the lease has changed.
    pub fn receive(&mut self, folder: &Path, now: Moment) -> bool {
        let mut buffer = [0; PACKET];
        let mut changed = false;
        // As many as a socket holds; a flood must not keep other interfaces waiting.
        for _ in 0..64 {
            let Ok((length, from)) = self.socket.recv_from(&mut buffer) else { break };
            let message = buffer.get(..length).and_then(Message::read);
            if let (Some(message), std::net::SocketAddr::V6(from)) = (message, from) {
                changed |= self.handle(Input::Message(message, *from.ip()), folder, now);
            }
        }
        changed
    }

    /// Takes in what has happened. Returns whether the lease has changed; [`Interface::settle`] is due then.
    pub fn handle(&mut self, input: Input, folder: &Path, now: Moment) -> bool {
        let before = self.client.lease().cloned();
        let actions = self.client.handle(now, input);
        let lease = self.client.lease();
        let changed = before.as_ref() != lease;
        self.is_changed |= changed;
        // Before the kernel has it, so that a next process asks for it.
        if changed && let Err(error) = record::write(folder, &self.name, self.hardware, lease) {
            line(format_args!("{}: the lease is not recorded: {}: {error}", self.name, folder.display()));
        }
        for action in actions {
            match action {
                Action::Send(message) => {
                    let to = SocketAddrV6::new(SERVERS, SERVER, 0, self.index);
                    let sent = self.socket.send_to(&message.write(), to).map(drop);
                    self.note(sent);
                }
                Action::Apply(lease) => {
                    let is_new = before.as_ref().is_none_or(|before| !lease.differs_only_in_time(before));
                    if is_new {
                        self.report(&described(&lease, now));
                    }
                }
                Action::Remove(item, reason) => {
                    self.report(&format!("{} is removed: {reason}", shown(&item)));
                }
                Action::Log(text) => line(format_args!("{}: {text}", self.name)),
            }
        }
        changed
    }

    /// Puts what the lease says where it belongs. Returns whether the lease has changed: another host has an address.
    pub fn settle(&mut self, kernel: &Kernel, folder: &Path, now: Moment) -> bool {
        self.is_changed = false;
        let wanted = self.wanted(&kernel.links);
        let is_up = |link: &&Link| link.flags & libc::IFF_UP.cast_unsigned() != 0;
        let up: BTreeSet<u32> = kernel.links.iter().filter(is_up).map(|link| link.index).collect();
        let (conflicts, done) = self.placement.settle(&wanted, &up, &kernel.addresses, now);
        let prefixes = self.client.lease().into_iter().flat_map(Lease::prefixes);
        let rest = self.remainder.settle(&prefixes.map(|item| (item.address, item.length)).collect());
        self.note(done.and(rest));
        let mut changed = false;
        for (index, ip) in conflicts {
            if index == self.index {
                changed |= self.handle(Input::Conflict(ip), folder, now);
            } else {
                line(format_args!("{}: another host has {ip}, which the delegated prefix gives", self.name));
            }
        }
        changed
    }

    /// Where addresses are to be: those of the lease here, and one of each network of its prefix.
    fn wanted(&self, links: &[Link]) -> BTreeMap<Place, Address6> {
        let Some(lease) = self.client.lease() else { return BTreeMap::new() };
        let at = |item: &Granted, prefix| Address6 { prefix, preferred: item.preferred, valid: item.valid };
        let own = lease.addresses().map(|item| ((self.index, item.address), at(item, item.length)));
        let delegated = lease.prefixes().flat_map(|item| {
            self.delegate.iter().enumerate().filter_map(move |(number, name)| {
                let link = links.iter().find(|link| link.name == *name)?;
                let address = delegation::address(item.address, item.length, number)?;
                Some(((link.index, address), at(item, NETWORK)))
            })
        });
        own.chain(delegated).collect()
    }

    fn note(&mut self, done: io::Result<()>) {
        let error = done.err().map(|error| error.to_string());
        if let Some(error) = error.as_ref().filter(|error| self.error.as_ref() != Some(error)) {
            line(format_args!("{}: DHCPv6: {error}", self.name));
        }
        self.error = error;
    }

    /// Logs what happened to the lease, and keeps it for PID 1.
    fn report(&mut self, text: &str) {
        let text = format!("{}: {text}", self.name);
        line(&text);
        self.events.push(text);
    }
}

fn listen(name: &str) -> io::Result<UdpSocket> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Inet6, SockType::Datagram, flags, None)?;
    setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    setsockopt(&socket, sockopt::BindToDevice, &name.into())?;
    bind(socket.as_raw_fd(), &SockaddrIn6::from(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, CLIENT, 0, 0)))?;
    Ok(UdpSocket::from(socket))
}

/// An address as it is, and a prefix with its length.
fn shown(item: &Granted) -> String {
    if item.is_address() {
        item.address.to_string()
    } else {
        format!("prefix {}/{}", item.address, item.length)
    }
}

/// `2001:db8::7 for 1h, prefix 2001:db8:100::/56 for 1h from fe80::1`.
fn described(lease: &Lease, now: Moment) -> String {
    let items = lease.items.iter().filter(|item| item.reason.is_none());
    let items =
        items.map(|item| format!("{} {}", shown(item), remaining(item.valid, now))).collect::<Vec<_>>();
    let items = if items.is_empty() { "names".to_owned() } else { items.join(", ") };
    format!("{items} from {}", lease.from)
}
