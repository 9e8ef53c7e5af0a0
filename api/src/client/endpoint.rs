//! Where a host is reached: its Unix socket, or the API endpoint of another machine.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kelson_proto::call::{LOG_SOCKET, VSOCK_PORTS};

/// The port of kelson-apid where an endpoint names none.
pub const PORT: u16 = 50000;

/// Where a host is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// The socket of PID 1; that of kelson-logd is beside it.
    Unix(PathBuf),
    /// A virtual machine, from the host of its hypervisor. Logs are at the port after this one.
    Vsock { cid: u32, port: u32 },
    /// kelson-apid. `host` is an address or a name; without the brackets of IPv6.
    Remote { host: String, port: u16 },
}

/// The mistake in the text of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no endpoint: {problem}; right are unix:///run/kelson/init.sock, vsock://CID:PORT, HOST and HOST:PORT"
)]
pub struct EndpointError {
    pub text: String,
    pub problem: &'static str,
}

impl Endpoint {
    /// The socket of the Logs service, beside that of PID 1.
    pub(crate) fn log_socket(socket: &Path) -> PathBuf {
        socket.with_file_name(LOG_SOCKET)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let wrong = |problem| EndpointError { text: text.to_owned(), problem };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(wrong("the path of the socket must begin with /"));
            }
            if path.ends_with('/') {
                return Err(wrong("a folder is no socket"));
            }
            return Ok(Endpoint::Unix(PathBuf::from(path)));
        }
        if let Some(address) = text.strip_prefix("vsock:") {
            let address = address.strip_prefix("//").unwrap_or(address);
            let Some((cid, port)) = address.split_once(':') else {
                return Err(wrong("a vsock endpoint has a CID and a port, as in vsock://3:5000"));
            };
            // The kernel takes the largest number for "any", as a CID and as a port.
            let cid = cid.parse().ok().filter(|cid| (1..u32::MAX).contains(cid));
            let cid = cid.ok_or_else(|| wrong("the CID must be a number from 1 to 4294967294"))?;
            let port = port.parse().ok().filter(|port| VSOCK_PORTS.contains(port));
            let port = port.ok_or_else(|| wrong("the port must be a number from 1 to 4294967293"))?;
            return Ok(Endpoint::Vsock { cid, port });
        }
        if text.contains("//") {
            return Err(wrong("an API endpoint speaks gRPC; leave http:// or https:// away"));
        }
        let is_ipv6 = |host: &str| host.parse::<Ipv6Addr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            // Of an IPv6 address alone, what stands behind its last colon is no port.
            _ if is_ipv6(text) => return Ok(Endpoint::Remote { host: text.to_owned(), port: PORT }),
            Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let port = match port.map_or(Ok(PORT), str::parse) {
            Ok(0) | Err(_) => return Err(wrong("the port must be a number from 1 to 65535")),
            Ok(port) => port,
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) if is_ipv6(inner) => inner,
            Some(_) => return Err(wrong("between [ and ] stands an IPv6 address")),
            None if is_ipv6(host) => {
                return Err(wrong("an IPv6 address stands between [ and ]"));
            }
            None => host,
        };
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        if host.is_empty() || !host.bytes().all(letters) {
            return Err(wrong("the host must be an address or a name"));
        }
        Ok(Endpoint::Remote { host: host.to_owned(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            Endpoint::Vsock { cid, port } => write!(f, "vsock://{cid}:{port}"),
            Endpoint::Remote { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Remote { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(host: &str, port: u16) -> Result<Endpoint, EndpointError> {
        Ok(Endpoint::Remote { host: host.into(), port })
    }

    #[test]
    fn what_is_right() {
        let parse = |text: &str| text.parse::<Endpoint>();
        let unix = |path: &str| Ok(Endpoint::Unix(PathBuf::from(path)));
        assert_eq!(parse("unix:///run/kelson/init.sock"), unix("/run/kelson/init.sock"));
        assert_eq!(parse("unix:/run/kelson/init.sock"), unix("/run/kelson/init.sock"));
        for text in ["vsock://3:5000", "vsock:3:5000"] {
            assert_eq!(parse(text), Ok(Endpoint::Vsock { cid: 3, port: 5000 }), "{text}");
        }
        assert_eq!(parse("127.0.0.1:50000"), remote("127.0.0.1", 50000));
        assert_eq!(parse("[::1]:50000"), remote("::1", 50000));
        assert_eq!(parse("edge-1.example:1"), remote("edge-1.example", 1));
        for (text, host) in [
            ("edge", "edge"),
            ("192.0.2.7", "192.0.2.7"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("fe80::1:2:3:4", "fe80::1:2:3:4"),
        ] {
            assert_eq!(parse(text), remote(host, PORT), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, problem) in [
            ("", "address or a name"),
            ("[edge]", "IPv6 address"),
            ("edge:", "number from 1"),
            ("edge:0", "number from 1"),
            ("edge:65536", "number from 1"),
            (":50000", "address or a name"),
            ("a b:1", "address or a name"),
            ("::1:50000", "between [ and ]"),
            ("[edge]:1", "IPv6 address"),
            ("https://edge:50000", "http"),
            ("unix:run.sock", "begin with /"),
            ("unix:///run/", "no socket"),
            ("vsock://3", "a CID and a port"),
            ("vsock://host:5000", "the CID must be"),
            ("vsock://0:5000", "the CID must be"),
            ("vsock://4294967295:5000", "the CID must be"),
            ("vsock://3:", "the port must be"),
            ("vsock://3:0", "the port must be"),
            ("vsock://3:4294967294", "the port must be"),
            ("vsock://3:5000/", "the port must be"),
        ] {
            let error = text.parse::<Endpoint>().expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn it_is_shown_as_it_is_written() {
        for text in
            ["unix:///run/kelson/init.sock", "10.0.0.1:1", "[fe80::1]:50000", "edge:7", "vsock://3:5000"]
        {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
    }
}
