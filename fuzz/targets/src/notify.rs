//! sd_notify.

use kelson_services::service_runner::notify::{Message, parse};

/// One datagram.
pub fn datagram(data: &[u8]) {
    let messages = parse(data);
    assert!(messages.len() <= 32);
    for message in messages {
        if let Message::Status(text) | Message::MainPid(text) = message {
            assert!(text.len() <= 256 && !text.chars().any(char::is_control), "{text:?}");
        }
    }
}
