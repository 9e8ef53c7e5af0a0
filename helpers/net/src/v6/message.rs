//! Messages of DHCPv6 and their options, as RFC 8415 forms them.
//!
//! Total: of whatever bytes come, a message is read or is not; nothing in it is followed further than its own bytes.

use std::net::Ipv6Addr;
use std::time::Duration;

/// The kind, and 24 bits of the transaction.
const HEADER: usize = 4;
/// The largest number of a transaction.
const TRANSACTIONS: u32 = 0xff_ffff;
/// The time that has no end.
const INFINITE: u32 = u32::MAX;

/// The codes of options that Kelson sends or reads.
pub mod code {
    pub const CLIENT: u16 = 1;
    pub const SERVER: u16 = 2;
    pub const ADDRESSES: u16 = 3;
    pub const ADDRESS: u16 = 5;
    pub const REQUESTED: u16 = 6;
    pub const PREFERENCE: u16 = 7;
    pub const ELAPSED: u16 = 8;
    pub const STATUS: u16 = 13;
    pub const NAME_SERVERS: u16 = 23;
    pub const DOMAINS: u16 = 24;
    pub const PREFIXES: u16 = 25;
    pub const PREFIX: u16 = 26;
    pub const REFRESH: u16 = 32;
    pub const SOLICIT_PAUSE: u16 = 82;
    pub const INFORM_PAUSE: u16 = 83;
}

/// The kinds of messages that a client sends or receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Solicit = 1,
    Advertise = 2,
    Request = 3,
    Confirm = 4,
    Renew = 5,
    Rebind = 6,
    Reply = 7,
    Decline = 9,
    Inform = 11,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Solicit,
        Kind::Advertise,
        Kind::Request,
        Kind::Confirm,
        Kind::Renew,
        Kind::Rebind,
        Kind::Reply,
        Kind::Decline,
        Kind::Inform,
    ];
}

/// What a server says of a message or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Success,
    NoAddress,
    /// The server does not know what the client has.
    NoBinding,
    /// The address belongs to another link.
    NotOnLink,
    NoPrefix,
    /// Its number.
    Other(u16),
}

impl Status {
    fn of(number: u16) -> Status {
        match number {
            0 => Status::Success,
            2 => Status::NoAddress,
            3 => Status::NoBinding,
            4 => Status::NotOnLink,
            6 => Status::NoPrefix,
            other => Status::Other(other),
        }
    }
}

/// Options in their order; a code may come several times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options(pub Vec<(u16, Vec<u8>)>);

impl Options {
    /// The options of these bytes. Ends at the first that is cut.
    pub fn read(mut bytes: &[u8]) -> Options {
        let mut all = Vec::new();
        while let Some(([a, b, c, d], rest)) = bytes.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes([*c, *d]));
            let Some((value, rest)) = rest.split_at_checked(length) else { break };
            all.push((u16::from_be_bytes([*a, *b]), value.to_vec()));
            bytes = rest;
        }
        Options(all)
    }

    /// As they are sent.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, value) in &self.0 {
            // A client writes no option that is longer.
            let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
            bytes.extend(code.to_be_bytes());
            bytes.extend(length.to_be_bytes());
            bytes.extend(value.iter().take(usize::from(length)));
        }
        bytes
    }

    pub fn put(&mut self, code: u16, value: impl Into<Vec<u8>>) {
        self.0.push((code, value.into()));
    }

    /// All values of a code.
    pub fn all(&self, code: u16) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |(known, _)| *known == code).map(|(_, value)| value.as_slice())
    }

    /// The first value of a code.
    pub fn first(&self, code: u16) -> Option<&[u8]> {
        self.all(code).next()
    }

    /// An option that is a number of 32 bits.
    pub fn number(&self, code: u16) -> Option<u32> {
        Some(u32::from_be_bytes(self.first(code)?.try_into().ok()?))
    }

    /// Without the option it is a success (RFC 8415, 21.13).
    pub fn status(&self) -> Status {
        let value = self.first(code::STATUS).and_then(|value| value.first_chunk::<2>());
        value.map_or(Status::Success, |number| Status::of(u16::from_be_bytes(*number)))
    }
}

/// A message between a client and a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    /// Which exchange it belongs to; 24 bits.
    pub transaction: u32,
    pub options: Options,
}

impl Message {
    pub fn new(kind: Kind, transaction: u32) -> Message {
        Message { kind, transaction: transaction & TRANSACTIONS, options: Options::default() }
    }

    /// `None`: it is no message of a kind that a client knows.
    pub fn read(bytes: &[u8]) -> Option<Message> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
        let [kind, a, b, c] = *header;
        let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind)?;
        let transaction = u32::from_be_bytes([0, a, b, c]);
        Some(Message { kind, transaction, options: Options::read(rest) })
    }

    /// As it is sent.
    pub fn write(&self) -> Vec<u8> {
        let [_, a, b, c] = self.transaction.to_be_bytes();
        [[self.kind as u8, a, b, c].as_slice(), &self.options.write()].concat()
    }
}

/// What an association (IA_NA or IA_PD) is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    Address,
    Prefix,
}

impl Wanted {
    pub fn code(self) -> u16 {
        match self {
            Wanted::Address => code::ADDRESSES,
            Wanted::Prefix => code::PREFIXES,
        }
    }
}

/// An address, or a prefix, with its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    pub address: Ipv6Addr,
    /// Of an address: 128.
    pub length: u8,
    /// `None`: without an end.
    pub preferred: Option<Duration>,
    pub valid: Option<Duration>,
}

impl Item {
    fn wanted(&self) -> Wanted {
        if self.length == 128 { Wanted::Address } else { Wanted::Prefix }
    }

