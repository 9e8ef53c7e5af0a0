//! `kelson-net`: follows the interfaces that the machine file names: their static settings, addresses by DHCPv4, and the
//! name servers of router advertisements.
//!
//! `kelson-net FOLDER WORD…` ([`settings`]). It stays root until it has made the folder for leases and for the file of name
//! servers; from then on it has the capabilities for sockets and interfaces alone. What it has configured lives in the
//! kernel and in the folder: if this process ends, nothing changes, and the next one continues where it was.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing))]

pub mod advertisement;
pub mod client;
mod exchange;
mod follower;
pub mod frame;
mod hosts;
mod identity;
mod interface;
pub mod lease;
pub mod links;
pub mod message;
pub mod names;
mod record;
mod resolver;
mod routers;
mod settings;
mod state;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use kelson_helper::log::line;
use kelson_helper::notify::{EVENT, HOST_NAME, Notifier};
use kelson_helper::user::leave_root_with;
use kelson_spec::names::NET_USER;
use kelson_spec::network::InterfaceSpec;
use kelson_sys::capability::{NET_ADMIN, NET_BIND_SERVICE, NET_RAW};
use kelson_sys::netlink::{self, ADVERTISEMENTS, Content, Link, Messages};
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
use routers::Routers;
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
    let hosts = settings.takes_host_name().then_some(hosts::FILE);
    prepare(&settings.folder, [resolver::FILE].into_iter().chain(hosts))?;
    let notifier = Notifier::connect()?;
    // A boot does not wait for addresses; services that need them say so.
    notifier.send("READY=1")?;
    if !leave_root_with(NET_USER, NET_USER, NET_ADMIN | NET_BIND_SERVICE | NET_RAW)? {
        eprintln!("this user namespace has no user {}: it stays root", NET_USER);
    }
    let has_routers = settings.interfaces.iter().any(|spec| spec.router_advertisements == Some(true));
    let groups = libc::RTMGRP_LINK.cast_unsigned() | if has_routers { ADVERTISEMENTS } else { 0 };
    let changes = netlink::open(SockProtocol::NetlinkRoute, groups)?;
    let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
    let follower = Follower::new(&settings.interfaces);
    let routers = Routers::new(&settings.folder);
    let mut host =
        Host { settings, follower, routers, interfaces: Vec::new(), notifier, status: String::new() };
    host.look()?;
    host.write_names();
    loop {
        host.report();
        wait(&host, &changes, &timer)?;
        // First, because it takes the errors that an interface leaves in its sockets when it goes down.
        host.receive()?;
        let news = take(&changes)?;
        if news.is_change {
            host.look()?;
        }
        host.hear(&news.advertised)?;
    }
}

/// The folder, for a user who is not root, and the public names of its files.
fn prepare(folder: &Path, files: impl Iterator<Item = &'static str>) -> io::Result<()> {
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    match fs::create_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at(error)),
        _ => {}
    }
    if nix::unistd::geteuid().is_root() {
        chown(folder, Some(NET_USER), Some(NET_USER)).map_err(at)?;
    }
    for file in files {
        let (public, target) = (folder.with_file_name(file), folder.join(file));
        if fs::read_link(&public).is_ok_and(|link| link == target) {
            continue;
        }
        let temporary = public.with_extension("new");
        let _ = fs::remove_file(&temporary);
        symlink(&target, &temporary).and_then(|()| fs::rename(&temporary, &public)).map_err(at)?;
    }
    Ok(())
}

/// Waits until something comes, or the time of an interface.
fn wait(host: &Host<'_>, changes: &OwnedFd, timer: &TimerFd) -> io::Result<()> {
    let now = now()?;
    let first = host.interfaces.iter().filter_map(Interface::deadline).chain(host.routers.deadline()).min();
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

/// What the kernel reports.
#[derive(Default)]
struct News {
    /// Interfaces have changed. How is not read from the messages: a look at all of them follows.
    is_change: bool,
    /// The options of router advertisements, by the numbers of interfaces.
    advertised: Vec<(u32, Vec<u8>)>,
}

fn take(changes: &OwnedFd) -> io::Result<News> {
    let mut buffer = [0; 16 << 10];
    let mut news = News::default();
    // A flood must not keep the rest waiting.
    for _ in 0..256 {
        match recv(changes.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(length) => {
                for message in Messages::new(buffer.get(..length).unwrap_or_default()) {
                    match message.content {
                        Content::Advertised { index, options } => news.advertised.push((index, options)),
                        _ => news.is_change = true,
                    }
                }
            }
            // Messages were lost.
            Err(Errno::ENOBUFS) => news.is_change = true,
            Err(Errno::EAGAIN) => break,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(news)
}

/// Since the boot.
fn now() -> io::Result<Moment> {
    Ok(nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)?.into())
}

struct Host<'a> {
    settings: &'a Settings,
    follower: Follower<'a>,
    routers: Routers,
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
        let chosen = choose(specs, &found);
        let now = now()?;
        let pairs =
            || found.iter().zip(&chosen).filter_map(|(found, place)| Some((found, specs.get((*place)?)?)));
        let routed = pairs().filter(|(_, spec)| spec.router_advertisements == Some(true));
        let routed =
            routed.map(|(found, _)| (found.link.index, found.link.name.as_str(), found.link.is_running()));
        let mut changed = self.routers.look(routed, now);
        let links = pairs().filter_map(|(found, spec)| {
            let is_ethernet = found.link.kind == ETHERNET && found.link.hardware.is_some();
            (is_ethernet && spec.dhcp.is_some()).then_some((&found.link, spec))
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
        changed |= self.interfaces.len() != before;
        for (link, spec) in links {
            let known = self.interfaces.iter().position(|interface| interface.index == link.index);
            let place = known.or_else(|| self.open(link, spec, now));
            if let Some(interface) = place.and_then(|place| self.interfaces.get_mut(place)) {
                changed |= interface.look(link, &self.settings.folder, now);
            }
        }
        if changed {
            self.write_names();
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
        let mut changed = self.routers.deadline().is_some_and(|at| at <= now) && self.routers.time(now);
        for interface in &mut self.interfaces {
            changed |= interface.receive(folder, now);
            if interface.deadline().is_some_and(|deadline| deadline <= now) {
                changed |= interface.handle(Input::Time, folder, now);
            }
        }
        if changed {
            self.write_names();
        }
        Ok(())
    }

    /// Takes in what routers say about names.
    fn hear(&mut self, advertised: &[(u32, Vec<u8>)]) -> io::Result<()> {
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
    fn write_names(&self) {
        let leases: Vec<_> = self.interfaces.iter().filter_map(Interface::lease).collect();
        resolver::write(&self.settings.folder, &self.settings.name_servers(), &leases, &self.routers);
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

    fn report(&mut self) {
        for event in self.interfaces.iter_mut().flat_map(|interface| interface.events.drain(..)) {
            // It is in the log besides.
            let _ = self.notifier.send(&format!("{EVENT}={event}"));
        }
        let leases = self.interfaces.iter().map(Interface::status);
        let status: Vec<String> = leases.chain(self.routers.status()).collect();
        let status = if status.is_empty() { self.follower.status() } else { status.join("; ") };
        if self.status != status {
            // The next change has a status, too.
            let _ = self.notifier.send(&format!("STATUS={status}"));
            self.status = status;
        }
    }
}
