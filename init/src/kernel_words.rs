//! The words of the kernel's command line that are older than Kelson: `root=`, `rootfstype=`, `rootflags=`, `ro`,
//! `rw` and `ip=`; and `kelson.disk=`, which only our own initramfs uses.

use std::net::{IpAddr, Ipv4Addr};

use kelson_spec::network::{ANY, DhcpSpec, InterfaceSpec, Matches, Prefixed};
use kelson_sys::ipv4;

/// The parameters of the kernel's command line that concern the root and the network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelWords {
    /// A [name of a disk](kelson_spec::disk::DiskName).
    pub root: Option<String>,
    pub root_fs_type: Option<String>,
    pub root_flags: Option<String>,
    /// `ro` or `rw`, whichever came last.
    pub read_only: Option<bool>,
    /// The disk that holds what is written over the image: a [name of a disk](kelson_spec::disk::DiskName).
    pub disk: Option<String>,
    pub ip: Vec<IpWord>,
}

/// One `ip=` word in the syntax of klibc's ipconfig: `client:server:gateway:netmask:hostname:device:protocol:dns0:dns1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpWord {
    /// Of a word without a device: [`ANY`] by DHCP, and for a static address the first network card.
    pub interface: InterfaceSpec,
    pub hostname: Option<String>,
}

/// Why an `ip=` word is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IpError {
    #[error("Kelson knows off, none, static, on, any and dhcp, not \"{0}\"")]
    Protocol(String),
    #[error("the address (the first field) is missing")]
    NoAddress,
    #[error("\"{0}\" is not an IP address")]
    Address(String),
    #[error("/{prefix} is longer than /{longest}")]
    Prefix { prefix: u8, longest: u8 },
    #[error("\"{0}\" is not a netmask such as 255.255.255.0")]
    Netmask(String),
    #[error("the netmask {0} has holes")]
    Holes(Ipv4Addr),
}

impl KernelWords {
    /// Picks our words out of `words`; bad values go to `complaints`.
    pub fn parse(words: &[String], complaints: &mut Vec<String>) -> KernelWords {
        let mut found = KernelWords::default();
        for word in words {
            match word.split_once('=') {
                None if word == "ro" => found.read_only = Some(true),
                None if word == "rw" => found.read_only = Some(false),
                Some(("root", value)) => found.root = non_empty(value),
                Some(("rootfstype", value)) => found.root_fs_type = non_empty(value),
                Some(("rootflags", value)) => found.root_flags = non_empty(value),
                Some(("kelson.disk", value)) => found.disk = non_empty(value),
                Some(("ip", value)) => match IpWord::parse(value) {
                    Ok(Some(ip)) => found.ip.push(ip),
                    Ok(None) => {}
                    Err(error) => complaints.push(format!("ip={value}: {error}; the word is ignored")),
                },
                _ => {}
            }
        }
        found
    }
}

fn non_empty(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

impl IpWord {
    /// `Ok(None)` where the word asks for nothing (`off`, `none`).
    fn parse(value: &str) -> Result<Option<IpWord>, IpError> {
        if matches!(value, "" | "off" | "none") {
            return Ok(None);
        }
        let fields = fields(value);
        let field = |index: usize| fields.get(index).map(String::as_str).filter(|text| !text.is_empty());
        let protocol = if fields.len() == 1 && !value.contains('.') { Some(value) } else { field(6) };
        let device = Matches::Name(field(5).unwrap_or(ANY).to_owned());
        let hostname = field(4).map(str::to_owned);
        let dns = [7, 8].into_iter().filter_map(field).map(parse_address).collect::<Result<_, _>>()?;
        match protocol {
            None | Some("off" | "none" | "static") => {}
            Some("on" | "any" | "dhcp") => {
                let dhcp = Some(DhcpSpec::default());
                let interface = InterfaceSpec { dns, dhcp, ..InterfaceSpec::new(device) };
                return Ok(Some(IpWord { interface, hostname }));
            }
            Some(other) => return Err(IpError::Protocol(other.to_owned())),
        }
        let client = field(0).ok_or(IpError::NoAddress)?;
        let (client, slash) = match client.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (client, None),
        };
        let address = parse_address(client)?;
        let prefix = match (slash, field(3)) {
            (Some(prefix), _) | (None, Some(prefix)) => parse_prefix(prefix, address)?,
            (None, None) => usual_prefix(address),
        };
        let interface = InterfaceSpec {
            addresses: vec![Prefixed(address, prefix)],
            gateway: field(2).map(parse_address).transpose()?,
            dns,
            ..InterfaceSpec::new(device)
        };
        Ok(Some(IpWord { interface, hostname }))
    }
}

