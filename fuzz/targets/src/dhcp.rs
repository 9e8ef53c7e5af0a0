//! Packets of a DHCP server, and a client that gets them.

use std::time::Duration;

use kelson_net::client::{Client, Input};
use kelson_net::frame;
use kelson_net::lease::Lease;
use kelson_net::message::{Message, Operation};

/// Packets, each after its length and the seconds that pass before it, for a client whose numbers are all zero.
pub fn packets(mut data: &[u8]) {
    let mut client = Client::new([0; 6], None, true, None, Box::new(|| 0));
    let mut now = Duration::from_secs(1);
    client.handle(now, Input::Link(true));
    while let Some(([high, low, seconds], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (packet, rest) = rest.split_at(length);
        data = rest;
        now += Duration::from_secs(u64::from(*seconds));
        let content = frame::content(packet).unwrap_or(packet);
        if let Some(message) = Message::read(content, Operation::Reply) {
            let bytes = message.write(Operation::Reply);
            assert_eq!(Message::read(&bytes, Operation::Reply).as_ref(), Some(&message));
            let _ = Lease::read(&message, now);
            assert!(client.handle(now, Input::Message(message)).len() < 8);
        }
        if let Some(sender) = frame::arp_sender(packet) {
            client.handle(now, Input::Conflict(sender));
        }
        client.handle(now, Input::Time);
        assert!(client.deadline().is_none_or(|next| next > now), "it would turn in a circle");
    }
}
