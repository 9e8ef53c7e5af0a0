//! The kernel's messages over rtnetlink.

use kelson_sys::netlink::{HEADER, Messages};

#[path = "../../../conditions/src/sources/network/tables.rs"]
mod tables;

/// One datagram.
pub fn rtnetlink(data: &[u8]) {
    let mut known = tables::Tables::default();
    let mut count = 0;
    for (number, message) in Messages::new(data).enumerate() {
        known.take(message.content, number % 2 == 0);
        count = number + 1;
    }
    assert!(count <= data.len() / HEADER);
    let _ = known.levels(None);
}
