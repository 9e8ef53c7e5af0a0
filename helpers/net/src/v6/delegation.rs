//! Networks of a delegated prefix: one of 64 bits for each interface that the machine file names.

use std::net::Ipv6Addr;

/// Of a network in which hosts choose their addresses.
pub const NETWORK: u8 = 64;

/// The address that this host has in the network of this number within the prefix: its first one. `None`: the prefix has
/// no such network.
pub fn address(prefix: Ipv6Addr, length: u8, number: usize) -> Option<Ipv6Addr> {
    let bits = NETWORK.checked_sub(length)?;
    let number = u128::try_from(number).ok()?;
    let is_within = number.checked_shr(bits.into()).is_none_or(|rest| rest == 0);
    is_within.then(|| Ipv6Addr::from_bits(prefix.to_bits() | number << NETWORK | 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_has_a_network_while_there_is_one() {
        let of = |prefix: &str, length, number| {
            address(prefix.parse().unwrap(), length, number).map(|address| address.to_string())
        };
        assert_eq!(of("2001:db8:1::", 48, 0).as_deref(), Some("2001:db8:1::1"));
        assert_eq!(of("2001:db8:1::", 48, 0xffff).as_deref(), Some("2001:db8:1:ffff::1"));
        assert_eq!(of("2001:db8:1::", 48, 0x10000), None);
        assert_eq!(of("2001:db8:1:ab00::", 56, 3).as_deref(), Some("2001:db8:1:ab03::1"));
        assert_eq!(of("2001:db8:1:ab00::", 64, 0).as_deref(), Some("2001:db8:1:ab00::1"));
        assert_eq!(of("2001:db8:1:ab00::", 64, 1), None);
        assert_eq!(of("2001:db8:1:ab00::", 65, 0), None);
    }
}
