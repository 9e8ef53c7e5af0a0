//! `kelson-net`: follows the interfaces that the machine file names: their static settings, addresses by DHCPv4 and DHCPv6,
//! and the name servers of router advertisements.
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
mod host;
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
pub mod v6;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use kelson_helper::notify::Notifier;
use kelson_helper::user::leave_root_with;
use kelson_spec::names::NET_USER;
use kelson_sys::capability::{NET_ADMIN, NET_BIND_SERVICE, NET_RAW};
use kelson_sys::netlink::{self, ADVERTISEMENTS, Content, IPV6_INTERFACES, Messages};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockProtocol, recv};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use host::Host;
use lease::{Moment, now};
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
    let has_v6 = settings.interfaces.iter().any(|spec| spec.dhcp6.is_some());
    let v6 = IPV6_INTERFACES | libc::RTMGRP_IPV6_IFADDR.cast_unsigned();
    let groups = libc::RTMGRP_LINK.cast_unsigned()
        | if has_routers { ADVERTISEMENTS } else { 0 }
        | if has_v6 { v6 } else { 0 };
    let changes = netlink::open(SockProtocol::NetlinkRoute, groups)?;
    let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
    let mut host = Host::new(settings, notifier);
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
    match host.deadline() {
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
    let sources = [changes.as_fd(), timer.as_fd()].into_iter().chain(host.descriptors());
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