/// Splits at colons that are not within `[…]`, which is how an IPv6 address is written here.
fn fields(value: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut inside = false;
    for c in value.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            ':' if !inside => fields.push(String::new()),
            c => {
                if let Some(last) = fields.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    fields
}

fn parse_address(text: &str) -> Result<IpAddr, IpError> {
    text.parse().map_err(|_| IpError::Address(text.to_owned()))
}

fn parse_prefix(text: &str, address: IpAddr) -> Result<u8, IpError> {
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if let Ok(prefix) = text.parse::<u8>() {
        return if prefix <= longest { Ok(prefix) } else { Err(IpError::Prefix { prefix, longest }) };
    }
    let mask: Ipv4Addr = text.parse().map_err(|_| IpError::Netmask(text.to_owned()))?;
    ipv4::prefix(mask).ok_or(IpError::Holes(mask))
}

/// The kernel's default where no netmask is given.
fn usual_prefix(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(v4) => ipv4::usual_prefix(v4),
        IpAddr::V6(_) => 64,
    }
}

#[cfg(test)]
mod tests {
    use kelson_sys::command_line::split;

    use super::*;

    fn ip(value: &str) -> IpWord {
        IpWord::parse(value).unwrap().unwrap()
    }

    #[test]
    fn root_words() {
        let mut complaints = Vec::new();
        let words = split("root=/dev/vda1 rootfstype=ext4 rootflags=noatime ro kelson.disk=LABEL=STATE rw");
        let found = KernelWords::parse(&words, &mut complaints);
        assert_eq!(found.root.as_deref(), Some("/dev/vda1"));
        assert_eq!(found.root_fs_type.as_deref(), Some("ext4"));
        assert_eq!(found.root_flags.as_deref(), Some("noatime"));
        assert_eq!(found.read_only, Some(false));
        assert_eq!(found.disk.as_deref(), Some("LABEL=STATE"));
        assert!(complaints.is_empty());
    }

    #[test]
    fn a_full_ip_word() {
        let IpWord { interface, hostname } =
            ip("10.0.2.15:10.0.2.2:10.0.2.1:255.255.254.0:edge:eth0:off:10.0.2.3:1.1.1.1");
        assert_eq!(interface.addresses, [Prefixed([10, 0, 2, 15].into(), 23)]);
        assert_eq!(interface.gateway, Some([10, 0, 2, 1].into()));
        assert_eq!(hostname.as_deref(), Some("edge"));
        assert_eq!(interface.matches.name(), Some("eth0"));
        assert_eq!(interface.dns.len(), 2);
    }

    #[test]
    fn short_ip_words() {
        let of = |word| ip(word).interface;
        assert_eq!(of("192.168.1.5").matches, Matches::Name(ANY.to_owned()));
        for (word, address) in [
            ("192.168.1.5", "192.168.1.5/24"),
            ("10.1.2.3:::::eth1", "10.1.2.3/8"),
            ("10.1.2.3/12:::::eth1", "10.1.2.3/12"),
            ("[fd00::5]:::64::eth1", "fd00::5/64"),
        ] {
            assert_eq!(of(word).addresses, [address.parse().unwrap()], "{word}");
        }
        for (word, name) in [("dhcp", "*"), ("on", "*"), (":::::eth0:dhcp", "eth0"), ("::::edge::any", "*")] {
            let interface = of(word);
            assert_eq!(interface.matches, Matches::Name(name.to_owned()), "{word}");
            assert_eq!(interface.addresses, []);
            assert_eq!(interface.dhcp, Some(DhcpSpec::default()));
        }
        assert_eq!(IpWord::parse("off"), Ok(None));
        assert_eq!(IpWord::parse(""), Ok(None));
    }

    #[test]
    fn bad_ip_words_say_what_is_wrong() {
        for (word, text) in [
            ("bootp", "not \"bootp\""),
            (":::::eth0:rarp", "not \"rarp\""),
            (":::::eth0:off", "is missing"),
            ("10.0.0.300", "not an IP address"),
            ("10.0.0.1:::255.0.255.0", "has holes"),
            ("10.0.0.1:::33", "longer than /32"),
        ] {
            let error = IpWord::parse(word).unwrap_err().to_string();
            assert!(error.contains(text), "{word}: {error}");
        }
    }
}
