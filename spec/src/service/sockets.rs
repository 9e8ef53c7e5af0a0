//! Sockets that PID 1 holds for a service, and hands over at each of its starts.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// One socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketSpec {
    /// By which the service tells it from its others.
    pub name: String,
    /// A [`Listen`] as text: PID 1 compares it, and the helper that makes the socket reads it.
    pub listen: String,
    /// Connections that wait until the service takes them, at most.
    pub backlog: u32,
    /// Permissions of the file of a Unix socket or FIFO.
    pub mode: u32,
    /// Its user and group. `None`: PID 1's.
    pub owner: Option<(u32, u32)>,
    pub options: SocketOptions,
}

/// Options of setsockopt(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketOptions {
    /// Of an IPv6 address: IPv4 is not taken, too.
    pub ipv6_only: bool,
    pub reuse_port: bool,
    /// Also while the host does not have the address.
    pub free_bind: bool,
    pub pass_credentials: bool,
    /// Connections by TCP that are quiet are looked after.
    pub keep_alive: bool,
    /// The service gets it as one that does not block.
    pub non_blocking: bool,
    /// It is the standard input too.
    pub stdin: bool,
}

impl SocketOptions {
    /// Each with its letter in a word.
    fn letters(&mut self) -> [(&mut bool, char); 7] {
        [
            (&mut self.ipv6_only, '6'),
            (&mut self.reuse_port, 'r'),
            (&mut self.free_bind, 'f'),
            (&mut self.pass_credentials, 'c'),
            (&mut self.keep_alive, 'k'),
            (&mut self.non_blocking, 'n'),
            (&mut self.stdin, 's'),
        ]
    }
}

impl SocketSpec {
    pub const BACKLOG: u32 = 4096;
    pub const MODE: u32 = 0o666;
    /// The most that a service has: each is a descriptor of PID 1.
    pub const MOST: usize = 64;
    /// The kernel has no longer name for one.
    pub const LONGEST_NAME: usize = 255;

    /// Whether a name may have this character.
    pub fn is_of_name(letter: char) -> bool {
        letter.is_ascii_alphanumeric() || "._@-".contains(letter)
    }

    /// The keys of a service file that ask for what a socket of this kind does not have, each with the reason.
    pub fn misplaced(&self, listen: &Listen) -> impl Iterator<Item = (&'static str, &'static str)> {
        let (is_file, is_inet) = (self.path().is_some(), listen.address().is_some());
        let takes = !matches!(listen, Listen::Udp(_) | Listen::Fifo(_));
        let SocketOptions { ipv6_only, reuse_port, free_bind, pass_credentials, keep_alive, .. } =
            self.options;
        // With the default nothing is asked for.
        let needs = [
            (
                "mode",
                is_file || self.mode == Self::MODE,
                "only a Unix socket or FIFO with a path has permissions",
            ),
            ("user", is_file || self.owner.is_none(), "only a Unix socket or FIFO with a path has an owner"),
            ("ipv6Only", listen.is_ipv6() || !ipv6_only, "this is no IPv6 address"),
            ("reusePort", is_inet || !reuse_port, "only TCP and UDP have ports to share"),
            ("freeBind", is_inet || !free_bind, "only TCP and UDP have such addresses"),
            (
                "passCredentials",
                matches!(listen, Listen::Unix(..)) || !pass_credentials,
                "only messages of Unix sockets have them",
            ),
            ("keepAlive", matches!(listen, Listen::Tcp(_)) || !keep_alive, "only TCP has it"),
            ("backlog", takes || self.backlog == Self::BACKLOG, "it takes no connections"),
        ];
        needs.into_iter().filter(|(_, fits, _)| !fits).map(|(key, _, why)| (key, why))
    }

    /// The file that a Unix socket or FIFO has.
    pub fn path(&self) -> Option<&str> {
        let place = match self.listen.split_once(':') {
            Some(("unix" | "datagram" | "seqpacket" | "fifo", path)) => path,
            _ => &self.listen,
        };
        place.starts_with('/').then_some(place)
    }

    /// As one word of a command line, for the helper that makes it.
    pub fn to_word(&self) -> String {
        let owner = self.owner.map(|(uid, gid)| format!("{uid}.{gid}")).unwrap_or_default();
        let mut options = self.options;
        let letters = options.letters().into_iter().filter(|(is_set, _)| **is_set);
        let options: String = letters.map(|(_, letter)| letter).collect();
        format!("{}:{}:{:o}:{owner}:{options}:{}", self.name, self.backlog, self.mode, self.listen)
    }