    fn read(wanted: Wanted, value: &[u8]) -> Option<Item> {
        let (item, rest) = match wanted {
            Wanted::Address => {
                let (address, rest) = value.split_first_chunk::<16>()?;
                let (preferred, rest) = lifetime(rest)?;
                let (valid, rest) = lifetime(rest)?;
                (Item { address: (*address).into(), length: 128, preferred, valid }, rest)
            }
            Wanted::Prefix => {
                let (preferred, rest) = lifetime(value)?;
                let (valid, rest) = lifetime(rest)?;
                let (length, rest) = rest.split_first()?;
                let (address, rest) = rest.split_first_chunk::<16>()?;
                let mask = u128::MAX.checked_shl(128_u32.checked_sub(u32::from(*length))?).unwrap_or(0);
                let address = Ipv6Addr::from_bits(u128::from_be_bytes(*address) & mask);
                (Item { address, length: *length, preferred, valid }, rest)
            }
        };
        (Options::read(rest).status() == Status::Success).then_some(item)
    }

    /// With times of 0: a client proposes none.
    fn write(&self) -> (u16, Vec<u8>) {
        match self.wanted() {
            Wanted::Address => (code::ADDRESS, [self.address.octets().as_slice(), &[0; 8]].concat()),
            Wanted::Prefix => (code::PREFIX, [&[0; 8][..], &[self.length], &self.address.octets()].concat()),
        }
    }
}

fn lifetime(bytes: &[u8]) -> Option<(Option<Duration>, &[u8])> {
    let (seconds, rest) = bytes.split_first_chunk::<4>()?;
    let seconds = u32::from_be_bytes(*seconds);
    Some(((seconds != INFINITE).then(|| Duration::from_secs(seconds.into())), rest))
}

/// Addresses or prefixes of one number, as a server grants them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Association {
    pub number: u32,
    /// When the client asks for more time; 0: when it likes. `None`: never.
    pub renew: Option<Duration>,
    pub rebind: Option<Duration>,
    pub items: Vec<Item>,
    pub status: Status,
}

impl Association {
    /// Of the associations in a message, the one of this number. Items that no host can have are left out.
    pub fn find(message: &Message, wanted: Wanted, number: u32) -> Option<Association> {
        let mut all = message.options.all(wanted.code()).filter_map(|value| Association::read(wanted, value));
        all.find(|association| association.number == number)
    }

    fn read(wanted: Wanted, value: &[u8]) -> Option<Association> {
        let (number, rest) = value.split_first_chunk::<4>()?;
        let (renew, rest) = lifetime(rest)?;
        let (rebind, rest) = lifetime(rest)?;
        // RFC 8415, 21.4: such an option is discarded.
        let backwards =
            rebind.is_some_and(|rebind| !rebind.is_zero() && renew.is_none_or(|renew| renew > rebind));
        if backwards {
            return None;
        }
        let options = Options::read(rest);
        let code = if wanted == Wanted::Address { code::ADDRESS } else { code::PREFIX };
        let mut items: Vec<Item> = Vec::new();
        for item in options.all(code).filter_map(|value| Item::read(wanted, value)) {
            let known =
                items.iter().any(|known| (known.address, known.length) == (item.address, item.length));
            if items.len() < MOST && !known && is_usable(&item) {
                items.push(item);
            }
        }
        let number = u32::from_be_bytes(*number);
        Some(Association { number, renew, rebind, items, status: options.status() })
    }

    /// As a client writes it: what it has, or would like to have.
    pub fn write(wanted: Wanted, number: u32, items: &[Item]) -> (u16, Vec<u8>) {
        let inner = Options(items.iter().map(Item::write).collect());
        (wanted.code(), [&number.to_be_bytes()[..], &[0; 8], &inner.write()].concat())
    }
}

/// More than a host uses, of each kind.
const MOST: usize = 8;
/// No shorter prefix is given to one host, and a longer one than the last has no network of its own for an interface.
const PREFIXES: std::ops::RangeInclusive<u8> = 16..=64;

/// Whether one host can have it for this time.
fn is_usable(item: &Item) -> bool {
    let address = item.address;
    let is_global = !address.is_multicast()
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_unicast_link_local();
    let in_order = match (item.preferred, item.valid) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(preferred), Some(valid)) => preferred <= valid,
    };
    is_global && in_order && (item.length == 128 || PREFIXES.contains(&item.length))
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// An association as a server writes it: T1, T2, and items with their preferred and valid seconds.
    pub fn granted(number: u32, times: (u32, u32), items: &[(&str, u32, u32)]) -> (u16, Vec<u8>) {
        let mut inner = Options::default();
        let mut code = code::ADDRESSES;
        for (text, preferred, valid) in items {
            let times = [preferred.to_be_bytes(), valid.to_be_bytes()].concat();
            match text.split_once('/') {
                None => {
                    let address: Ipv6Addr = text.parse().unwrap();
                    inner.put(code::ADDRESS, [&address.octets(), times.as_slice()].concat());
                }
                Some((address, length)) => {
                    code = code::PREFIXES;
                    let address: Ipv6Addr = address.parse().unwrap();
                    let length = [length.parse().unwrap()];
                    inner.put(code::PREFIX, [times.as_slice(), &length, &address.octets()].concat());
                }
            }
        }
        (code, association(number, times, &inner))
    }

    pub fn association(number: u32, times: (u32, u32), inner: &Options) -> Vec<u8> {
        let head = [number.to_be_bytes(), times.0.to_be_bytes(), times.1.to_be_bytes()].concat();
        [head, inner.write()].concat()
    }

    pub fn status(number: u16) -> (u16, Vec<u8>) {
        (code::STATUS, number.to_be_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests;
