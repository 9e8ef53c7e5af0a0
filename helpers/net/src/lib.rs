//! `kelson-net`: follows the interfaces that the machine file names: their static settings, and addresses by DHCPv4.
//!
//! `kelson-net FOLDER WORD…` ([`settings`]). It stays root until it has made the folder for leases and for the file of name
//! servers; from then on it has the capabilities for sockets and interfaces alone. What it has configured lives in the
//! kernel and in the folder: if this process ends, nothing changes, and the next one continues where it was.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing))]

pub mod client;
mod exchange;
mod follower;
pub mod frame;
mod identity;
mod interface;
pub mod lease;
pub mod links;
pub mod message;
pub mod names;
mod record;
mod resolver;
mod settings;
mod state;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use kelson_helper::log::line;
use kelson_helper::notify::Notifier;
use kelson_helper::user::leave_root_with;
use kelson_spec::names::NET_USER;
use kelson_spec::network::InterfaceSpec;
use kelson_sys::capability::{NET_ADMIN, NET_BIND_SERVICE, NET_RAW};
use kelson_sys::netlink::{self, Link};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockProtocol, recv};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use client::Input;
use follower::Follower;
use interface::Interface;
use lease::Moment;
use links::choice::{ETHERNET, choose};
use settings::Settings;

/// `argv[0]`.
pub const NAME: &str = "kelson-net";

/// Runs until a signal ends it. Returns the exit status.
pub fn main(words: &[OsString]) -> i32 {
    let Some(settings) = Settings::read(words) else {
        eprintln!("{NAME} FOLDER WORD…: PID 1 starts it");
        return 2;
    };
    match run(&settings) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

enum Never {}

fn run(settings: &Settings) -> io::Result<Never> {
    prepare(&settings.folder)?;
    let notifier = Notifier::connect()?;
    // A boot does not wait for addresses; services that need them say so.
    notifier.send("READY=1")?;
    if !leave_root_with(NET_USER, NET_USER, NET_ADMIN | NET_BIND_SERVICE | NET_RAW)? {
        eprintln!("this user namespace has no user {}: it stays root", NET_USER);
    }
    let groups = u32::try_from(libc::RTMGRP_LINK).unwrap_or_default();
    let changes = netlink::open(SockProtocol::NetlinkRoute, groups)?;
    let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
    let follower = Follower::new(&settings.interfaces);
    let mut host = Host { settings, follower, interfaces: Vec::new(), notifier, status: String::new() };
    host.look()?;
    host.write_resolver();
    loop {
        host.report();
        wait(&host, &changes, &timer)?;
        // First, because it takes the errors that an interface leaves in its sockets when it goes down.
        host.receive()?;
        if drain(&changes)? {
            host.look()?;
        }
    }
}

/// The folder, for a user who is not root, and the public name of the file of name servers.
fn prepare(folder: &Path) -> io::Result<()> {
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    match fs::create_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at(error)),
        _ => {}
    }
    if nix::unistd::geteuid().is_root() {
        chown(folder, Some(NET_USER), Some(NET_USER)).map_err(at)?;
    }
    let public = folder.with_file_name(resolver::FILE);
    let target = folder.join(resolver::FILE);
    if fs::read_link(&public).is_ok_and(|link| link == target) {
        return Ok(());
    }
    let temporary = public.with_extension("new");
    let _ = fs::remove_file(&temporary);
    symlink(&target, &temporary).and_then(|()| fs::rename(&temporary, &public)).map_err(at)
}