    /// `None`: it is no word of [`SocketSpec::to_word`].
    pub fn from_word(word: &str) -> Option<SocketSpec> {
        let mut parts = word.splitn(6, ':');
        let (name, backlog, mode) = (parts.next()?, parts.next()?, parts.next()?);
        let (owner, letters, listen) = (parts.next()?, parts.next()?, parts.next()?);
        let owner = match owner.split_once('.') {
            Some((uid, gid)) => Some((uid.parse().ok()?, gid.parse().ok()?)),
            None => None,
        };
        let mut options = SocketOptions::default();
        options.letters().into_iter().for_each(|(is_set, letter)| *is_set = letters.contains(letter));
        Some(SocketSpec {
            name: name.to_owned(),
            listen: listen.to_owned(),
            backlog: backlog.parse().ok()?,
            mode: u32::from_str_radix(mode, 8).ok()?,
            owner,
            options,
        })
    }
}

impl Default for SocketSpec {
    fn default() -> Self {
        SocketSpec {
            name: String::new(),
            listen: String::new(),
            backlog: Self::BACKLOG,
            mode: Self::MODE,
            owner: None,
            options: SocketOptions::default(),
        }
    }
}

/// Where a socket listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    Tcp(Address),
    Udp(Address),
    Unix(UnixKind, UnixPlace),
    /// `None`: for every machine.
    Vsock(Option<u32>, u32),
    Fifo(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// This port of all addresses, IPv4 and IPv6.
    Any(u16),
    One(SocketAddr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnixKind {
    Stream,
    Datagram,
    Seqpacket,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnixPlace {
    Path(String),
    /// Without its `@`.
    Abstract(String),
}

impl UnixPlace {
    /// The longest path that bind(2) and connect(2) take, and the longest abstract name.
    pub const LONGEST: usize = 107;
}

impl Listen {
    /// Reads `0.0.0.0:80`, `*:80`, `udp:[::]:53`, `/run/x.sock`, `@name`, `datagram:/run/x.sock`, `vsock:1024`,
    /// `fifo:/run/x`.
    ///
    /// # Errors
    /// What is wrong with it, after its text.
    pub fn read(text: &str) -> Result<Listen, &'static str> {
        let (kind, place) = match text.split_once(':') {
            Some((kind @ ("tcp" | "udp" | "unix" | "datagram" | "seqpacket" | "vsock" | "fifo"), place)) => {
                (kind, place)
            }
            _ if text.starts_with(['/', '@']) => ("unix", text),
            _ => ("tcp", text),
        };
        Ok(match kind {
            "udp" => Listen::Udp(address(place)?),
            "unix" => Listen::Unix(UnixKind::Stream, unix(place)?),
            "datagram" => Listen::Unix(UnixKind::Datagram, unix(place)?),
            "seqpacket" => Listen::Unix(UnixKind::Seqpacket, unix(place)?),
            "vsock" => vsock(place)?,
            "fifo" => match unix(place)? {
                UnixPlace::Path(path) => Listen::Fifo(path),
                UnixPlace::Abstract(_) => return Err("a FIFO has a path"),
            },
            _ => Listen::Tcp(address(place)?),
        })
    }

    /// The address of TCP or UDP, if it is one.
    pub fn address(&self) -> Option<Address> {
        if let Listen::Tcp(address) | Listen::Udp(address) = self { Some(*address) } else { None }
    }

    /// The port, if it has one.
    pub fn port(&self) -> Option<u32> {
        match self {
            Listen::Tcp(address) | Listen::Udp(address) => Some(address.first().port().into()),
            Listen::Vsock(_, port) => Some(*port),
            Listen::Unix(..) | Listen::Fifo(_) => None,
        }
    }

    /// Whether it has an IPv6 address, or all addresses.
    pub fn is_ipv6(&self) -> bool {
        match self.address() {
            Some(Address::Any(_)) => true,
            Some(Address::One(address)) => address.is_ipv6(),
            None => false,
        }
    }
}

impl Address {
    /// What bind(2) is given first.
    pub fn first(self) -> SocketAddr {
        match self {
            Address::Any(port) => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
            Address::One(address) => address,
        }
    }
}

impl fmt::Display for SocketSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.listen)
    }
}

fn address(text: &str) -> Result<Address, &'static str> {
    const WRONG: &str = "is no address and port; write such as 0.0.0.0:80, [::1]:80 or *:80";
    let address = match text.strip_prefix("*:") {
        Some(port) => Address::Any(port.parse().map_err(|_| WRONG)?),
        None => Address::One(text.parse().map_err(|_| WRONG)?),
    };
    if address.first().port() == 0 { Err("has no port; the port is a number from 1 on") } else { Ok(address) }
}

