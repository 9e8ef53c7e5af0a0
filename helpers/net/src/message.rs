//! Messages of DHCPv4: RFC 2131 for their form, RFC 3396 for options that are split over several places.
//!
//! Total: of whatever bytes come, a message is read or is not; nothing in it is followed further than its own bytes.

use std::net::Ipv4Addr;

use kelson_sys::packet::Mac;

/// The fixed part, with the magic number that the options follow.
const FIXED: usize = 240;
const MAGIC: [u8; 4] = [99, 130, 83, 99];
/// A longer value is split (RFC 3396).
const LONGEST_OPTION: usize = 255;
/// Relays drop what is shorter (RFC 1542, 2.1).
const SHORTEST: usize = 300;

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ETHERNET: u8 = 1;

/// The codes of options that Kelson sends or reads.
pub mod code {
    pub const PAD: u8 = 0;
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTER: u8 = 3;
    pub const NAME_SERVER: u8 = 6;
    pub const HOST_NAME: u8 = 12;
    pub const DOMAIN_NAME: u8 = 15;
    pub const MTU: u8 = 26;
    pub const NTP_SERVER: u8 = 42;
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const MESSAGE_TYPE: u8 = 53;
    pub const SERVER: u8 = 54;
    pub const PARAMETERS: u8 = 55;
    pub const TEXT: u8 = 56;
    pub const LARGEST_MESSAGE: u8 = 57;
    pub const RENEWAL: u8 = 58;
    pub const REBINDING: u8 = 59;
    pub const CLIENT: u8 = 61;
    pub const SEARCH: u8 = 119;
    pub const ROUTES: u8 = 121;
    pub const END: u8 = 255;
}

/// The kinds of messages that a client sends or receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Discover,
    Offer,
    Request,
    Decline,
    Ack,
    Nak,
}

impl Kind {
    const ALL: [(u8, Kind); 6] = [
        (1, Kind::Discover),
        (2, Kind::Offer),
        (3, Kind::Request),
        (4, Kind::Decline),
        (5, Kind::Ack),
        (6, Kind::Nak),
    ];

    fn number(self) -> u8 {
        Kind::ALL.into_iter().find(|(_, kind)| *kind == self).map_or(0, |(number, _)| number)
    }

    fn of(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|(known, _)| *known == number).map(|(_, kind)| kind)
    }
}

/// A message, without the fields that no client of today uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    /// Which exchange it belongs to.
    pub transaction: u32,
    /// Since the client began the exchange.
    pub seconds: u16,
    /// The client's address, while it has one; zeroes otherwise.
    pub client: Ipv4Addr,
    /// The address that the server gives.
    pub yours: Ipv4Addr,
    pub hardware: Mac,
    /// Each code once, in the order of the message; without the kind.
    pub options: Vec<(u8, Vec<u8>)>,
}

impl Message {
    /// The value of an option.
    pub fn option(&self, code: u8) -> Option<&[u8]> {
        self.options.iter().find(|(known, _)| *known == code).map(|(_, value)| value.as_slice())
    }

    /// An option that is one address.
    pub fn address(&self, code: u8) -> Option<Ipv4Addr> {
        let bytes: [u8; 4] = self.option(code)?.try_into().ok()?;
        Some(bytes.into())
    }

    /// An option that is a number of 32 bits.
    pub fn number(&self, code: u8) -> Option<u32> {
        Some(u32::from_be_bytes(self.option(code)?.try_into().ok()?))
    }

    /// As it is sent.
    pub fn write(&self, operation: Operation) -> Vec<u8> {
        let operation = match operation {
            Operation::Request => REQUEST,
            Operation::Reply => REPLY,
        };
        let mut bytes = vec![operation, ETHERNET, 6, 0];
        bytes.extend(self.transaction.to_be_bytes());
        bytes.extend(self.seconds.to_be_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.client.octets());
        bytes.extend(self.yours.octets());
        // The next server of a boot, and the relay.
        bytes.extend([0; 8]);
        bytes.extend(self.hardware);
        bytes.resize(FIXED.saturating_sub(MAGIC.len()), 0);
        bytes.extend(MAGIC);
        put(&mut bytes, code::MESSAGE_TYPE, &[self.kind.number()]);
        for (code, value) in &self.options {
            let (first, rest) = value.split_at(value.len().min(LONGEST_OPTION));
            put(&mut bytes, *code, first);
            for part in rest.chunks(LONGEST_OPTION) {
                put(&mut bytes, *code, part);
            }
        }
        bytes.push(code::END);
        bytes.resize(bytes.len().max(SHORTEST), 0);
        bytes
    }

