//! The answer of a name server.

/// One datagram, as an answer to the question whose number it has.
pub fn answer(data: &[u8]) {
    let number = data.first_chunk().map_or(0, |number| u16::from_be_bytes(*number));
    if let Ok(addresses) = kelson_resolver::answer(data, number) {
        // A record of an address has at least its own bytes.
        assert!(addresses.len() * 4 <= data.len(), "{addresses:?}");
    }
}
