//! The arguments of the process: `FOLDER` and words such as `dns=192.0.2.1`, `dhcp=eth0`, `unprobed=eth1`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use kelson_spec::machine::HARDWARE;
use kelson_sys::netlink::Link;

/// `ARPHRD_ETHER`.
const ETHERNET: u16 = 1;

/// What PID 1 says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Of the leases and of the file of name servers.
    pub folder: PathBuf,
    /// Those of the machine file.
    pub name_servers: Vec<IpAddr>,
    /// In the order of the machine file.
    pub interfaces: Vec<Wanted>,
}

/// Interfaces that get their address by DHCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// A name, or [`HARDWARE`].
    pub name: String,
    /// Whether the client asks the link before it takes an address.
    pub probes: bool,
}

impl Settings {
    /// `None`: PID 1 would not have written it.
    pub fn read(words: &[OsString]) -> Option<Settings> {
        let (folder, words) = words.split_first()?;
        let mut settings = Settings { folder: folder.into(), ..Settings::default() };
        for word in words {
            let (key, value) = word.to_str()?.split_once('=')?;
            let wanted = |probes| Wanted { name: value.to_owned(), probes };
            match key {
                "dns" => settings.name_servers.push(value.parse().ok()?),
                "dhcp" => settings.interfaces.push(wanted(true)),
                "unprobed" => settings.interfaces.push(wanted(false)),
                _ => return None,
            }
        }
        Some(settings)
    }

    /// Those that this interface is one of.
    pub fn of(&self, link: &Link) -> Option<&Wanted> {
        let is_hardware = || std::path::Path::new("/sys/class/net").join(&link.name).join("device").exists();
        (link.kind == ETHERNET && link.hardware.is_some()).then_some(())?;
        let named = self.interfaces.iter().find(|wanted| wanted.name == link.name);
        named.or_else(|| self.interfaces.iter().find(|wanted| wanted.name == HARDWARE && is_hardware()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Option<Settings> {
        Settings::read(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_become_settings() {
        let settings = read(&["/run/x", "dns=1.1.1.1", "dhcp=eth0", "unprobed=eth1"]).unwrap();
        assert_eq!(settings.folder, PathBuf::from("/run/x"));
        assert_eq!(settings.name_servers.len(), 1);
        let names: Vec<_> = settings.interfaces.iter().map(|one| (one.name.as_str(), one.probes)).collect();
        assert_eq!(names, [("eth0", true), ("eth1", false)]);
        for bad in [&[][..], &["/x", "eth0"], &["/x", "dns=a"], &["/x", "x=y"]] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        let link = Link {
            index: 2,
            flags: 0,
            kind: ETHERNET,
            name: "eth0".to_owned(),
            hardware: Some([2; 6]),
            mtu: 1500,
            carrier_changes: 0,
        };
        assert_eq!(settings.of(&link).map(|wanted| wanted.name.as_str()), Some("eth0"));
        assert_eq!(settings.of(&Link { kind: 772, ..link.clone() }), None);
        assert_eq!(settings.of(&Link { name: "eth2".to_owned(), ..link }), None);
    }
}