    /// Reads a message for or from this operation.
    pub fn read(bytes: &[u8], operation: Operation) -> Option<Message> {
        let fixed: &[u8; FIXED] = bytes.first_chunk()?;
        let [op, kind, length, ..] = *fixed;
        let sent = match operation {
            Operation::Request => REQUEST,
            Operation::Reply => REPLY,
        };
        if (op, kind, length) != (sent, ETHERNET, 6) || fixed.last_chunk() != Some(&MAGIC) {
            return None;
        }
        let mut options = Vec::new();
        take(bytes.get(FIXED..)?, &mut options);
        let overload =
            options.iter().find(|(code, _)| *code == code::OVERLOAD).map(|(_, value)| value.as_slice());
        // The fields of the file and of the server's name, in this order, may hold further options.
        let (file, name) = match overload {
            Some([1]) => (true, false),
            Some([2]) => (false, true),
            Some([3]) => (true, true),
            _ => (false, false),
        };
        if file {
            take(fixed.get(108..236)?, &mut options);
        }
        if name {
            take(fixed.get(44..108)?, &mut options);
        }
        let place = options.iter().position(|(code, _)| *code == code::MESSAGE_TYPE)?;
        let (_, kind) = options.remove(place);
        Some(Message {
            kind: Kind::of(*kind.first()?)?,
            transaction: u32::from_be_bytes(part(fixed, 4)?),
            seconds: u16::from_be_bytes(part(fixed, 8)?),
            client: part::<4>(fixed, 12)?.into(),
            yours: part::<4>(fixed, 16)?.into(),
            hardware: part(fixed, 28)?,
            options,
        })
    }
}

/// Who sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A client.
    Request,
    /// A server.
    Reply,
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn put(bytes: &mut Vec<u8>, code: u8, value: &[u8]) {
    bytes.extend([code, u8::try_from(value.len()).unwrap_or(u8::MAX)]);
    bytes.extend(value);
}

/// Adds the options of one field; those of a code that is there already are appended to it.
fn take(mut field: &[u8], options: &mut Vec<(u8, Vec<u8>)>) {
    while let Some((code, rest)) = field.split_first() {
        match *code {
            code::PAD => field = rest,
            code::END => return,
            code => {
                let Some((length, rest)) = rest.split_first() else { return };
                let Some((value, rest)) = rest.split_at_checked(usize::from(*length)) else { return };
                match options.iter_mut().find(|(known, _)| *known == code) {
                    Some((_, known)) => known.extend(value),
                    None => options.push((code, value.to_vec())),
                }
                field = rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Message {
        Message {
            kind: Kind::Offer,
            transaction: 0x1234_5678,
            seconds: 3,
            client: Ipv4Addr::UNSPECIFIED,
            yours: [192, 0, 2, 7].into(),
            hardware: [2, 0, 0, 0, 0, 1],
            options: vec![
                (code::SERVER, vec![192, 0, 2, 1]),
                (code::LEASE_TIME, 600_u32.to_be_bytes().to_vec()),
                (code::TEXT, vec![b'x'; 300]),
                (code::DOMAIN_NAME, Vec::new()),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = offer().write(Operation::Reply);
        assert_eq!(Message::read(&bytes, Operation::Reply), Some(offer()));
        assert_eq!(Message::read(&bytes, Operation::Request), None);
        assert_eq!(offer().address(code::SERVER), Some([192, 0, 2, 1].into()));
        assert_eq!(offer().number(code::LEASE_TIME), Some(600));
        assert_eq!(offer().number(code::TEXT), None);
        let short = Message { options: Vec::new(), ..offer() };
        assert_eq!(short.write(Operation::Request).len(), SHORTEST);
    }

    #[test]
    fn options_continue_in_the_fields_of_the_file_and_the_name() {
        let mut bytes = offer().write(Operation::Reply);
        // In the place of the text: the file and the name hold a part of it each.
        bytes.truncate(FIXED + 3 + 6 + 6);
        bytes.extend([code::OVERLOAD, 1, 3, code::END]);
        bytes[108..113].copy_from_slice(&[code::TEXT, 2, b'a', b'b', code::END]);
        bytes[44..48].copy_from_slice(&[code::TEXT, 1, b'c', code::END]);
        let read = Message::read(&bytes, Operation::Reply).unwrap();
        assert_eq!(read.option(code::TEXT), Some(&b"abc"[..]));
    }

    #[test]
    fn a_message_that_is_cut_or_wrong_is_survived() {
        let whole = offer().write(Operation::Reply);
        for end in 0..whole.len() {
            let read = Message::read(&whole[..end], Operation::Reply);
            assert!(end > FIXED + 2 || read.is_none(), "cut at {end}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 52, 53, 255] {
                let mut wrong = whole.clone();
                wrong[at] = value;
                if let Some(read) = Message::read(&wrong, Operation::Reply) {
                    let held: usize = read.options.iter().map(|(_, value)| value.len()).sum();
                    assert!(held <= wrong.len());
                }
            }
        }
    }
}
