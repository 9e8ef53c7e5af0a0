use super::*;
use crate::netlink::Request;

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    Request::new(kind, 0, 1).put(body).finish()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    Request::new(0, 0, 0).attribute(kind, value).finish().split_off(HEADER)
}

fn link_body(index: u32, flags: u32, name: &str) -> Vec<u8> {
    let mut body = vec![0, 0, 1, 0];
    body.extend(index.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body.extend([0; 4]);
    body.extend(attribute(libc::IFLA_IFNAME, format!("{name}\0").as_bytes()));
    body.extend(attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]));
    body.extend(attribute(libc::IFLA_MTU, &1500_u32.to_ne_bytes()));
    body.extend(attribute(IFLA_PERM_ADDRESS, &[2, 0, 0, 0, 0, 9]));
    let ipv6 = attribute(IFLA_INET6_FLAGS, &(RA_OTHER | 0x20).to_ne_bytes());
    body.extend(attribute(libc::IFLA_AF_SPEC, &attribute(AF_INET6, &ipv6)));
    body.extend(attribute(libc::IFLA_MASTER, &7_u32.to_ne_bytes()));
    body.extend(attribute(libc::IFLA_LINKINFO, &attribute(IFLA_INFO_KIND, b"vlan\0")));
    body
}

fn address_body(index: u32, family: i32, scope: u8, flags: u32, bytes: &[u8]) -> Vec<u8> {
    let mut body = vec![u8::try_from(family).expect("small"), 24, 0, scope];
    body.extend(index.to_ne_bytes());
    body.extend(attribute(libc::IFA_ADDRESS, bytes));
    body.extend(attribute(IFA_FLAGS, &flags.to_ne_bytes()));
    body
}

fn route_body(prefix: u8, kind: u8, interface: u32) -> Vec<u8> {
    let mut body = vec![2, prefix, 0, 0, 254, 3, 0, kind, 0, 0, 0, 0];
    body.extend(attribute(libc::RTA_TABLE, &254_u32.to_ne_bytes()));
    body.extend(attribute(libc::RTA_OIF, &interface.to_ne_bytes()));
    body
}

fn default_route(interfaces: Vec<u32>) -> Route {
    let (destination, gateway) = (None, None);
    Route { family: 2, table: 254, destination, prefix: 0, gateway, metric: 0, protocol: 3, interfaces }
}

fn contents(datagram: &[u8]) -> Vec<Content> {
    Messages::new(datagram).map(|message| message.content).collect()
}

#[test]
fn reads_what_the_kernel_writes() {
    let mut datagram = message(libc::RTM_NEWLINK, &link_body(2, 0x41, "eth0"));
    datagram.extend(message(libc::RTM_DELADDR, &address_body(2, libc::AF_INET, 0, 0x80, &[10, 0, 2, 15])));
    datagram.extend(message(libc::RTM_NEWROUTE, &route_body(0, libc::RTN_UNICAST, 2)));
    datagram.extend(message(libc::RTM_NEWROUTE, &route_body(24, libc::RTN_UNICAST, 2)));
    datagram.extend(message(libc::RTM_NEWROUTE, &route_body(0, 7, 2)));
    datagram.extend(message(2, &(-16_i32).to_ne_bytes()));
    datagram.extend(message(3, &[0; 4]));
    let address = Address {
        index: 2,
        family: 2,
        prefix: 24,
        scope: 0,
        flags: 0x80,
        bytes: vec![10, 0, 2, 15],
        valid: u32::MAX,
    };
    let link = Link {
        index: 2,
        flags: 0x41,
        kind: 1,
        name: "eth0".to_owned(),
        hardware: Some([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
        permanent: Some([2, 0, 0, 0, 0, 9]),
        made_as: "vlan".to_owned(),
        master: 7,
        carrier_changes: 0,
        ipv6_flags: RA_OTHER | 0x20,
    };
    let route = default_route(vec![2]);
    assert_eq!(
        contents(&datagram),
        [
            Content::Link { gone: false, link },
            Content::Address { gone: true, address },
            Content::DefaultRoute { gone: false, route: route.clone() },
            Content::Route { gone: false, route: Route { prefix: 24, ..route } },
            Content::Other,
            Content::Error(16),
            Content::Done,
        ]
    );
}

#[test]
fn options_of_an_advertisement_are_as_long_as_the_kernel_says() {
    let body = |kind: u8, length: u16| {
        let mut body = vec![10, 0];
        body.extend(length.to_ne_bytes());
        body.extend(7_u32.to_ne_bytes());
        body.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        body.extend([25, 1, 0, 0, 0, 0, 0, 1]);
        body.extend(attribute(1, &[0xfe; 16]));
        body
    };
    let advertised = |kind, length| contents(&message(libc::RTM_NEWNDUSEROPT, &body(kind, length)));
    let options = vec![25, 1, 0, 0, 0, 0, 0, 1];
    assert_eq!(advertised(134, 8), [Content::Advertised { index: 7, options }]);
    assert_eq!(advertised(136, 8), [Content::Other]);
    assert_eq!(advertised(134, 80), [Content::Other]);
}

#[test]
fn a_route_with_several_next_hops_names_all_interfaces() {
    let mut hops = Vec::new();
    for (length, index) in [(16_u16, 5_u32), (8, 6)] {
        hops.extend(length.to_ne_bytes());
        hops.extend([0, 0]);
        hops.extend(index.to_ne_bytes());
        hops.resize(hops.len() + usize::from(length) - 8, 0);
    }
    let mut body = vec![2, 0, 0, 0, 254, 3, 0, libc::RTN_UNICAST, 0, 0, 0, 0];
    body.extend(attribute(libc::RTA_MULTIPATH, &hops));
    let route = default_route(vec![5, 6]);
    let datagram = message(libc::RTM_NEWROUTE, &body);
    assert_eq!(contents(&datagram), [Content::DefaultRoute { gone: false, route }]);
}

#[test]
fn whatever_is_cut_short_or_wrong_is_survived() {
    let mut datagram = message(libc::RTM_NEWLINK, &link_body(2, 0x41, "eth0"));
    datagram.extend(message(libc::RTM_NEWADDR, &address_body(2, libc::AF_INET6, 0, 0x40, &[1; 16])));
    datagram.extend(message(libc::RTM_NEWROUTE, &route_body(0, libc::RTN_UNICAST, 2)));
    let whole = contents(&datagram);
    for end in 0..datagram.len() {
        let cut = contents(&datagram[..end]);
        assert!(cut.len() < whole.len() && cut == whole[..cut.len()], "cut at {end}");
    }
    for at in 0..datagram.len() {
        for value in [0, 1, 3, 15, 0x7f, 0xff] {
            let mut wrong = datagram.clone();
            wrong[at] = value;
            // Ends, and finds no more messages than the bytes can hold.
            assert!(contents(&wrong).len() <= datagram.len() / HEADER);
        }
    }
    assert!(contents(&message(libc::RTM_NEWLINK, &[0; 4])) == [Content::Other], "shorter than its header");
}
