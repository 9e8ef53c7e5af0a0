//! One interface: the sockets of its client, and what the client wants to be done.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::path::Path;

use kelson_helper::log::line;
use kelson_spec::names::is_given_hostname;
use kelson_spec::network::InterfaceSpec;
use kelson_sys::netlink::{self, FOREVER, Link, MAIN, NewRoute, RTPROT_DHCP};
use kelson_sys::packet::{BROADCAST, Mac, PacketSocket, Protocol};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt};

use crate::client::{Action, Client, Input};
use crate::frame;
use crate::lease::{Lease, Moment, NEVER, Route, remaining};
use crate::message::{Message, Operation};
use crate::record;

/// A route of an operator has 0 and wins. Two routes of different interfaces need different ones.
const METRIC: u32 = 1024;
/// A lease lasts a little longer in the kernel than here, so that the client removes it, with its reason.
const LATE: u64 = 2;
/// The longest packet of Ethernet that the client asks for.
const PACKET: usize = 1500;

/// An interface that gets its address by DHCP.
pub struct Interface {
    pub name: String,
    pub index: u32,
    pub hardware: Mac,
    client: Client,
    /// The machine file says how long packets are.
    has_own_mtu: bool,
    /// The host takes the name that the server gives.
    takes_host_name: bool,
    messages: PacketSocket,
    /// Those that tell of conflicts about the address, and whether probes count.
    conflicts: Vec<PacketSocket>,
    watched: Option<(Ipv4Addr, bool)>,
    /// Keeps the kernel from refusing the answers to requests of this address, and sends those.
    port: Option<UdpSocket>,
    applied: Option<Lease>,
    carrier_changes: u32,
    /// The last one that was reported, until something works.
    error: Option<String>,
    /// What happened to its lease, until somebody takes it.
    pub events: Vec<String>,
}

impl Interface {
    /// Switches the interface on and continues with the lease that an earlier process has left.
    ///
    /// # Errors
    /// When the kernel gives no socket for it.
    pub fn open(
        (name, index, hardware): (&str, u32, Mac),
        spec: &InterfaceSpec,
        folder: &Path,
        now: Moment,
    ) -> io::Result<Interface> {
        // The kernel gives a socket of an interface that is down an error for its first use.
        netlink::set_up(index)?;
        let messages = PacketSocket::open(index, Protocol::Ipv4, &frame::FOR_CLIENT)?;
        // An address that replaces another of the same network must not go with it.
        let promote = format!("/proc/sys/net/ipv4/conf/{name}/promote_secondaries");
        if let Err(error) = std::fs::write(&promote, "1") {
            line(format_args!("{name}: {promote}: {error}"));
        }
        let held = record::read(folder, name, hardware, now);
        let host_name = nix::unistd::gethostname()
            .ok()
            .and_then(|name| crate::names::sound(name.as_encoded_bytes()).filter(|name| name != "localhost"));
        let probes = spec.dhcp.is_some_and(|dhcp| dhcp.probe);
        let mut interface = Interface {
            name: name.to_owned(),
            index,
            hardware,
            client: Client::new(hardware, host_name, probes, held.clone(), Box::new(random)),
            has_own_mtu: spec.mtu.is_some(),
            takes_host_name: spec.dhcp.is_some_and(|dhcp| dhcp.host_name),
            messages,
            conflicts: Vec::new(),
            watched: None,
            port: None,
            applied: None,
            carrier_changes: 0,
            error: None,
            events: Vec::new(),
        };
        if let Some(held) = held {
            interface.apply(&held, now)?;
        }
        Ok(interface)
    }

    /// What the interface has.
    pub fn lease(&self) -> Option<&Lease> {
        self.client.lease()
    }

    /// The name that the host is to have.
    pub fn host_name(&self) -> Option<&str> {
        let name = self.lease().filter(|_| self.takes_host_name)?.host_name.as_deref()?;
        is_given_hostname(name).then_some(name)
    }

    /// When [`Interface::handle`] is due with [`Input::Time`].
    pub fn deadline(&self) -> Option<Moment> {
        self.client.deadline()
    }

    /// A line for the status of the service.
    pub fn status(&self) -> String {
        match self.client.lease() {
            Some(lease) => {
                format!("{}: {}, {}/{}", self.name, self.client.status(), lease.address, lease.prefix)
            }
            None => format!("{}: {}", self.name, self.client.status()),
        }
    }

