//! The arguments of kelson-apid.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::ApidError;

const USAGE: &str = "usage: kelson-apid --listen ADDRESS:PORT... --ca FILE --certificate FILE --key FILE \
                     [--runtime-dir DIR] [--user UID] [--group GID] [--connection-lifetime MILLISECONDS]";

/// The command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    pub listen: Vec<SocketAddr>,
    /// PEM: what a client's certificate must be signed by.
    pub ca: PathBuf,
    /// PEM: ours, with what stands between it and a CA that clients trust.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Where the Unix sockets are.
    pub runtime_dir: PathBuf,
    /// The user of the process that handles the connections, where this is root.
    pub user: Option<u32>,
    /// The group of the Unix sockets.
    pub group: Option<u32>,
    /// After this time a connection takes no new calls.
    pub lifetime: Duration,
}

/// A client makes a handshake at least this often, by default.
const LIFETIME: Duration = Duration::from_secs(3600);

impl Arguments {
    /// # Errors
    /// [`ApidError::Usage`], which says what is right.
    pub fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Arguments, ApidError> {
        let mut listen = Vec::new();
        let (mut ca, mut certificate, mut key) = (None, None, None);
        let (mut user, mut group, mut lifetime) = (None, None, LIFETIME);
        let mut runtime_dir = PathBuf::from("/run/kelson");
        while let Some(argument) = arguments.next() {
            let option = argument.to_string_lossy().into_owned();
            let mut value = || {
                arguments.next().ok_or_else(|| ApidError::Usage(format!("{option} needs a value; {USAGE}")))
            };
            match option.as_str() {
                "--listen" => listen.push(address(&value()?)?),
                "--ca" => ca = Some(PathBuf::from(value()?)),
                "--certificate" => certificate = Some(PathBuf::from(value()?)),
                "--key" => key = Some(PathBuf::from(value()?)),
                "--runtime-dir" => runtime_dir = PathBuf::from(value()?),
                "--user" => user = Some(number(&option, &value()?)?),
                "--group" => group = Some(number(&option, &value()?)?),
                "--connection-lifetime" => {
                    lifetime = Duration::from_millis(number(&option, &value()?)?);
                }
                other => return Err(ApidError::Usage(format!("{other:?} is not known; {USAGE}"))),
            }
        }
        if listen.is_empty() {
            return Err(ApidError::Usage(format!("--listen is missing; {USAGE}")));
        }
        let need = |value: Option<PathBuf>, option: &str| {
            value.ok_or_else(|| ApidError::Usage(format!("{option} is missing; {USAGE}")))
        };
        Ok(Arguments {
            listen,
            ca: need(ca, "--ca")?,
            certificate: need(certificate, "--certificate")?,
            key: need(key, "--key")?,
            runtime_dir,
            user,
            group,
            lifetime,
        })
    }

    #[cfg(test)]
    pub fn of_files(ca: PathBuf, certificate: PathBuf, key: PathBuf) -> Arguments {
        let (listen, runtime_dir) = (Vec::new(), PathBuf::new());
        Arguments { listen, ca, certificate, key, runtime_dir, user: None, group: None, lifetime: LIFETIME }
    }
}

fn number<T: FromStr>(option: &str, text: &OsString) -> Result<T, ApidError> {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| ApidError::Usage(format!("{option} {text:?} is not a number; {USAGE}")))
}

fn address(text: &OsString) -> Result<SocketAddr, ApidError> {
    text.to_string_lossy().parse().map_err(|_| {
        ApidError::Usage(format!(
            "--listen {text:?} is not an address and a port, such as 0.0.0.0:50000 or [::]:50000"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Arguments, String> {
        Arguments::parse(words.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_right() {
        let parsed = parse(
            "--listen 0.0.0.0:50000 --listen [::1]:50001 --ca ca.pem --certificate c.pem --key k.pem --runtime-dir /r --user 7 --group 8 \
             --connection-lifetime 1500",
        );
        assert_eq!(
            parsed.unwrap(),
            Arguments {
                listen: vec!["0.0.0.0:50000".parse().unwrap(), "[::1]:50001".parse().unwrap()],
                ca: "ca.pem".into(),
                certificate: "c.pem".into(),
                key: "k.pem".into(),
                runtime_dir: "/r".into(),
                user: Some(7),
                group: Some(8),
                lifetime: Duration::from_millis(1500),
            }
        );
        let short = parse("--listen 127.0.0.1:1 --ca a --certificate b --key c").unwrap();
        assert_eq!((short.runtime_dir, short.lifetime), (PathBuf::from("/run/kelson"), LIFETIME));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, problem) in [
            ("", "--listen is missing"),
            ("--listen", "needs a value"),
            ("--listen edge:1", "not an address"),
            ("--listen 127.0.0.1:1 --certificate b --key c", "--ca is missing"),
            ("--listen 127.0.0.1:1 --ca a --key c", "--certificate is missing"),
            ("--listen 127.0.0.1:1 --ca a --certificate b", "--key is missing"),
            ("--user root", "\"root\" is not a number"),
            ("--connection-lifetime 1h", "\"1h\" is not a number"),
            ("--port 1", "\"--port\" is not known"),
        ] {
            let error = parse(words).expect_err(words);
            assert!(error.contains(problem), "{words}: {error}");
        }
    }
}
