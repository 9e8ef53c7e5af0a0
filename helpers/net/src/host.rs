//! All interfaces that are followed, and what they have in common: the file of name servers, and the reports to PID 1.

use std::io;
use std::os::fd::BorrowedFd;

use kelson_helper::log::line;
use kelson_helper::notify::{EVENT, HOST_NAME, Notifier};
use kelson_spec::network::InterfaceSpec;
use kelson_sys::netlink::{self, Content, Link};
use kelson_sys::packet::Mac;

use crate::client::Input;
use crate::follower::Follower;
use crate::hosts;
use crate::interface::{Interface, random};
use crate::lease::{Moment, now};
use crate::links::choice::{ETHERNET, choose};
use crate::resolver;
use crate::routers::Routers;
use crate::settings::Settings;
use crate::v6;

/// All that is followed.
pub struct Host<'a> {
    settings: &'a Settings,
    follower: Follower<'a>,
    routers: Routers,
    interfaces: Vec<Interface>,
    /// Those with DHCPv6.
    six: Vec<v6::interface::Interface>,
    notifier: Notifier,
    /// As it was last reported.
    status: String,
}

/// What an interface is, for its clients: another one of the same name has another lease.
type Identity<'a> = (&'a str, u32, Mac);

fn identity(link: &Link) -> Option<Identity<'_>> {
    Some((link.name.as_str(), link.index, link.hardware?))
}

