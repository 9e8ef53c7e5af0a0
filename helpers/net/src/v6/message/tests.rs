//! Messages as servers send them, and as they do not.

use super::testing::*;
use super::*;

fn reply() -> Message {
    let mut message = Message::new(Kind::Reply, 0x12_3456);
    message.options.put(code::CLIENT, *b"client");
    message.options.put(code::SERVER, *b"server");
    message.options.0.push(granted(7, (100, 200), &[("2001:db8::7", 300, 400)]));
    message.options.0.push(granted(7, (0, 0), &[("2001:db8:100::1/56", u32::MAX, u32::MAX)]));
    message
}

fn address(message: &Message) -> Option<Association> {
    Association::find(message, Wanted::Address, 7)
}

#[test]
fn what_is_written_is_read() {
    let bytes = reply().write();
    assert_eq!(bytes[..4], [7, 0x12, 0x34, 0x56]);
    assert_eq!(Message::read(&bytes), Some(reply()));
    let found = address(&reply()).unwrap();
    assert_eq!((found.renew, found.rebind), (Some(Duration::from_secs(100)), Some(Duration::from_secs(200))));
    assert_eq!(found.items[0].address, "2001:db8::7".parse::<Ipv6Addr>().unwrap());
    let found = Association::find(&reply(), Wanted::Prefix, 7).unwrap();
    let item = found.items[0];
    assert_eq!((item.address.to_string(), item.length, item.valid), ("2001:db8:100::".into(), 56, None));
    assert_eq!(Association::find(&reply(), Wanted::Prefix, 8), None);
    assert_eq!(Message::read(&[12, 0, 0, 0]), None, "a relay's");
    // What a client asks for again is what it was given.
    for (wanted, items) in
        [(Wanted::Address, address(&reply()).unwrap().items), (Wanted::Prefix, found.items)]
    {
        let mut message = Message::new(Kind::Renew, 1);
        message.options.0.push(Association::write(wanted, 7, &items));
        let zero = Some(Duration::ZERO);
        let expected = Item { preferred: zero, valid: zero, ..items[0] };
        assert_eq!(Association::find(&message, wanted, 7).unwrap().items, [expected]);
    }
}

#[test]
fn what_no_host_can_have_is_left_out() {
    let bad = [
        ("::", 1, 2),
        ("::1", 1, 2),
        ("ff02::1", 1, 2),
        ("fe80::1", 1, 2),
        ("2001:db8::8", 3, 2),
        ("2001:db8::9", u32::MAX, 2),
        ("2001:db8::7", 1, 2),
        ("2001:db8::7", 5, 6),
    ];
    let mut message = Message::new(Kind::Reply, 1);
    message.options.0.push(granted(7, (0, 0), &bad));
    let items = address(&message).unwrap().items;
    assert_eq!((items.len(), items[0].valid), (1, Some(Duration::from_secs(2))));
    for length in ["0", "15", "65", "127"] {
        let mut message = Message::new(Kind::Reply, 1);
        message.options.0.push(granted(7, (0, 0), &[(&format!("2001:db8::/{length}"), 1, 2)]));
        assert_eq!(Association::find(&message, Wanted::Prefix, 7).unwrap().items, [], "{length}");
    }
    for (renew, rebind, is_read) in [(5, 4, false), (u32::MAX, 4, false), (5, 0, true), (5, u32::MAX, true)] {
        let mut message = Message::new(Kind::Reply, 1);
        message.options.0.push(granted(7, (renew, rebind), &[]));
        assert_eq!(address(&message).is_some(), is_read, "{renew} {rebind}");
    }
}

#[test]
fn a_status_counts_where_it_stands() {
    let mut inner = Options::default();
    inner.0.push(status(2));
    let mut message = Message::new(Kind::Reply, 1);
    message.options.put(code::ADDRESSES, association(7, (0, 0), &inner));
    assert_eq!(address(&message).unwrap().status, Status::NoAddress);
    assert_eq!(message.options.status(), Status::Success);
    message.options.0.push(status(4));
    assert_eq!(message.options.status(), Status::NotOnLink);
    message.options = Options(vec![status(77)]);
    assert_eq!(message.options.status(), Status::Other(77));
}

#[test]
fn a_message_that_is_cut_or_wrong_is_survived() {
    let whole = reply().write();
    for end in 0..whole.len() {
        let read = Message::read(&whole[..end]);
        assert!(end < HEADER || read.is_some_and(|read| read.options.0.len() < 4), "cut at {end}");
    }
    for at in 0..whole.len() {
        for value in [0, 1, 25, 128, 255] {
            let mut wrong = whole.clone();
            wrong[at] = value;
            let Some(read) = Message::read(&wrong) else { continue };
            for wanted in [Wanted::Address, Wanted::Prefix] {
                assert!(Association::find(&read, wanted, 7).is_none_or(|found| found.items.len() <= 1));
            }
        }
    }
}
