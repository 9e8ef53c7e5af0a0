//! Writing messages about links: new ones, and their place among others.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::request::{Request, ask};

/// Attributes of Linux's `if_link.h` within `IFLA_LINKINFO`; not in the C library.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
/// What a link has as a member of another.
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
/// Within `IFLA_INFO_DATA`, by the kind of link.
const IFLA_VLAN_ID: u16 = 1;
const IFLA_BOND_MODE: u16 = 1;
const IFLA_BOND_MIIMON: u16 = 3;
const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BRPORT_MODE: u16 = 4;
const VETH_INFO_PEER: u16 = 1;
/// How often a bond looks at its members, in milliseconds: without it a bond does not notice a cable that is pulled.
const MIIMON: u32 = 100;

/// A link that exists in software alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewLink {
    /// `parent`: the number of the link below it.
    Vlan {
        parent: u32,
        id: u16,
    },
    /// `mode`: 0 to 6, as the kernel numbers them.
    Bond {
        mode: u8,
    },
    Bridge {
        stp: bool,
    },
    Dummy,
}

impl NewLink {
    /// As the kernel names its kind.
    pub fn kind(self) -> &'static str {
        match self {
            NewLink::Vlan { .. } => "vlan",
            NewLink::Bond { .. } => "bond",
            NewLink::Bridge { .. } => "bridge",
            NewLink::Dummy => "dummy",
        }
    }

    fn data(self) -> Vec<(u16, Vec<u8>)> {
        match self {
            NewLink::Vlan { id, .. } => vec![(IFLA_VLAN_ID, id.to_ne_bytes().to_vec())],
            NewLink::Bond { mode } => {
                vec![(IFLA_BOND_MODE, vec![mode]), (IFLA_BOND_MIIMON, MIIMON.to_ne_bytes().to_vec())]
            }
            NewLink::Bridge { stp } => vec![(IFLA_BR_STP_STATE, u32::from(stp).to_ne_bytes().to_vec())],
            NewLink::Dummy => Vec::new(),
        }
    }
}

/// Makes a link of this name, which is switched off.
///
/// # Errors
/// What the kernel says: EOPNOTSUPP where it lacks the module of this kind, EEXIST where the name is taken.
pub fn create_link(name: &str, new: NewLink) -> io::Result<()> {
    let exclusive = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut request = link_request(0, exclusive, 0, 0).attribute(libc::IFLA_IFNAME, &terminated(name));
    if let NewLink::Vlan { parent, .. } = new {
        request = request.attribute(libc::IFLA_LINK, &parent.to_ne_bytes());
    }
    let mut information = Request::nested().attribute(IFLA_INFO_KIND, new.kind().as_bytes());
    let data =
        new.data().into_iter().fold(Request::nested(), |data, (kind, value)| data.attribute(kind, &value));
    information = information.attribute(IFLA_INFO_DATA, &data.into_bytes());
    ask(&request.attribute(libc::IFLA_LINKINFO, &information.into_bytes()).finish())
}

/// Makes a cable: `name` here, which is a member of a bridge that gives it back also its own packets, and `far` in another
/// network namespace. Both ends are switched off.
///
/// # Errors
/// As [`create_link`].
pub fn create_cable(name: &str, bridge: u32, far: (&str, BorrowedFd<'_>)) -> io::Result<()> {
    let (far, namespace) = far;
    let namespace = namespace.as_raw_fd().to_ne_bytes();
    let peer = Request::nested()
        .put(&link_header(0, 0, 0))
        .attribute(libc::IFLA_IFNAME, &terminated(far))
        .attribute(libc::IFLA_NET_NS_FD, &namespace);
    let data = Request::nested().attribute(VETH_INFO_PEER, &peer.into_bytes());
    let information =
        Request::nested().attribute(IFLA_INFO_KIND, b"veth").attribute(IFLA_INFO_DATA, &data.into_bytes());
    let exclusive = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let request = link_request(0, exclusive, 0, 0)
        .attribute(libc::IFLA_IFNAME, &terminated(name))
        .attribute(libc::IFLA_MASTER, &bridge.to_ne_bytes())
        .attribute(libc::IFLA_LINKINFO, &information.into_bytes());
    ask(&request.finish())?;
    let index = super::index_of(name).ok_or(io::ErrorKind::NotFound)?;
    let mode = Request::nested().attribute(IFLA_BRPORT_MODE, &[1]);
    let member = Request::nested()
        .attribute(IFLA_INFO_SLAVE_KIND, b"bridge")
        .attribute(IFLA_INFO_SLAVE_DATA, &mode.into_bytes());
    ask(&link_request(index, 0, 0, 0).attribute(libc::IFLA_LINKINFO, &member.into_bytes()).finish())
}

/// Removes a link that exists in software alone.
///
/// # Errors
/// What the kernel says.
pub fn remove_link(index: u32) -> io::Result<()> {
    let request = Request::new(libc::RTM_DELLINK, libc::NLM_F_ACK, 1).put(&link_header(index, 0, 0));
    ask(&request.finish())
}

/// The address of Ethernet of a link.
///
/// # Errors
/// What the kernel says.
pub fn set_hardware(index: u32, hardware: [u8; 6]) -> io::Result<()> {
    ask(&link_request(index, 0, 0, 0).attribute(libc::IFLA_ADDRESS, &hardware).finish())
}

/// Switches a link on.
///
/// # Errors
/// What the kernel says.
pub fn set_up(index: u32) -> io::Result<()> {
    let up = libc::IFF_UP.cast_unsigned();
    ask(&link_request(index, 0, up, up).finish())
}

/// Switches a link off.
///
/// # Errors
/// What the kernel says.
pub fn set_down(index: u32) -> io::Result<()> {
    ask(&link_request(index, 0, 0, libc::IFF_UP.cast_unsigned()).finish())
}

/// The longest packet of an interface, in bytes.
///
/// # Errors
/// What the kernel says: EINVAL where its driver takes none of this length.
pub fn set_mtu(index: u32, mtu: u32) -> io::Result<()> {
    ask(&link_request(index, 0, 0, 0).attribute(libc::IFLA_MTU, &mtu.to_ne_bytes()).finish())
}

/// Makes a link a member of a bridge or of a bond, which wants it to be switched off.
///
/// # Errors
/// What the kernel says.
pub fn set_master(index: u32, master: u32) -> io::Result<()> {
    ask(&link_request(index, 0, 0, 0).attribute(libc::IFLA_MASTER, &master.to_ne_bytes()).finish())
}

/// struct ifinfomsg: family, padding, type, index, flags, which of them to change.
fn link_request(index: u32, flags: i32, set: u32, change: u32) -> Request {
    Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK | flags, 1).put(&link_header(index, set, change))
}