impl Host<'_> {
    pub fn new(settings: &Settings, notifier: Notifier) -> Host<'_> {
        Host {
            settings,
            follower: Follower::new(&settings.interfaces),
            routers: Routers::new(&settings.folder),
            interfaces: Vec::new(),
            six: Vec::new(),
            notifier,
            status: String::new(),
        }
    }

    /// When [`Host::receive`] is due, if nothing comes.
    pub fn deadline(&self) -> Option<Moment> {
        let four = self.interfaces.iter().filter_map(Interface::deadline);
        let six = self.six.iter().filter_map(v6::interface::Interface::deadline);
        four.chain(six).chain(self.routers.deadline()).min()
    }

    /// The descriptors on which something may come.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let six = self.six.iter().map(v6::interface::Interface::descriptor);
        self.interfaces.iter().flat_map(Interface::descriptors).chain(six)
    }

    /// Finds the interfaces as they are now.
    pub fn look(&mut self) -> io::Result<()> {
        let specs = &self.settings.interfaces;
        let found = self.follower.look()?;
        let chosen = choose(specs, &found);
        let now = now()?;
        let pairs =
            || found.iter().zip(&chosen).filter_map(|(found, place)| Some((found, specs.get((*place)?)?)));
        let routed = pairs().filter(|(_, spec)| spec.router_advertisements == Some(true));
        let routed =
            routed.map(|(found, _)| (found.link.index, found.link.name.as_str(), found.link.is_running()));
        let mut changed = self.routers.look(routed, now);
        let links = pairs().map(|(found, spec)| (&found.link, spec));
        let links = links.filter(|(link, _)| link.kind == ETHERNET && link.hardware.is_some());
        let links: Vec<(&Link, &InterfaceSpec)> = links.collect();
        changed |= self.look_at_v4(&links, now);
        changed |= self.look_at_v6(&links, now)?;
        if changed {
            self.write_names();
        }
        Ok(())
    }

    fn look_at_v4(&mut self, links: &[(&Link, &InterfaceSpec)], now: Moment) -> bool {
        let wanted = || links.iter().filter(|(_, spec)| spec.dhcp.is_some());
        let before = self.interfaces.len();
        self.interfaces.retain(|known| {
            let known = (known.name.as_str(), known.index, known.hardware);
            wanted().any(|(link, _)| identity(link) == Some(known))
        });
        let mut changed = self.interfaces.len() != before;
        for (link, spec) in wanted() {
            let known = self.interfaces.iter().position(|known| known.index == link.index);
            if known.is_none()
                && let Some(identity) = identity(link)
            {
                match Interface::open(identity, spec, &self.settings.folder, now) {
                    Ok(new) => self.interfaces.push(new),
                    // It is tried again when something changes.
                    Err(error) => line(format_args!("{}: {error}", link.name)),
                }
            }
            if let Some(known) = self.interfaces.iter_mut().find(|known| known.index == link.index) {
                changed |= known.look(link, &self.settings.folder, now);
            }
        }
        changed
    }

    fn look_at_v6(&mut self, links: &[(&Link, &InterfaceSpec)], now: Moment) -> io::Result<bool> {
        let wanted = || links.iter().filter_map(|(link, spec)| Some((*link, spec.dhcp6.as_ref()?)));
        let before = self.six.len();
        self.six.retain(|known| {
            let known = (known.name.as_str(), known.index, known.hardware);
            wanted().any(|(link, _)| identity(link) == Some(known))
        });
        let mut changed = self.six.len() != before;
        for (link, spec) in wanted() {
            if self.six.iter().any(|known| known.index == link.index) {
                continue;
            }
            let Some(identity) = identity(link) else { continue };
            match v6::interface::Interface::open(identity, spec, &self.settings.folder, now, Box::new(random))
            {
                Ok(new) => {
                    self.six.push(new);
                    changed = true;
                }
                Err(error) => line(format_args!("{}: DHCPv6: {error}", link.name)),
            }
        }
        if self.six.is_empty() {
            return Ok(changed);
        }
        let kernel = kernel()?;
        for six in &mut self.six {
            if let Some((link, _)) = wanted().find(|(link, _)| link.index == six.index) {
                changed |= six.look(link, &kernel, &self.settings.folder, now);
            }
        }
        Ok(self.settle(now)? || changed)
    }

    /// Gives the interfaces what leases of DHCPv6 say, until nothing more changes. Returns whether a lease has changed.
    fn settle(&mut self, now: Moment) -> io::Result<bool> {
        let mut changed = false;
        // Each address that another host has costs a lease one address.
        for _ in 0..16 {
            if !self.six.iter().any(|six| six.is_changed) {
                break;
            }
            let kernel = kernel()?;
            for six in self.six.iter_mut().filter(|six| six.is_changed) {
                changed |= six.settle(&kernel, &self.settings.folder, now);
            }
        }
        Ok(changed)
    }

    /// Takes in what has come to the interfaces, and what their time asks for.
    pub fn receive(&mut self) -> io::Result<()> {
        let now = now()?;
        let folder = &self.settings.folder;
        let mut changed = self.routers.deadline().is_some_and(|at| at <= now) && self.routers.time(now);
        for interface in &mut self.interfaces {
            changed |= interface.receive(folder, now);
            if interface.deadline().is_some_and(|deadline| deadline <= now) {
                changed |= interface.handle(Input::Time, folder, now);
            }
        }
        for six in &mut self.six {
            changed |= six.receive(folder, now);
            if six.deadline().is_some_and(|deadline| deadline <= now) {
                changed |= six.handle(v6::client::Input::Time, folder, now);
            }
        }
        changed |= self.settle(now)?;
        if changed {
            self.write_names();
        }
        Ok(())
    }

    /// Takes in what routers say about names.
    pub fn hear(&mut self, advertised: &[(u32, Vec<u8>)]) -> io::Result<()> {
        let now = now()?;
        let mut changed = false;
        for (index, options) in advertised {
            changed |= self.routers.take(*index, options, now);
        }
        if changed {
            self.write_names();
        }
        Ok(())
    }

    /// Writes what the host is to know of names.
    pub fn write_names(&self) {
        let leases: Vec<_> = self.interfaces.iter().filter_map(Interface::lease).collect();
        let six = self.six.iter().filter_map(|six| Some((six.name.as_str(), six.lease()?)));
        let six: Vec<_> = six.collect();
        let configured = self.settings.name_servers();
        resolver::write(&self.settings.folder, &configured, &leases, &six, &self.routers);
        self.name_host();
    }

    /// Tells PID 1 how the host is called, which sets the name if it is another one.
    fn name_host(&self) {
        if !self.settings.takes_host_name() {
            return;
        }
        let given = self.interfaces.iter().find_map(Interface::host_name);
        if let Some(name) = given {
            let _ = self.notifier.send(&format!("{HOST_NAME}={name}"));
        }
        let own = || nix::unistd::gethostname().ok()?.into_string().ok();
        if let Some(name) = given.map(str::to_owned).or_else(own) {
            hosts::write(&self.settings.folder, &name);
        }
    }

    /// Tells PID 1 what has happened, and how the interfaces are.
    pub fn report(&mut self) {
        let four = self.interfaces.iter_mut().flat_map(|interface| interface.events.drain(..));
        for event in four.chain(self.six.iter_mut().flat_map(|six| six.events.drain(..))) {
            // It is in the log besides.
            let _ = self.notifier.send(&format!("{EVENT}={event}"));
        }
        let leases = self.interfaces.iter().map(Interface::status);
        let six = self.six.iter().map(v6::interface::Interface::status);
        let status: Vec<String> = leases.chain(six).chain(self.routers.status()).collect();
        let status = if status.is_empty() { self.follower.status() } else { status.join("; ") };
        if self.status != status {
            // The next change has a status, too.
            let _ = self.notifier.send(&format!("STATUS={status}"));
            self.status = status;
        }
    }
}

/// The links and the addresses as they are now.
fn kernel() -> io::Result<v6::interface::Kernel> {
    let (mut links, mut addresses) = (Vec::new(), Vec::new());
    for content in netlink::dump(libc::RTM_GETLINK)?.into_iter().chain(netlink::dump(libc::RTM_GETADDR)?) {
        match content {
            Content::Link { link, .. } => links.push(link),
            Content::Address { address, .. } => addresses.push(address),
            _ => {}
        }
    }
    Ok(v6::interface::Kernel { links, addresses })
}
