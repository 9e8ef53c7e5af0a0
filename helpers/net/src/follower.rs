//! The static settings after the boot: links that come late, or that somebody has changed.

use std::collections::BTreeMap;
use std::io;

use kelson_helper::log::line;
use kelson_spec::network::InterfaceSpec;
use kelson_sys::netlink::Link;
use kelson_sys::ordered;

use crate::links::choice::Found;
use crate::links::{LinkError, Outcome, found, settle};

/// What of a link decides about the settings.
type Traits = (u32, String, u32, u32, u32);

/// Keeps static settings in force.
pub struct Follower<'a> {
    specs: &'a [InterfaceSpec],
    has_static: bool,
    /// The links, as the last look left them.
    settled: Vec<Traits>,
    /// What was logged last of each mapping.
    logged: BTreeMap<String, String>,
}

impl<'a> Follower<'a> {
    pub fn new(specs: &'a [InterfaceSpec]) -> Follower<'a> {
        let has_static = specs.iter().any(InterfaceSpec::is_static);
        Follower { specs, has_static, settled: Vec::new(), logged: BTreeMap::new() }
    }

    /// The links as they are now, with their static settings. Without a change it asks for the links alone.
    ///
    /// # Errors
    /// When the kernel does not say it.
    pub fn look(&mut self) -> io::Result<Vec<Found>> {
        let links = found()?;
        if !self.has_static || traits(&links) == self.settled {
            return Ok(links);
        }
        let known = ordered::set(self.settled.iter().map(|(index, ..)| *index));
        let no_module = |name: &str| Err(format!("{name} is to be loaded at boot; list it in modules"));
        for outcome in settle(self.specs, &|index| !known.contains(&index), &no_module)? {
            self.log(&outcome);
        }
        let links = found()?;
        self.settled = traits(&links);
        Ok(links)
    }

    fn log(&mut self, outcome: &Outcome) {
        let errors = outcome.errors.iter().map(LinkError::to_string);
        let text = errors.collect::<Vec<_>>().join("; ");
        let text = if text.is_empty() { outcome.has.clone() } else { format!("{}: {text}", outcome.name) };
        if self.logged.get(&outcome.name) != Some(&text) {
            line(&text);
            self.logged.insert(outcome.name.clone(), text);
        }
    }

    /// A line for the status of a service without an interface that gets an address by DHCP.
    pub fn status(&self) -> String {
        if self.specs.iter().any(InterfaceSpec::is_dynamic) {
            return "no interface is there".to_owned();
        }
        format!("follows {} of the machine file", self.specs.len())
    }
}

fn traits(links: &[Found]) -> Vec<Traits> {
    let flags = (libc::IFF_UP | libc::IFF_RUNNING).cast_unsigned();
    let of = |link: &Link| (link.index, link.name.clone(), link.flags & flags, link.master, link.mtu);
    links.iter().map(|found| of(&found.link)).collect()
}
