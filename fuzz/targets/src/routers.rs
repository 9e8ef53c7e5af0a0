//! The options of router advertisements.

use kelson_net::advertisement::{Advice, read};
use kelson_net::names::sound;

/// The options as the kernel passes them on.
pub fn options(data: &[u8]) {
    for (advice, _) in read(data) {
        match advice {
            Advice::Domain(domain) => assert_eq!(sound(domain.as_bytes()).as_ref(), Some(&domain)),
            Advice::NameServer(server) => assert!(!server.is_multicast()),
        }
    }
}
