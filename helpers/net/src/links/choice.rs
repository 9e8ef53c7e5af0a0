//! Which mapping of the machine file an interface has.

use std::fs;
use std::path::Path;

use kelson_spec::network::{InterfaceSpec, Matches};
use kelson_sys::fnmatch::matches;
use kelson_sys::netlink::Link;

/// `ARPHRD_ETHER`.
pub const ETHERNET: u16 = 1;
/// One end of a cable that exists in software alone: it stands for hardware where there is none.
const CABLE: &str = "veth";

/// A link, and what sysfs says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub link: Link,
    /// Whether it belongs to a device.
    pub is_device: bool,
    /// The driver of that device.
    pub driver: Option<String>,
}

impl Found {
    /// Looks into sysfs.
    pub fn of(link: Link) -> Found {
        let device = Path::new("/sys/class/net").join(&link.name).join("device");
        let driver = fs::read_link(device.join("driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        Found { is_device: device.exists(), driver, link }
    }
}

/// The places of the mappings that these interfaces have, which are in the order of their numbers.
///
/// An interface has the mapping of its name, else the first of the file that matches it. One with addresses or routes is for
/// one interface alone: the first that it matches. A member of a bond or of a bridge has none but that of its name.
pub fn choose(specs: &[InterfaceSpec], found: &[Found]) -> Vec<Option<usize>> {
    let mut taken: Vec<usize> = Vec::new();
    let is_member = |name: &String| specs.iter().any(|spec| spec.members().contains(name));
    let chosen = found.iter().map(|found| {
        let name = &found.link.name;
        let by_name = specs.iter().position(|spec| spec.matches.name() == Some(name));
        let is_free = |place: usize, spec: &InterfaceSpec| !(spec.is_for_one() && taken.contains(&place));
        let place = by_name.or_else(|| {
            let mut open = specs.iter().enumerate().filter(|_| !is_member(name));
            open.find(|(place, spec)| is_free(*place, spec) && is_matched(&spec.matches, found))
                .map(|(place, _)| place)
        });
        taken.extend(place);
        place
    });
    chosen.collect()
}

fn is_matched(wanted: &Matches, found: &Found) -> bool {
    let link = &found.link;
    match wanted {
        Matches::Name(pattern) => {
            wanted.name().is_none()
                && link.kind == ETHERNET
                && found.is_device
                && matches(pattern, &link.name)
        }
        // A VLAN has the address of the link below it, a bond that of a member.
        Matches::Mac(mac) => {
            matches!(link.made_as.as_str(), "" | CABLE) && link.permanent.or(link.hardware) == Some(*mac)
        }
        Matches::Driver(driver) => found.driver.as_ref() == Some(driver),
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// A network card of this name and number, with the address 02:00:00:00:00:NUMBER.
    pub fn card(index: u32, name: &str) -> Found {
        let hardware = Some([2, 0, 0, 0, 0, u8::try_from(index).unwrap()]);
        let link =
            Link { index, name: name.to_owned(), kind: ETHERNET, hardware, mtu: 1500, ..Link::default() };
        Found { link, is_device: true, driver: Some("virtio_net".to_owned()) }
    }

    /// A mapping of this name or pattern.
    pub fn named(name: &str) -> InterfaceSpec {
        InterfaceSpec::new(Matches::Name(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{card, named};
    use super::*;
    use kelson_spec::network::{BridgeSpec, LinkKind};

    fn with_address(spec: InterfaceSpec) -> InterfaceSpec {
        InterfaceSpec { addresses: vec!["192.0.2.7/24".parse().unwrap()], ..spec }
    }

    #[test]
    fn a_name_comes_before_the_first_that_matches() {
        let found = [card(2, "eth0"), card(3, "eth1"), card(4, "wan0")];
        let specs = [named("eth*"), named("*"), named("eth1")];
        assert_eq!(choose(&specs, &found), [Some(0), Some(2), Some(1)]);
        assert_eq!(choose(&[named("lan?")], &found), [None; 3]);
        let mac = InterfaceSpec::new(Matches::Mac([2, 0, 0, 0, 0, 3]));
        let driver = InterfaceSpec::new(Matches::Driver("virtio_net".to_owned()));
        assert_eq!(choose(&[mac, driver], &found), [Some(1), Some(0), Some(1)]);
    }

    #[test]
    fn an_address_goes_to_the_first_interface_that_matches() {
        let found = [card(2, "eth0"), card(3, "eth1")];
        let specs = [with_address(named("*")), named("eth*")];
        assert_eq!(choose(&specs, &found), [Some(0), Some(1)]);
        assert_eq!(choose(&specs[..1], &found), [Some(0), None]);
    }

    #[test]
    fn only_hardware_is_matched_by_anything_but_its_name() {
        let (plain, mut vlan) = (card(2, "eth0"), card(3, "eth0.5"));
        vlan.link.hardware = plain.link.hardware;
        vlan.link.made_as = "vlan".to_owned();
        (vlan.is_device, vlan.driver) = (false, None);
        let mac = InterfaceSpec::new(Matches::Mac([2, 0, 0, 0, 0, 2]));
        assert_eq!(choose(&[mac.clone(), named("eth*")], &[vlan.clone()]), [None]);
        assert_eq!(choose(&[named("eth0.5")], &[vlan]), [Some(0)]);
        // The member of a bond.
        let mut member = plain;
        (member.link.permanent, member.link.hardware) = (member.link.hardware, Some([2, 0, 0, 0, 0, 9]));
        assert_eq!(choose(&[mac], &[member]), [Some(0)]);
    }

    #[test]
    fn a_member_has_the_mapping_of_its_name_alone() {
        let members = vec!["eth0".to_owned(), "eth1".to_owned()];
        let bridge = LinkKind::Bridge(BridgeSpec { members, stp: false });
        let bridge = InterfaceSpec { kind: Some(bridge), ..named("br0") };
        let found = [card(2, "eth0"), card(3, "eth1"), card(4, "eth2")];
        assert_eq!(choose(&[named("*"), bridge, named("eth1")], &found), [None, Some(2), Some(0)]);
    }
}
