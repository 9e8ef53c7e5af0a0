//! What the kernel tells over rtnetlink.

#[path = "../../../conditions/src/network/message.rs"]
#[allow(dead_code, reason = "what else is in it is for the conditions")]
mod message;
#[path = "../../../conditions/src/network/tables.rs"]
mod tables;

/// One datagram.
pub fn rtnetlink(data: &[u8]) {
    let mut known = tables::Tables::default();
    let mut count = 0;
    for (number, message) in message::Messages::new(data).enumerate() {
        known.take(message.content, number % 2 == 0);
        count = number + 1;
    }
    assert!(count <= data.len() / message::HEADER);
    let _ = known.levels();
}
