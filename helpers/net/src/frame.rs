//! The packets around a message: the headers of IPv4 and UDP, for an interface that has no address yet, and ARP.

use std::net::Ipv4Addr;

use kelson_sys::packet::{Mac, Test};

/// The port of a server and that of a client.
pub const SERVER: u16 = 67;
pub const CLIENT: u16 = 68;

const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;

/// What a client receives: datagrams of UDP for its port, each in one piece.
pub const FOR_CLIENT: [Test; 3] = [Test::Byte(9, UDP), Test::FirstFragment, Test::HalfAfterIpv4(2, CLIENT)];

/// What a socket receives that only sends.
pub const NONE: [Test; 1] = [Test::Half(4, 0)];

/// A message to all servers of the link; `from`: zeroes for a client that has no address yet.
pub fn broadcast(message: &[u8], from: Ipv4Addr) -> Vec<u8> {
    datagram((from, CLIENT), (Ipv4Addr::BROADCAST, SERVER), message)
}

/// A datagram of UDP with its header of IPv4.
pub fn datagram(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), content: &[u8]) -> Vec<u8> {
    let length = |header: usize| u16::try_from(content.len().saturating_add(header)).unwrap_or(u16::MAX);
    let (udp, whole) = (length(UDP_HEADER), length(IP_HEADER.saturating_add(UDP_HEADER)));
    let mut packet = vec![0x45, 0];
    packet.extend(whole.to_be_bytes());
    // Its number, and where in a fragmented datagram it belongs: it is not fragmented.
    packet.extend([0; 4]);
    packet.extend([64, UDP, 0, 0]);
    packet.extend(from.0.octets());
    packet.extend(to.0.octets());
    let sum = checksum(&packet, 0).to_be_bytes();
    replace(&mut packet, 10, sum);
    let start = packet.len();
    for half in [from.1, to.1, udp, 0] {
        packet.extend(half.to_be_bytes());
    }
    packet.extend(content);
    // The sum covers parts of the header of IPv4, too.
    let pseudo = [from.0.octets(), to.0.octets(), [0, UDP, 0, 0]].concat();
    let pseudo = u32::from(!checksum(&pseudo, udp.into()));
    let sum = match checksum(packet.get(start..).unwrap_or_default(), pseudo) {
        // 0 would say that there is none.
        0 => u16::MAX,
        sum => sum,
    };
    replace(&mut packet, start.saturating_add(6), sum.to_be_bytes());
    packet
}

fn replace(packet: &mut [u8], at: usize, bytes: [u8; 2]) {
    for (slot, byte) in packet.iter_mut().skip(at).zip(bytes) {
        *slot = byte;
    }
}

/// The checksum of RFC 1071 over these bytes and a sum that is known already.
fn checksum(bytes: &[u8], known: u32) -> u16 {
    let halves = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u16::from_be_bytes([*high, *low]),
        [high] => u16::from_be_bytes([*high, 0]),
        _ => 0,
    });
    let mut sum = halves.fold(known, |sum, half| sum.saturating_add(half.into()));
    while sum > 0xffff {
        sum = (sum >> 16).saturating_add(sum & 0xffff);
    }
    !u16::try_from(sum).unwrap_or_default()
}

/// The content of a datagram of UDP from the port of a server to that of a client.
///
/// Its checksum is not tested: the kernel leaves it unfinished where both ends are on one computer, and the number of the
/// transaction and the magic number tell a damaged message.
pub fn content(packet: &[u8]) -> Option<&[u8]> {
    let header = usize::from(packet.first()? & 0xf).checked_mul(4)?;
    if packet.first()? >> 4 != 4 || header < IP_HEADER || *packet.get(9)? != UDP {
        return None;
    }
    let whole = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let [p, q, r, s, m, n, _, _, rest @ ..] = packet.get(header..whole)? else { return None };
    let (from, to) = (u16::from_be_bytes([*p, *q]), u16::from_be_bytes([*r, *s]));
    let length = usize::from(u16::from_be_bytes([*m, *n])).checked_sub(UDP_HEADER)?;
    ((from, to) == (SERVER, CLIENT)).then(|| rest.get(..length)).flatten()
}

/// Ethernet and IPv4, with addresses of 6 and 4 bytes.
const ARP: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// A question of ARP about an address. `sender`: zeroes to probe it, the address itself to announce it (RFC 5227).
pub fn arp(own: Mac, sender: Ipv4Addr, about: Ipv4Addr) -> Vec<u8> {
    let mut packet = ARP.to_vec();
    packet.extend([0, 1]);
    packet.extend(own);
    packet.extend(sender.octets());
    packet.extend([0; 6]);
    packet.extend(about.octets());
    packet
}

/// What can tell of a conflict: the sender uses the address.
pub fn arp_from(address: Ipv4Addr) -> [Test; 1] {
    [Test::Word(14, address.to_bits())]
}

/// What can tell of a conflict while an address is probed, besides [`arp_from`]: another host probes it, too.
pub fn arp_probe_of(address: Ipv4Addr) -> [Test; 3] {
    [Test::Half(6, 1), Test::Word(14, 0), Test::Word(24, address.to_bits())]
}

/// The sender of a packet of ARP.
pub fn arp_sender(packet: &[u8]) -> Option<Mac> {
    packet.starts_with(&ARP).then_some(())?;
    packet.get(8..14)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_has_correct_sums_and_its_content() {
        let packet = datagram(([10, 0, 0, 1].into(), SERVER), ([10, 0, 0, 9].into(), CLIENT), b"abc");
        assert_eq!(checksum(&packet[..20], 0), 0);
        assert_eq!(packet.len(), 31);
        let pseudo = [&packet[12..20], &[0, UDP, 0, 11], &packet[20..]].concat();
        assert_eq!(checksum(&pseudo, 0), 0);
        assert_eq!(content(&packet), Some(&b"abc"[..]));
        // A link may fill up short packets.
        assert_eq!(content(&[packet.as_slice(), &[0; 15]].concat()), Some(&b"abc"[..]));
        assert_eq!(content(&broadcast(b"abc", Ipv4Addr::UNSPECIFIED)), None, "it is for a server");
        for end in 0..packet.len() {
            assert_eq!(content(&packet[..end]), None, "cut at {end}");
        }
        for at in 0..packet.len() {
            for value in [0, 0x40, 0x4f, 0xff] {
                let mut wrong = packet.clone();
                wrong[at] = value;
                assert!(content(&wrong).is_none_or(|content| content.len() <= 3));
            }
        }
    }

    #[test]
    fn a_probe_names_nobody_and_an_announcement_itself() {
        let (own, address) = ([2, 0, 0, 0, 0, 1], Ipv4Addr::new(10, 0, 0, 9));
        let probe = arp(own, Ipv4Addr::UNSPECIFIED, address);
        assert_eq!(probe.len(), 28);
        assert_eq!(probe[14..18], [0; 4]);
        assert_eq!(probe[24..28], address.octets());
        assert_eq!(arp_sender(&probe), Some(own));
        assert_eq!(arp(own, address, address)[14..18], address.octets());
        assert_eq!(arp_sender(&probe[..13]), None);
        assert_eq!(arp_sender(&[0; 28]), None);
    }
}
