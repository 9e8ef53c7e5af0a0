//! The addresses of a name: `/etc/hosts`, then the name servers of `/etc/resolv.conf`. The static C library cannot do it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing))]

use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

/// How long a name server may take for each question.
const TIMEOUT: Duration = Duration::from_secs(3);
/// As many as the C library asks.
const SERVERS: usize = 3;
/// The longest answer over UDP without an extension.
const ANSWER: usize = 512;
const PORT: u16 = 53;

/// The files of the host that lead from names to addresses, as they were when they were read.
#[derive(Debug, Clone)]
pub struct Resolver {
    hosts: String,
    servers: Vec<IpAddr>,
}

impl Resolver {
    /// Reads the files of this host. One that is missing says nothing.
    pub fn of_host() -> Resolver {
        Resolver {
            hosts: read(Path::new("/etc/hosts")),
            servers: name_servers(&read(Path::new("/etc/resolv.conf"))),
        }
    }

    /// The addresses of a name, IPv4 before IPv6.
    ///
    /// # Errors
    /// When no name server knows an address, or none answers.
    pub fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let known = in_hosts(&self.hosts, name);
        if !known.is_empty() {
            return Ok(known);
        }
        let mut last = Error::new(ErrorKind::NotFound, "/etc/resolv.conf names no name server");
        for server in &self.servers {
            match ask((*server, PORT).into(), name) {
                Ok(addresses) => return Ok(addresses),
                Err(error) => last = Error::new(error.kind(), format!("name server {server}: {error}")),
            }
        }
        Err(last)
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The addresses that hosts(5) gives to a name.
fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    });
    lines.collect()
}

/// The `nameserver` lines of resolv.conf(5).
fn name_servers(text: &str) -> Vec<IpAddr> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == "nameserver").then_some(())?;
        words.next()?.parse().ok()
    });
    lines.take(SERVERS).collect()
}

fn ask(server: SocketAddr, name: &str) -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    let mut failed = None;
    for kind in [TYPE::A, TYPE::AAAA] {
        match ask_for(server, name, kind) {
            Ok(addresses) => found.extend(addresses),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error),
        None if found.is_empty() => Err(Error::new(ErrorKind::NotFound, format!("{name} has no address"))),
        _ => Ok(found),
    }
}

fn ask_for(server: SocketAddr, name: &str, kind: TYPE) -> io::Result<Vec<IpAddr>> {
    // A forger has to guess the number and the port, which the kernel draws.
    let number = u16::try_from(RandomState::new().hash_one(name) & 0xffff).unwrap_or_default();
    let invalid = |error: simple_dns::SimpleDnsError| Error::new(ErrorKind::InvalidInput, error.to_string());
    let mut question = Packet::new_query(number);
    question.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(invalid)?;
    question.questions.push(Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
    let question = question.build_bytes_vec().map_err(invalid)?;
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.send(&question)?;
    let mut buffer = [0; ANSWER];
    let length = socket.recv(&mut buffer).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => {
            Error::new(ErrorKind::TimedOut, format!("no answer within {} s", TIMEOUT.as_secs()))
        }
        _ => error,
    })?;
    answer(buffer.get(..length).unwrap_or_default(), number)
}

/// The addresses in an answer to the question of this number.
///
/// # Errors
/// When it is none, or the name server does not know the name.
pub fn answer(bytes: &[u8], number: u16) -> io::Result<Vec<IpAddr>> {
    let bad = |text: String| Error::new(ErrorKind::InvalidData, text);
    let packet = Packet::parse(bytes).map_err(|error| bad(format!("an answer that is none: {error}")))?;
    if packet.id() != number || !packet.has_flags(PacketFlag::RESPONSE) {
        return Err(bad("an answer to another question".to_owned()));
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Err(Error::new(ErrorKind::NotFound, "there is no such name")),
        other => return Err(bad(format!("it answers {other:?}"))),
    }
    let addresses = packet.answers.iter().filter_map(|record| match &record.rdata {
        RData::A(record) => Some(Ipv4Addr::from_bits(record.address).into()),
        RData::AAAA(record) => Some(Ipv6Addr::from_bits(record.address).into()),
        _ => None,
    });
    Ok(addresses.collect())
}

#[cfg(test)]
mod tests {
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, AAAA};

    use super::*;

    #[test]
    fn files_name_hosts_and_servers() {
        let hosts = "127.0.0.1 localhost\n192.0.2.7\tTime.example ntp # time2\nnonsense ntp\n::7 ntp";
        assert_eq!(in_hosts(hosts, "time.example"), ["192.0.2.7".parse::<IpAddr>().unwrap()]);
        assert_eq!(in_hosts(hosts, "ntp").len(), 2);
        assert_eq!(in_hosts(hosts, "time2"), Vec::<IpAddr>::new());
        let servers = name_servers(
            "search x\nnameserver 192.0.2.1\nnameserver nonsense\n nameserver ::1\n#nameserver ::2",
        );
        assert_eq!(servers, ["192.0.2.1".parse::<IpAddr>().unwrap(), "::1".parse().unwrap()]);
    }

    #[test]
    fn an_answer_has_to_be_one_to_this_question() {
        let reply = |number, change: fn(&mut Packet<'_>)| {
            let mut packet = Packet::new_reply(number);
            let name = Name::new("time.example").unwrap();
            for rdata in [
                RData::A(A { address: 0xc000_0207 }),
                RData::CNAME(name.clone().into()),
                RData::AAAA(AAAA { address: 7 }),
            ] {
                packet.answers.push(ResourceRecord::new(name.clone(), CLASS::IN, 60, rdata));
            }
            change(&mut packet);
            packet.build_bytes_vec().unwrap()
        };
        let good = reply(7, |_| {});
        assert_eq!(
            answer(&good, 7).unwrap(),
            ["192.0.2.7".parse::<IpAddr>().unwrap(), "::7".parse().unwrap()]
        );
        assert!(answer(&good, 8).unwrap_err().to_string().contains("another question"));
        let unknown = reply(7, |packet| *packet.rcode_mut() = RCODE::NameError);
        assert!(answer(&unknown, 7).unwrap_err().to_string().contains("no such name"));
        let question = reply(7, |packet| packet.remove_flags(PacketFlag::RESPONSE));
        assert!(answer(&question, 7).is_err());
        for length in 0..good.len() {
            let _ = answer(&good[..length], 7);
        }
    }

    #[test]
    fn a_name_server_is_asked_over_the_network() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            for _ in 0..2 {
                let mut buffer = [0; 512];
                let (length, from) = server.recv_from(&mut buffer).unwrap();
                let question = Packet::parse(&buffer[..length]).unwrap();
                let mut reply = Packet::new_reply(question.id());
                if question.questions[0].qtype == QTYPE::TYPE(TYPE::A) {
                    let name = Name::new("time.example").unwrap();
                    reply.answers.push(ResourceRecord::new(name, CLASS::IN, 60, RData::A(A { address: 1 })));
                }
                server.send_to(&reply.build_bytes_vec().unwrap(), from).unwrap();
            }
        });
        assert_eq!(ask(address, "time.example").unwrap(), ["0.0.0.1".parse::<IpAddr>().unwrap()]);
        serving.join().unwrap();
    }
}
