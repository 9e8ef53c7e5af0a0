//! Who the client is, and the messages that say so.

use kelson_sys::packet::Mac;

use super::lease::{Granted, Lease};
use super::message::{Association, Item, Kind, Message, Wanted, code};

/// A DUID of the address of Ethernet (RFC 8415, 11.4): it outlasts a boot without a disk.
const LINK_LAYER: [u8; 4] = [0, 3, 0, 1];
const NAMES: [u16; 2] = [code::NAME_SERVERS, code::DOMAINS];

/// The client, as its servers know it.
#[derive(Debug, Clone)]
pub struct Identity {
    duid: Vec<u8>,
    /// Of its associations (IAID).
    pub number: u32,
    /// The length of the prefix that it would like to have; 0: any. `None`: it wants no prefix.
    pub prefix: Option<u8>,
}

impl Identity {
    /// The number is that of the name: interfaces that share their hardware, such as VLANs, have different ones.
    pub fn new(hardware: Mac, name: &str, prefix: Option<u8>) -> Identity {
        // FNV-1a, which is the same in each release.
        let number = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Identity { duid: [LINK_LAYER.as_slice(), &hardware].concat(), number, prefix }
    }

    /// Whether an answer is for this client.
    pub fn is_addressed(&self, message: &Message) -> bool {
        message.options.first(code::CLIENT) == Some(&self.duid)
    }

    /// A message that names the client, and the server where there is one.
    pub fn message(&self, kind: Kind, transaction: u32, elapsed: u16, server: Option<&[u8]>) -> Message {
        let mut message = Message::new(kind, transaction);
        message.options.put(code::CLIENT, self.duid.clone());
        if let Some(server) = server {
            message.options.put(code::SERVER, server);
        }
        message.options.put(code::ELAPSED, elapsed.to_be_bytes());
        let more: &[u16] = match kind {
            Kind::Solicit => &[code::SOLICIT_PAUSE],
            Kind::Request | Kind::Renew | Kind::Rebind => &[],
            Kind::Inform => &[code::REFRESH, code::INFORM_PAUSE],
            _ => return message,
        };
        let codes = NAMES.iter().chain(more).flat_map(|code| code.to_be_bytes());
        message.options.put(code::REQUESTED, codes.collect::<Vec<u8>>());
        message
    }

    /// Adds the associations: with what of `items` the client has or was offered, also an empty one for what it wants.
    pub fn ask(&self, message: &mut Message, items: &[Granted], wants_address: bool) {
        let of = |kind: fn(&Granted) -> bool| {
            let item = |item: &Granted| Item {
                address: item.address,
                length: item.length,
                preferred: None,
                valid: None,
            };
            // A server is not asked for what it has taken back.
            let kept = items.iter().filter(|item| kind(item) && item.reason.is_none());
            kept.map(item).collect::<Vec<_>>()
        };
        let (addresses, mut prefixes) = (of(Granted::is_address), of(|item| !item.is_address()));
        if wants_address || !addresses.is_empty() {
            message.options.0.push(Association::write(Wanted::Address, self.number, &addresses));
        }
        if let Some(length) = self.prefix {
            if prefixes.is_empty() && length > 0 {
                let address = std::net::Ipv6Addr::UNSPECIFIED;
                prefixes.push(Item { address, length, preferred: None, valid: None });
            }
            message.options.0.push(Association::write(Wanted::Prefix, self.number, &prefixes));
        }
    }

    /// Says that other hosts use addresses of this lease.
    pub fn decline(&self, transaction: u32, elapsed: u16, lease: &Lease, item: &Granted) -> Message {
        let mut message = self.message(Kind::Decline, transaction, elapsed, Some(&lease.server));
        let one = Item { address: item.address, length: item.length, preferred: None, valid: None };
        message.options.0.push(Association::write(Wanted::Address, self.number, &[one]));
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_after_a_boot_and_another_for_each_interface() {
        let hardware = [2, 0, 0, 0, 0, 1];
        let identity = |name| Identity::new(hardware, name, None);
        assert_eq!(identity("eth0").duid, [0, 3, 0, 1, 2, 0, 0, 0, 0, 1]);
        // FNV-1a of the name: a change of this number would cost each host its addresses.
        assert_eq!(identity("eth0").number, 0x67b1_9724);
        assert_ne!(identity("eth0").number, identity("eth0.5").number);
    }

    #[test]
    fn it_asks_for_what_it_wants() {
        let codes = |prefix, wants_address| {
            let mut message = Identity::new([0; 6], "eth0", prefix).message(Kind::Solicit, 1, 2, None);
            Identity::new([0; 6], "eth0", prefix).ask(&mut message, &[], wants_address);
            message.options.0.iter().map(|(code, value)| (*code, value.len())).collect::<Vec<_>>()
        };
        let head = [(code::CLIENT, 10), (code::ELAPSED, 2), (code::REQUESTED, 6)];
        assert_eq!(codes(None, true), [&head[..], &[(code::ADDRESSES, 12)]].concat());
        assert_eq!(codes(Some(0), false), [&head[..], &[(code::PREFIXES, 12)]].concat());
        assert_eq!(codes(Some(56), false), [&head[..], &[(code::PREFIXES, 12 + 4 + 25)]].concat());
    }
}
