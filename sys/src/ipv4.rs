//! Prefixes and netmasks of IPv4.

use std::net::Ipv4Addr;

/// The bits of a prefix of at most 32.
pub fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into())).unwrap_or(0)
}

/// The length of the prefix that a netmask stands for; `None`: it has holes.
pub fn prefix(mask: Ipv4Addr) -> Option<u8> {
    let bits = mask.to_bits();
    let ones = bits.leading_ones();
    (ones.saturating_add(bits.trailing_zeros()) >= 32).then(|| u8::try_from(ones).ok()).flatten()
}

/// The length of the prefix where none is given: that of the address class.
pub fn usual_prefix(address: Ipv4Addr) -> u8 {
    match address.octets() {
        [0..=127, ..] => 8,
        [128..=191, ..] => 16,
        _ => 24,
    }
}

/// Whether two addresses are in the same network of this prefix.
pub fn same_network(one: Ipv4Addr, other: Ipv4Addr, prefix: u8) -> bool {
    (one.to_bits() ^ other.to_bits()) & mask(prefix) == 0
}

/// The broadcast address of the network of this prefix.
pub fn broadcast(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() | !mask(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_masks_are_two_ways_to_write_one_thing() {
        for length in 0..=32 {
            assert_eq!(prefix(Ipv4Addr::from_bits(mask(length))), Some(length));
        }
        for holes in [[255, 0, 255, 0], [0, 0, 0, 255], [127, 0, 0, 0]] {
            assert_eq!(prefix(holes.into()), None, "{holes:?}");
        }
        assert_eq!([10, 172, 192].map(|first| usual_prefix([first, 16, 0, 1].into())), [8, 16, 24]);
    }

    #[test]
    fn a_network_is_what_shares_the_prefix() {
        let (one, near, far) = ([192, 0, 2, 7].into(), [192, 0, 2, 200].into(), [192, 0, 3, 7].into());
        assert!(same_network(one, near, 24) && !same_network(one, far, 24));
        assert!(same_network(one, far, 0) && !same_network(one, near, 32));
        assert_eq!(broadcast(one, 24), Ipv4Addr::new(192, 0, 2, 255));
        assert_eq!(broadcast(one, 32), one);
    }
}
