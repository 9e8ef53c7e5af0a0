//! The wait for a network interface to come.

use std::io;
use std::os::fd::AsRawFd;

use kelson_sys::descriptor::Watched;
use kelson_sys::netlink::{self, index_of};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockProtocol, recv};

/// The names of all interfaces, sorted.
pub fn names() -> Vec<String> {
    let Ok(folder) = std::fs::read_dir("/sys/class/net") else { return Vec::new() };
    let mut names: Vec<String> =
        folder.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The network card that came first: the lowest number of those that are Ethernet and belong to a device.
fn first_card() -> Option<(String, u32)> {
    let mut cards: Vec<(u32, String)> = std::fs::read_dir("/sys/class/net")
        .ok()?
        .flatten()
        .filter(|entry| {
            let kind = std::fs::read_to_string(entry.path().join("type")).unwrap_or_default();
            kind.trim() == "1" && entry.path().join("device").exists()
        })
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| index_of(&name).map(|index| (index, name)))
        .collect();
    cards.sort_unstable();
    cards.into_iter().next().map(|(index, name)| (name, index))
}

/// Waits until an interface is there: the one of that name, or the first network card. Returns its name and number.
/// Waits without end; cancelled by dropping.
///
/// # Errors
/// When no netlink socket can be had.
pub async fn appear(name: Option<&str>) -> io::Result<(String, u32)> {
    // Before the first look, so that what comes between look and wait is not missed.
    let news =
        Watched::reading(netlink::open(SockProtocol::NetlinkRoute, libc::RTMGRP_LINK.cast_unsigned())?)?;
    loop {
        let found = match name {
            Some(name) => index_of(name).map(|index| (name.to_owned(), index)),
            None => first_card(),
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let mut guard = news.readable().await?;
        let mut buffer = [0; 4096];
        while !matches!(
            recv(guard.get_inner().as_raw_fd(), &mut buffer, MsgFlags::empty()),
            Err(Errno::EAGAIN)
        ) {}
        guard.clear_ready();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_there_is_not_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.block_on(appear(Some("lo"))).unwrap().0, "lo");
    }
}