fn link_header(index: u32, set: u32, change: u32) -> Vec<u8> {
    [[0; 4], index.to_ne_bytes(), set.to_ne_bytes(), change.to_ne_bytes()].concat()
}

fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    use crate::netlink::{Content, Link, dump, index_of};

    fn find(name: &str) -> Option<Link> {
        let all = dump(libc::RTM_GETLINK).unwrap().into_iter();
        let mut links = all.filter_map(|content| match content {
            Content::Link { link, .. } => Some(link),
            _ => None,
        });
        links.find(|link| link.name == name)
    }

    fn link(name: &str) -> Link {
        find(name).unwrap()
    }

    #[test]
    fn messages_have_the_kernels_form() {
        assert_eq!(link_request(1, 0, 1, 1).finish().len(), 32);
        let parts =
            |new: NewLink| new.data().iter().map(|(kind, value)| (*kind, value.len())).collect::<Vec<_>>();
        assert_eq!(parts(NewLink::Vlan { parent: 2, id: 5 }), [(1, 2)]);
        assert_eq!(parts(NewLink::Bond { mode: 1 }), [(1, 1), (3, 4)]);
        assert_eq!(terminated("a"), b"a\0");
    }

    #[test]
    fn the_kernel_makes_a_cable_between_two_namespaces() {
        let done = std::thread::spawn(|| {
            let apart = || {
                // SAFETY: it changes this thread alone.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "run it as root");
                std::fs::File::open("/proc/thread-self/ns/net").unwrap()
            };
            let far = apart();
            apart();
            create_link("bridge", NewLink::Bridge { stp: false }).unwrap();
            let bridge = link("bridge").index;
            set_hardware(bridge, [2, 0, 10, 88, 0, 1]).unwrap();
            create_cable("near", bridge, ("eth0", far.as_fd())).unwrap();
            assert_eq!((link("near").made_as.as_str(), link("near").master), ("veth", bridge));
            assert_eq!(link("bridge").hardware, Some([2, 0, 10, 88, 0, 1]), "also with a member");
            let shown =
                std::process::Command::new("ip").args(["-d", "link", "show", "near"]).output().unwrap();
            assert!(String::from_utf8(shown.stdout).unwrap().contains("hairpin on"));
            assert!(find("eth0").is_none());
            let here = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
            let enter = |namespace: &std::fs::File| {
                // SAFETY: as above.
                assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            };
            enter(&far);
            assert_eq!(link("eth0").made_as, "veth");
            enter(&here);
            remove_link(link("near").index).unwrap();
            assert!(remove_link(4711).is_err());
            enter(&far);
            assert!(find("eth0").is_none(), "both ends go");
        });
        done.join().unwrap();
    }

    #[test]
    fn the_kernel_makes_a_bridge_and_takes_its_member() {
        let done = std::thread::spawn(|| {
            // SAFETY: it changes this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "run it as root");
            for name in ["one", "two"] {
                create_link(name, NewLink::Bridge { stp: true }).unwrap();
            }
            let taken = create_link("one", NewLink::Bridge { stp: false }).unwrap_err();
            assert_eq!(taken.raw_os_error(), Some(libc::EEXIST));
            let (one, lo) = (link("one"), index_of("lo").unwrap());
            assert_eq!((one.made_as.as_str(), one.master), ("bridge", 0));
            set_mtu(one.index, 1400).unwrap();
            set_up(one.index).unwrap();
            assert!(link("one").flags & libc::IFF_UP.cast_unsigned() != 0);
            assert_eq!(link("one").mtu, 1400);
            set_down(one.index).unwrap();
            assert!(link("one").flags & libc::IFF_UP.cast_unsigned() == 0);
            // Neither a bridge nor the loopback can be a member of a bridge.
            assert!(set_master(lo, one.index).is_err());
            let nothing = create_link("v", NewLink::Vlan { parent: 4711, id: 5 }).unwrap_err();
            assert!(matches!(nothing.raw_os_error(), Some(libc::ENODEV | libc::EOPNOTSUPP)), "{nothing}");
        });
        done.join().unwrap();
    }
}