/// Waits until something comes, or the time of an interface.
fn wait(host: &Host<'_>, changes: &OwnedFd, timer: &TimerFd) -> io::Result<()> {
    let now = now()?;
    let first = host.interfaces.iter().filter_map(Interface::deadline).min();
    match first {
        // A timer of zero would be none.
        Some(at) => {
            let at = at.max(now).max(Moment::from_nanos(1));
            timer.set(
                Expiration::OneShot(TimeSpec::from_duration(at)),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )?;
        }
        None => timer.unset()?,
    }
    let sources = host.interfaces.iter().flat_map(Interface::descriptors);
    let sources = [changes.as_fd(), timer.as_fd()].into_iter().chain(sources);
    let mut sources: Vec<_> = sources.map(|source| PollFd::new(source, PollFlags::POLLIN)).collect();
    match poll(&mut sources, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether interfaces have changed. What the messages say is not read: a look at all interfaces follows.
fn drain(changes: &OwnedFd) -> io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    let mut changed = false;
    loop {
        match recv(changes.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            // Messages were lost.
            Ok(_) | Err(Errno::ENOBUFS) => changed = true,
            Err(Errno::EAGAIN) => return Ok(changed),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Since the boot.
fn now() -> io::Result<Moment> {
    Ok(nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)?.into())
}

struct Host<'a> {
    settings: &'a Settings,
    follower: Follower<'a>,
    interfaces: Vec<Interface>,
    notifier: Notifier,
    /// As it was last reported.
    status: String,
}

impl Host<'_> {
    /// Finds the interfaces as they are now.
    fn look(&mut self) -> io::Result<()> {
        let specs = &self.settings.interfaces;
        let found = self.follower.look()?;
        let pairs = found.iter().zip(choose(specs, &found));
        let links = pairs.filter_map(|(found, place)| {
            let spec = specs.get(place?).filter(|spec| spec.dhcp.is_some())?;
            (found.link.kind == ETHERNET && found.link.hardware.is_some()).then_some((&found.link, spec))
        });
        let links: Vec<(&Link, &InterfaceSpec)> = links.collect();
        let is_there = |interface: &Interface| {
            let same = |link: &Link| {
                (link.index, &link.name, link.hardware)
                    == (interface.index, &interface.name, Some(interface.hardware))
            };
            links.iter().any(|(link, _)| same(link))
        };
        let before = self.interfaces.len();
        self.interfaces.retain(is_there);
        let mut changed = self.interfaces.len() != before;
        let now = now()?;
        for (link, spec) in links {
            let known = self.interfaces.iter().position(|interface| interface.index == link.index);
            let place = known.or_else(|| self.open(link, spec, now));
            if let Some(interface) = place.and_then(|place| self.interfaces.get_mut(place)) {
                changed |= interface.look(link, &self.settings.folder, now);
            }
        }
        if changed {
            self.write_resolver();
        }
        Ok(())
    }

    fn open(&mut self, link: &Link, spec: &InterfaceSpec, now: Moment) -> Option<usize> {
        let found = (link.name.as_str(), link.index, link.hardware?);
        match Interface::open(found, spec, &self.settings.folder, now) {
            Ok(interface) => {
                self.interfaces.push(interface);
                self.interfaces.len().checked_sub(1)
            }
            // It is tried again when something changes.
            Err(error) => {
                line(format_args!("{}: {error}", link.name));
                None
            }
        }
    }

    /// Takes in what has come to the interfaces, and what their time asks for.
    fn receive(&mut self) -> io::Result<()> {
        let now = now()?;
        let folder = &self.settings.folder;
        let mut changed = false;
        for interface in &mut self.interfaces {
            changed |= interface.receive(folder, now);
            if interface.deadline().is_some_and(|deadline| deadline <= now) {
                changed |= interface.handle(Input::Time, folder, now);
            }
        }
        if changed {
            self.write_resolver();
        }
        Ok(())
    }

    fn write_resolver(&self) {
        let leases: Vec<_> = self.interfaces.iter().filter_map(Interface::lease).collect();
        resolver::write(&self.settings.folder, &self.settings.name_servers(), &leases);
    }

    fn report(&mut self) {
        let status: Vec<String> = self.interfaces.iter().map(Interface::status).collect();
        let status = if status.is_empty() { self.follower.status() } else { status.join("; ") };
        if self.status != status {
            // The next change has a status, too.
            let _ = self.notifier.send(&format!("STATUS={status}"));
            self.status = status;
        }
    }
}
