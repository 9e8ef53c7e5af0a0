//! Follows links, addresses and default routes through one rtnetlink socket.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use kelson_sys::descriptor::Watched;
use kelson_sys::netlink::{self, Content, Messages, Request};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, NetlinkAddr, SockProtocol, recvfrom, sendto};
use tokio::sync::watch;
use tokio::time::sleep;

use super::tables::{Levels, Tables};
use crate::on_demand::publish;

/// The kernel fits its answers into what is read at once; a link with very many attributes may still need more.
const BUFFER: usize = 16 << 10;
const LARGEST_BUFFER: usize = 1 << 20;

/// Between two tries after an error that nothing explains.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The dumps to ask for, in this order: an address means nothing without its link.
const DUMPS: [u16; 3] = [libc::RTM_GETLINK, libc::RTM_GETADDR, libc::RTM_GETROUTE];

/// Publishes the levels for ever; `bridge` is that of containers.
pub(super) async fn follow(levels: watch::Sender<Option<Levels>>, bridge: Option<Arc<str>>) {
    let mut pause = SHORTEST_PAUSE;
    let mut size = BUFFER;
    loop {
        let Err(error) = follow_one_socket(&levels, bridge.as_deref(), &mut size).await;
        publish(&levels, Some(Levels::default()));
        tracing::warn!("the network cannot be followed, trying again in {pause:?}: {error}");
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

async fn follow_one_socket(
    levels: &watch::Sender<Option<Levels>>,
    bridge: Option<&str>,
    size: &mut usize,
) -> io::Result<Infallible> {
    let socket = Watched::reading(open()?)?;
    let mut buffer = vec![0; *size];
    let mut dump = Dump::default();
    dump.ask_all(&socket)?;
    loop {
        let mut ready = socket.readable().await?;
        let datagram = match recvfrom::<NetlinkAddr>(socket.get_ref().as_raw_fd(), &mut buffer) {
            // Only the kernel is believed.
            Ok((_, Some(sender))) if sender.pid() != 0 => continue,
            Ok((length, _)) if length < buffer.len() => buffer.get(..length).unwrap_or_default(),
            // It may have been cut short, and the end of an answer be lost with the rest.
            Ok((length, _)) => {
                *size = length.saturating_mul(2).min(LARGEST_BUFFER);
                return Err(io::Error::other(format!(
                    "a message of the kernel is longer than {length} bytes"
                )));
            }
            Err(Errno::EAGAIN) => {
                ready.clear_ready();
                continue;
            }
            Err(Errno::EINTR) => continue,
            // The kernel had more to tell than the socket could hold.
            Err(Errno::ENOBUFS) => {
                dump.again = true;
                &[]
            }
            Err(error) => return Err(error.into()),
        };
        for message in Messages::new(datagram) {
            dump.take(message.sequence, message.interrupted, message.content)?;
        }
        dump.proceed(&socket)?;
        if dump.is_complete() {
            publish(levels, Some(dump.tables.levels(bridge)));
        }
        // A flood must not keep the rest of the host waiting.
        tokio::task::consume_budget().await;
    }
}

fn open() -> io::Result<OwnedFd> {
    let groups = libc::RTMGRP_LINK
        | libc::RTMGRP_IPV4_IFADDR
        | libc::RTMGRP_IPV6_IFADDR
        | libc::RTMGRP_IPV4_ROUTE
        | libc::RTMGRP_IPV6_ROUTE;
    Ok(netlink::open(SockProtocol::NetlinkRoute, groups.cast_unsigned())?)
}

/// The tables, and how far asking for them has come.
#[derive(Default)]
struct Dump {
    tables: Tables,
    /// Of the request under way; the sequence number tells its answers from those to earlier ones.
    sequence: u32,
    /// The dumps that are still to be asked for; the first is under way unless `answered`.
    left: &'static [u16],
    answered: bool,
    /// All must be asked for once more, since something was lost.
    again: bool,
}

impl Dump {
    fn ask_all(&mut self, socket: &Watched<OwnedFd>) -> io::Result<()> {
        self.tables = Tables::default();
        self.again = false;
        self.left = &DUMPS;
        self.ask_first(socket)
    }

    fn ask_first(&mut self, socket: &Watched<OwnedFd>) -> io::Result<()> {
        let Some(kind) = self.left.first() else { return Ok(()) };
        self.answered = false;
        // 0 is the kernel's own.
        self.sequence = self.sequence.checked_add(1).unwrap_or(1);
        let request = Request::dump(*kind, self.sequence);
        let kernel = NetlinkAddr::new(0, 0);
        sendto(socket.get_ref().as_raw_fd(), &request, &kernel, MsgFlags::empty())?;
        Ok(())
    }

    fn take(&mut self, sequence: u32, interrupted: bool, content: Content) -> io::Result<()> {
        let asked = sequence == self.sequence && !self.left.is_empty();
        if asked {
            self.again |= interrupted;
            match content {
                Content::Done => self.answered = true,
                Content::Error(errno) if errno == libc::EINTR => (self.again, self.answered) = (true, true),
                Content::Error(0) => {}
                Content::Error(errno) => return Err(io::Error::from_raw_os_error(errno)),
                other => self.again |= self.tables.take(other, true),
            }
        } else {
            self.again |= self.tables.take(content, false);
        }
        Ok(())
    }

    /// Asks for what comes next. One at a time: the kernel refuses a second while one is under way.
    fn proceed(&mut self, socket: &Watched<OwnedFd>) -> io::Result<()> {
        if self.answered {
            self.answered = false;
            self.left = self.left.get(1..).unwrap_or_default();
            if !self.left.is_empty() {
                return self.ask_first(socket);
            }
        }
        if self.left.is_empty() && self.again { self.ask_all(socket) } else { Ok(()) }
    }

    fn is_complete(&self) -> bool {
        self.left.is_empty()
    }
}
