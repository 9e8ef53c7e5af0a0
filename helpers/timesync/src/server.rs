//! A server of time, asked by SNTP (RFC 5905).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use kelson_resolver::Resolver;
use kelson_sys::clock::LeapSecond;
use rsntp::{Config, KissCode, LeapIndicator, ProtocolError, SntpClient, SynchronizationError};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(3);
const PORT: u16 = 123;

/// One server of the machine file.
#[derive(Debug)]
pub struct Server {
    /// As the file names it.
    text: String,
    name: String,
    port: u16,
    /// Those that the name has, the one that is asked first. Empty: the name has to be looked up.
    addresses: Vec<IpAddr>,
    /// In how many rounds it is left out, because it has asked for that; and how many it was last time. Never permanently:
    /// the request may be forged.
    pauses: (u32, u32),
}

/// What a server says.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub offset: f64,
    pub delay: f64,
    pub leap: LeapSecond,
}

impl Server {
    /// `NAME`, `NAME:PORT`, an address, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
    pub fn new(text: &str) -> Server {
        let (name, port) = match text.parse::<SocketAddr>() {
            Ok(address) => (address.ip().to_string(), address.port()),
            Err(_) if text.parse::<IpAddr>().is_ok() => (text.to_owned(), PORT),
            Err(_) => match text.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?))) {
                Some((name, port)) => (name.to_owned(), port),
                None => (text.to_owned(), PORT),
            },
        };
        Server { text: text.to_owned(), name, port, addresses: Vec::new(), pauses: (0, 0) }
    }

    /// Whether it was made from this text.
    pub fn is(&self, text: &str) -> bool {
        self.text == text
    }

    /// Asks it once.
    ///
    /// # Errors
    /// Why there is no reading.
    pub fn ask(&mut self) -> Result<Reading, String> {
        if self.pauses.0 > 0 {
            self.pauses.0 = self.pauses.0.saturating_sub(1);
            return Err("has asked for fewer questions, or for none".to_owned());
        }
        if self.addresses.is_empty() {
            self.addresses = Resolver::of_host().addresses(&self.name).map_err(|error| error.to_string())?;
        }
        let Some(address) = self.addresses.first().copied() else { return Err("has no address".to_owned()) };
        match ask((address, self.port).into()) {
            Ok(reading) => {
                self.pauses = (0, 0);
                Ok(reading)
            }
            Err(error) => {
                // The next address of the name, or a new look at the name after the last.
                self.addresses.remove(0);
                Err(self.explain(&error))
            }
        }
    }

    fn explain(&mut self, error: &SynchronizationError) -> String {
        match error {
            SynchronizationError::ProtocolError(ProtocolError::KissODeath(code)) => {
                if matches!(code, KissCode::AccessDenied | KissCode::RateExceeded) {
                    let pauses = self.pauses.1.saturating_mul(2).clamp(2, 32);
                    self.pauses = (pauses, pauses);
                }
                format!("does not answer: {code}")
            }
            SynchronizationError::IOError(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                format!("no answer within {} s", TIMEOUT.as_secs())
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn ask(server: SocketAddr) -> Result<Reading, SynchronizationError> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let config = Config::default().bind_address((any, 0).into()).timeout(TIMEOUT);
    let result = SntpClient::with_config(config).synchronize(server)?;
    let leap = match result.leap_indicator() {
        LeapIndicator::LastMinuteHas61Seconds => LeapSecond::Inserted,
        LeapIndicator::LastMinuteHas59Seconds => LeapSecond::Deleted,
        _ => LeapSecond::None,
    };
    Ok(Reading {
        offset: result.clock_offset().as_secs_f64(),
        delay: result.round_trip_delay().as_secs_f64(),
        leap,
    })
}