    /// The descriptors on which something may come.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(&self.messages).chain(&self.conflicts).map(AsFd::as_fd)
    }

    /// Takes in what the interface is like now. Returns whether the lease has changed.
    pub fn look(&mut self, link: &Link, folder: &Path, now: Moment) -> bool {
        // A cable that was out for a moment may be in another network now.
        let other =
            std::mem::replace(&mut self.carrier_changes, link.carrier_changes) != link.carrier_changes;
        let was_out = other && self.handle(Input::Link(false), folder, now);
        self.handle(Input::Link(link.is_running()), folder, now) || was_out
    }

    /// Takes in what has come. Returns whether the lease has changed.
    pub fn receive(&mut self, folder: &Path, now: Moment) -> bool {
        let mut inputs = Vec::new();
        let mut buffer = [0; PACKET];
        // As many as a socket holds; a flood must not keep other interfaces waiting.
        for _ in 0..64 {
            // An interface that went down says so here and by a message of netlink.
            let Ok(Some(packet)) = self.messages.receive(&mut buffer) else { break };
            let message = frame::content(packet).and_then(|bytes| Message::read(bytes, Operation::Reply));
            inputs.extend(message.map(Input::Message));
        }
        for socket in &self.conflicts {
            while let Ok(Some(packet)) = socket.receive(&mut buffer)
                && inputs.len() < 128
            {
                inputs.extend(frame::arp_sender(packet).map(Input::Conflict));
            }
        }
        let mut changed = false;
        for input in inputs {
            changed |= self.handle(input, folder, now);
        }
        changed
    }

    /// Takes in what has happened. Returns whether the lease has changed.
    pub fn handle(&mut self, input: Input, folder: &Path, now: Moment) -> bool {
        let before = self.client.lease().cloned();
        let actions = self.client.handle(now, input);
        let lease = self.client.lease();
        let changed = before.as_ref() != lease;
        // Before the kernel has it, so that a next process asks for it.
        if changed && let Err(error) = record::write(folder, &self.name, self.hardware, lease) {
            line(format_args!("{}: the lease is not recorded: {}: {error}", self.name, folder.display()));
        }
        for action in actions {
            if let Err(error) = self.perform(action, now) {
                let error = error.to_string();
                if self.error.as_ref() != Some(&error) {
                    line(format_args!("{}: {error}", self.name));
                }
                self.error = Some(error);
            } else {
                self.error = None;
            }
        }
        self.watch();
        changed
    }

    fn perform(&mut self, action: Action, now: Moment) -> io::Result<()> {
        match action {
            Action::Broadcast(message, from) => {
                let packet = frame::broadcast(&message.write(Operation::Request), from);
                self.messages.send(&packet, BROADCAST)
            }
            Action::Unicast(message, _, to) => {
                let to = SocketAddrV4::new(to, frame::SERVER);
                let port = self.port.as_ref().ok_or(io::ErrorKind::NotConnected)?;
                port.send_to(&message.write(Operation::Request), to).map(drop)
            }
            Action::Arp { sender, about } => {
                let packet = frame::arp(self.hardware, sender, about);
                let socket = PacketSocket::open(self.index, Protocol::Arp, &frame::NONE)?;
                socket.send(&packet, BROADCAST)
            }
            Action::Apply(lease) => self.apply(&lease, now),
            Action::Remove(lease, reason) => {
                self.report(&format!("{}/{} is removed: {reason}", lease.address, lease.prefix));
                self.remove(&lease)
            }
            Action::Log(text) => {
                line(format_args!("{}: {text}", self.name));
                Ok(())
            }
        }
    }

    /// Gives the interface the address, then the routes; of two errors the first is reported.
    fn apply(&mut self, lease: &Lease, now: Moment) -> io::Result<()> {
        let before = self.applied.replace(lease.clone());
        let is_new = before.as_ref().is_none_or(|before| !lease.differs_only_in_time(before));
        if is_new {
            self.report(&described(lease, now));
            let name =
                lease.host_name.as_ref().filter(|name| self.takes_host_name && !is_given_hostname(name));
            if let Some(name) = name {
                line(format_args!("{}: {name} is not the name of a host, and is not taken", self.name));
            }
        }
        let seconds = match lease.end {
            NEVER => FOREVER,
            end => {
                let left = end.saturating_sub(now).as_secs().saturating_add(LATE);
                u32::try_from(left).unwrap_or(FOREVER).min(FOREVER.saturating_sub(1))
            }
        };
        let mut done = vec![netlink::lease_address(self.index, lease.address.into(), lease.prefix, seconds)];
        if let Some(mtu) = lease.mtu.filter(|_| is_new && !self.has_own_mtu) {
            done.push(netlink::set_mtu(self.index, mtu));
        }
        for route in &lease.routes {
            done.push(netlink::set_route(self.index, &self.route(lease, route)));
        }
        // Routes that the address had until now. A lease that this one replaces is removed after it.
        for (before, route) in
            before.iter().flat_map(|before| before.routes.iter().map(move |route| (before, route)))
        {
            if before.address == lease.address && !lease.routes.contains(route) {
                done.push(netlink::remove_route(self.index, &self.route(before, route)));
            }
        }
        if self.port.is_none() || before.is_none_or(|before| before.address != lease.address) {
            done.push(self.open_port(lease.address));
        }
        done.into_iter().collect()
    }

    /// Logs what happened to the lease, and keeps it for PID 1.
    fn report(&mut self, text: &str) {
        let text = format!("{}: {text}", self.name);
        line(&text);
        self.events.push(text);
    }

    fn remove(&mut self, lease: &Lease) -> io::Result<()> {
        let now = self.applied.take_if(|applied| applied.address == lease.address);
        if now.is_some() {
            self.port = None;
        }
        let kept = self.applied.as_ref().map(|applied| applied.routes.as_slice()).unwrap_or_default();
        let gone = lease.routes.iter().filter(|route| !kept.contains(route));
        let mut done: Vec<io::Result<()>> =
            gone.map(|route| netlink::remove_route(self.index, &self.route(lease, route))).collect();
        done.push(netlink::remove_address(self.index, lease.address.into(), lease.prefix));
        done.into_iter().collect()
    }

    fn route(&self, lease: &Lease, route: &Route) -> NewRoute {
        NewRoute {
            destination: route.destination.into(),
            prefix: route.prefix,
            gateway: route.gateway.map(IpAddr::V4),
            gateway_on_link: route.gateway.is_some_and(|gateway| !lease.is_on_link(gateway)),
            metric: METRIC.saturating_add(self.index),
            table: MAIN,
            protocol: RTPROT_DHCP,
        }
    }

    fn open_port(&mut self, address: Ipv4Addr) -> io::Result<()> {
        // The one before it has the same number.
        self.port = None;
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&socket, sockopt::ReuseAddr, &true)?;
        setsockopt(&socket, sockopt::BindToDevice, &self.name.clone().into())?;
        // Nobody reads it: answers come through the packet socket.
        setsockopt(&socket, sockopt::RcvBuf, &0)?;
        let [a, b, c, d] = address.octets();
        bind(socket.as_raw_fd(), &SockaddrIn::new(a, b, c, d, frame::CLIENT))?;
        self.port = Some(UdpSocket::from(socket));
        Ok(())
    }

    /// Listens to conflicts about the address that the client has now.
    fn watch(&mut self) {
        let watched = self.client.watched();
        if watched == self.watched {
            return;
        }
        self.watched = watched;
        self.conflicts.clear();
        let Some((address, probing)) = watched else { return };
        let mut filters = vec![frame::arp_from(address).to_vec()];
        if probing {
            filters.push(frame::arp_probe_of(address).to_vec());
        }
        for filter in filters {
            match PacketSocket::open(self.index, Protocol::Arp, &filter) {
                Ok(socket) => self.conflicts.push(socket),
                Err(error) => line(format_args!("{}: conflicts are not noticed: {error}", self.name)),
            }
        }
    }
}

/// `192.0.2.7/24 for 1h from 192.0.2.1, default route by 192.0.2.1`.
fn described(lease: &Lease, now: Moment) -> String {
    let time = remaining(lease.end, now);
    let default = lease.routes.iter().find(|route| route.prefix == 0).and_then(|route| route.gateway);
    let by = default.map(|gateway| format!(", default route by {gateway}")).unwrap_or_default();
    format!("{}/{} {time} from {}{by}", lease.address, lease.prefix, lease.server)
}

/// A number that others cannot foresee.
pub fn random() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    let hash = RandomState::new().hash_one(0);
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default()
}
