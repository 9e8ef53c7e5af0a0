//! The answer of a name server.

use kelson_timesync::resolver;

/// One datagram, as an answer to the question whose number it has.
pub fn answer(data: &[u8]) {
    let number = data.first_chunk().map_or(0, |number| u16::from_be_bytes(*number));
    if let Ok(addresses) = resolver::answer(data, number) {
        // A record of an address has at least its own bytes.
        assert!(addresses.len() * 4 <= data.len(), "{addresses:?}");
    }
}