fn unix(text: &str) -> Result<UnixPlace, &'static str> {
    if text.contains('\0') {
        return Err("has a NUL byte");
    }
    if text.len() > UnixPlace::LONGEST {
        return Err("is longer than the 107 bytes that Linux permits");
    }
    if let Some(name) = text.strip_prefix('@') {
        return if name.is_empty() {
            Err("has no name after the @")
        } else {
            Ok(UnixPlace::Abstract(name.to_owned()))
        };
    }
    let mut parts = text.split('/');
    let is_whole = parts.next() == Some("") && parts.clone().count() > 0;
    if !is_whole || parts.any(|part| matches!(part, "" | "." | "..")) {
        return Err("is no path from / on, without . and .., and no @NAME");
    }
    Ok(UnixPlace::Path(text.to_owned()))
}

fn vsock(text: &str) -> Result<Listen, &'static str> {
    const WRONG: &str = "is not vsock:PORT or vsock:CID:PORT";
    let (cid, port) = match text.split_once(':') {
        Some((cid, port)) => (Some(cid.parse().map_err(|_| WRONG)?), port),
        None => (None, text),
    };
    Ok(Listen::Vsock(cid, port.parse().map_err(|_| WRONG)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_survives_its_word() {
        let options = SocketOptions { ipv6_only: true, pass_credentials: true, ..SocketOptions::default() };
        for (owner, options, listen) in [
            (None, SocketOptions::default(), "0.0.0.0:80"),
            (Some((33, 0)), options, "datagram:/run/a b:c"),
            (
                Some((0, 7)),
                SocketOptions {
                    reuse_port: true,
                    keep_alive: true,
                    non_blocking: true,
                    stdin: true,
                    ..options
                },
                "udp:[::]:53",
            ),
        ] {
            let (name, listen) = ("http".to_owned(), listen.to_owned());
            let socket = SocketSpec { name, listen, backlog: 7, mode: 0o660, owner, options };
            assert_eq!(SocketSpec::from_word(&socket.to_word()), Some(socket));
        }
        for wrong in ["", "a:b:c:::d", "a:1:9:::d", "a:1:7:x.1::d", "a:1:7"] {
            assert_eq!(SocketSpec::from_word(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_place_is_read() {
        let path = |path: &str| UnixPlace::Path(path.to_owned());
        let one = |text: &str| Address::One(text.parse().unwrap());
        for (text, expected) in [
            ("0.0.0.0:80", Listen::Tcp(one("0.0.0.0:80"))),
            ("tcp:[::1]:80", Listen::Tcp(one("[::1]:80"))),
            ("*:80", Listen::Tcp(Address::Any(80))),
            ("udp:*:53", Listen::Udp(Address::Any(53))),
            ("udp:[::]:53", Listen::Udp(one("[::]:53"))),
            ("/run/x.sock", Listen::Unix(UnixKind::Stream, path("/run/x.sock"))),
            ("unix:/run/x:y", Listen::Unix(UnixKind::Stream, path("/run/x:y"))),
            ("/run/x:y", Listen::Unix(UnixKind::Stream, path("/run/x:y"))),
            ("@x/y", Listen::Unix(UnixKind::Stream, UnixPlace::Abstract("x/y".into()))),
            ("datagram:/a", Listen::Unix(UnixKind::Datagram, path("/a"))),
            ("seqpacket:@a", Listen::Unix(UnixKind::Seqpacket, UnixPlace::Abstract("a".into()))),
            ("vsock:1024", Listen::Vsock(None, 1024)),
            ("vsock:2:1024", Listen::Vsock(Some(2), 1024)),
            ("fifo:/run/f", Listen::Fifo("/run/f".into())),
        ] {
            assert_eq!(Listen::read(text), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "80",
            ":80",
            "0.0.0.0",
            "*:0",
            "0.0.0.0:0",
            "localhost:80",
            "[::1%lo]:80",
            "udp:/run/x",
            "unix:x",
            "x",
            "/",
            "/a/",
            "/a/../b",
            "//a",
            "@",
            "fifo:@a",
            "vsock:",
            "vsock:a:1",
            "vsock:1:2:3",
            "tcp:@a",
            "*:65536",
        ] {
            assert!(Listen::read(wrong).is_err(), "{wrong}");
        }
        assert!(Listen::read(&format!("/{}", "a".repeat(107))).is_err());
    }

    #[test]
    fn what_has_a_file_is_known() {
        let path = |listen: &str| {
            SocketSpec { listen: listen.into(), ..SocketSpec::default() }.path().map(str::to_owned)
        };
        assert_eq!(path("/run/a:b"), Some("/run/a:b".into()));
        assert_eq!(path("fifo:/run/a"), Some("/run/a".into()));
        for none in ["@a", "datagram:@a", "0.0.0.0:80", "udp:*:53", "vsock:1"] {
            assert_eq!(path(none), None, "{none}");
        }
    }
}
