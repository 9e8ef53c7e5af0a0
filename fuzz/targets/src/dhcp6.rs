//! Messages of a server of DHCPv6, and a client that gets them.

use std::net::Ipv6Addr;
use std::time::Duration;

use kelson_net::names::sound;
use kelson_net::v6::client::{Action, Client, Flags, Input};
use kelson_net::v6::identity::Identity;
use kelson_net::v6::message::{Message, code};

const FROM: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// Messages, each after its length, the seconds that pass before it, and a byte: what it is corrected by, and what happens
/// besides. The client's numbers are all zero; no fuzzer guesses its identifier and those of its associations.
pub fn messages(mut data: &[u8]) {
    let identity = Identity::new([0; 6], "eth0", Some(56));
    let mut client = Client::new(identity.clone(), true, None, Box::new(|| 0));
    let mut now = Duration::from_secs(1);
    client.handle(now, Input::Link(true));
    while let Some(([high, low, seconds, more], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (bytes, rest) = rest.split_at(length);
        data = rest;
        now += Duration::from_secs(u64::from(*seconds));
        client.handle(now, Input::Time);
        if let Some(mut message) = Message::read(bytes) {
            assert_eq!(Message::read(&message.write()).as_ref(), Some(&message));
            if more & 1 == 0 {
                correct(&mut message, &identity);
            }
            let actions = client.handle(now, Input::Message(message, FROM));
            assert!(actions.len() < 40, "{actions:?}");
            for action in &actions {
                if let Action::Send(message) = action {
                    assert_eq!(Message::read(&message.write()).as_ref(), Some(message));
                }
            }
        }
        match more >> 1 & 7 {
            1 => drop(client.handle(now, Input::Link(more & 16 == 0))),
            2 => drop(client.handle(now, Input::Routers(Flags { managed: more & 16 == 0, other: true }))),
            3 => {
                let address = client.lease().and_then(|lease| Some(lease.addresses().next()?.address));
                address.map(|address| client.handle(now, Input::Conflict(address)));
            }
            _ => {}
        }
        client.handle(now, Input::Time);
        assert!(client.deadline().is_none_or(|next| next > now), "it would turn in a circle");
        if let Some(lease) = client.lease() {
            assert!(lease.items.iter().all(|item| item.valid > now && item.preferred <= item.valid));
            assert!(lease.search.iter().all(|name| sound(name.as_bytes()).as_ref() == Some(name)));
        }
    }
}

/// Has the message be for this client, and its associations have the client's number.
fn correct(message: &mut Message, identity: &Identity) {
    let own = identity.message(message.kind, 0, 0, None);
    message.transaction = 0;
    message.options.0.retain(|(code, _)| *code != code::CLIENT);
    message.options.0.extend(own.options.0.into_iter().filter(|(code, _)| *code == code::CLIENT));
    let associations = message.options.0.iter_mut();
    for (_, value) in associations.filter(|(code, _)| [code::ADDRESSES, code::PREFIXES].contains(code)) {
        let number = identity.number.to_be_bytes();
        value.iter_mut().zip(number).for_each(|(byte, number)| *byte = number);
    }
}
