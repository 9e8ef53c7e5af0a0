//! Who the client is, and the messages that say so.

use std::net::Ipv4Addr;

use kelson_sys::packet::Mac;

use crate::message::{Kind, Message, code};

/// The options that the client asks for. RFC 3442 wants the routes before the router.
const PARAMETERS: [u8; 11] = [
    code::SUBNET_MASK,
    code::ROUTES,
    code::ROUTER,
    code::NAME_SERVER,
    code::HOST_NAME,
    code::DOMAIN_NAME,
    code::SEARCH,
    code::MTU,
    code::NTP_SERVER,
    code::RENEWAL,
    code::REBINDING,
];
/// What fits into one packet of Ethernet, without the headers.
const LARGEST_MESSAGE: u16 = 1472;

/// The client, as its servers know it.
pub struct Identity {
    pub hardware: Mac,
    pub host_name: Option<String>,
}

impl Identity {
    /// A message that asks for a lease. `client`: the client's address, or zeroes.
    pub fn request(
        &self,
        kind: Kind,
        transaction: u32,
        client: Ipv4Addr,
        addresses: &[(u8, Ipv4Addr)],
    ) -> Message {
        let mut message = self.message(kind, transaction, addresses);
        message.client = client;
        message.options.push((code::PARAMETERS, PARAMETERS.to_vec()));
        message.options.push((code::LARGEST_MESSAGE, LARGEST_MESSAGE.to_be_bytes().to_vec()));
        if let Some(name) = &self.host_name {
            message.options.push((code::HOST_NAME, name.as_bytes().to_vec()));
        }
        message
    }

    /// A message with these options.
    pub fn message(&self, kind: Kind, transaction: u32, addresses: &[(u8, Ipv4Addr)]) -> Message {
        let identity = (code::CLIENT, [&[1], self.hardware.as_slice()].concat());
        let addresses = addresses.iter().map(|(code, address)| (*code, address.octets().to_vec()));
        Message {
            kind,
            transaction,
            seconds: 0,
            client: Ipv4Addr::UNSPECIFIED,
            yours: Ipv4Addr::UNSPECIFIED,
            hardware: self.hardware,
            options: std::iter::once(identity).chain(addresses).collect(),
        }
    }
}
