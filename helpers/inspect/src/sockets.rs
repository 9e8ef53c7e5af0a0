//! Sockets of the host's network, and Unix sockets, with who holds them.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kelson_proto::v1::{InspectService, Socket, SocketHolder};
use kelson_sys::process::Stat;

use crate::answer::Unanswered;
use crate::owners::Owners;
use crate::processes;
use crate::system::{System, pids};

/// `TCP_LISTEN` and `TCP_CLOSE` of include/net/tcp_states.h: a socket of UDP that is connected to nobody is the latter.
const LISTEN: u8 = 10;
const CLOSE: u8 = 7;
/// In their order, from 1.
const STATES: [&str; 13] = [
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
    "BOUND_INACTIVE",
];
/// `__SO_ACCEPTCON`: a Unix socket that listens.
const ACCEPTS: u32 = 0x0001_0000;

/// # Errors
/// When proc cannot be listed.
pub fn read(
    system: &System,
    services: &[InspectService],
    connections: bool,
) -> Result<Vec<Socket>, Unanswered> {
    let mut sockets = Vec::new();
    for protocol in ["tcp", "tcp6", "udp", "udp6"] {
        // A kernel without IPv6 has no such file.
        let text = system.proc(&format!("self/net/{protocol}")).unwrap_or_default();
        sockets.extend(text.lines().skip(1).filter_map(|line| internet(protocol, line)));
    }
    let text = system.proc("self/net/unix").unwrap_or_default();
    sockets.extend(text.lines().skip(1).filter_map(unix));
    if !connections {
        sockets.retain(|socket| matches!(socket.state.as_str(), "LISTEN" | "UNCONNECTED"));
    }
    let mut holders = holders(system, services, &sockets)?;
    for socket in &mut sockets {
        socket.holders = holders.remove(&socket.inode).unwrap_or_default();
    }
    Ok(sockets)
}

fn state(protocol: &str, number: u8) -> String {
    let udp = protocol.starts_with("udp");
    match number {
        CLOSE if udp => "UNCONNECTED".to_owned(),
        _ => {
            let name = usize::from(number).checked_sub(1).and_then(|place| STATES.get(place));
            name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
        }
    }
}

/// A line of `/proc/net/tcp` and its like: number, local, remote, state, queues, timer, retransmits, user, timeout, inode.
fn internet(protocol: &str, line: &str) -> Option<Socket> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, local, remote, number, queues, _, _, uid, _, inode, ..] = words.as_slice() else { return None };
    let (send, receive) = queues.split_once(':')?;
    let queue = |text| u64::from_str_radix(text, 16).ok();
    let number = u8::from_str_radix(number, 16).ok()?;
    let remote = address(remote)?;
    let nobody = remote.ip().is_unspecified() && remote.port() == 0;
    Some(Socket {
        protocol: protocol.to_owned(),
        local: address(local)?.to_string(),
        remote: if nobody { String::new() } else { remote.to_string() },
        state: state(protocol, number),
        uid: uid.parse().ok()?,
        holders: Vec::new(),
        // Of one that listens: how many wait to be taken, and how many may.
        receive_queue: queue(receive)?,
        send_queue: if number == LISTEN { 0 } else { queue(send)? },
        inode: inode.parse().ok()?,
    })
}

/// The kernel writes each 32 bits of an address as a number of its own processor, and the port as a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let part = |place: usize| -> Option<[u8; 4]> {
        let from = place.checked_mul(8)?;
        u32::from_str_radix(ip.get(from..from.checked_add(8)?)?, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match ip.len() {
        8 => IpAddr::from(Ipv4Addr::from(part(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (place, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&part(place)?);
            }
            IpAddr::from(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// A line of `/proc/net/unix`: place, references, protocol, flags, type, state, inode, path.
fn unix(line: &str) -> Option<Socket> {
    let mut words = line.split_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let number = u8::from_str_radix(words.nth(1)?, 16).ok()?;
    let inode = words.next()?.parse().ok()?;
    let state = match number {
        _ if flags & ACCEPTS != 0 => "LISTEN",
        2 => "CONNECTING",
        3 => "CONNECTED",
        4 => "DISCONNECTING",
        // Of datagrams, and what has not been connected yet.
        _ => "OPEN",
    };
    Some(Socket {
        protocol: "unix".to_owned(),
        local: words.collect::<Vec<_>>().join(" "),
        state: state.to_owned(),
        inode,
        ..Socket::default()
    })
}

/// The processes that have a descriptor of them.
fn holders(
    system: &System,
    services: &[InspectService],
    sockets: &[Socket],
) -> Result<HashMap<u64, Vec<SocketHolder>>, Unanswered> {
    let owners = Owners::new(system, services);
    let mut held: HashMap<u64, Vec<i32>> = sockets.iter().map(|socket| (socket.inode, Vec::new())).collect();
    let mut parents = HashMap::new();
    for pid in pids(&system.proc).map_err(|error| Unanswered::reading("/proc", &error))? {
        let folder = system.proc.join(pid.to_string());
        if let Some(parent) = fs::read(folder.join("stat")).ok().and_then(|stat| Stat::parse(&stat)?.parent())
        {
            parents.insert(pid, parent);
        }
        for entry in fs::read_dir(folder.join("fd")).into_iter().flatten().flatten() {
            let Ok(link) = fs::read_link(entry.path()) else { continue };
            let number = link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
            let pids = number.and_then(|number| held.get_mut(&number.parse().ok()?));
            if let Some(pids) = pids
                && pids.last() != Some(&pid)
            {
                pids.push(pid);
            }
        }
    }
    let of = processes::of_all(system, &owners, parents.into_iter());
    let holder = |pid: i32| SocketHolder {
        pid,
        name: processes::name(system, pid),
        service: of.get(&pid).cloned().unwrap_or_default(),
    };
    Ok(held.into_iter().map(|(inode, pids)| (inode, pids.into_iter().map(holder).collect())).collect())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::system::testing::Played;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    #[test]
    fn sockets_with_their_holders() {
        let tcp = format!(
            "{HEAD}   0: 0100007F:1F90 00000000:0000 0A 00000005:00000002 00:00000000 00000000  33 0 777 1 x\n   \
             1: 0100007F:1F90 0200000A:C001 01 00000010:00000000 00:00000000 00000000  33 0 778 1 x\n   broken\n   \
             2: 0100007F:1F90 00000000:0000 0D 00000000:00000000 00:00000000 00000000  33 0 779 1 x\n"
        );
        let unix = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 900 /run/a b.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 901\n";
        let played = Played::new(&[
            ("proc/self/net/tcp", &tcp),
            ("proc/self/net/unix", unix),
            ("proc/self/cgroup", "0::/kelson/_inspect-1\n"),
            ("proc/50/comm", "web\n"),
            ("proc/50/stat", "50 (web) S 1 1 1 0 -1 0 1 2 3 4 150 50 0 0 20 0 3 0 200 9999 7 0\n"),
            ("proc/50/cgroup", "0::/kelson/front\n"),
            ("proc/50/fd/none", ""),
        ]);
        for (name, link) in
            [("3", "socket:[777]"), ("4", "socket:[777]"), ("5", "/dev/null"), ("6", "socket:[x]")]
        {
            symlink(link, played.path(&format!("proc/50/fd/{name}"))).unwrap();
        }
        let listening = read(&played.system, &[], false).unwrap();
        assert_eq!(listening.len(), 2);
        let web = &listening[0];
        assert_eq!(
            (web.local.as_str(), web.remote.as_str(), web.state.as_str()),
            ("127.0.0.1:8080", "", "LISTEN")
        );
        assert_eq!((web.receive_queue, web.send_queue, web.uid), (2, 0, 33));
        let [holder] = web.holders.as_slice() else { panic!("{:?}", web.holders) };
        assert_eq!((holder.pid, holder.name.as_str(), holder.service.as_str()), (50, "web", "front"));
        assert_eq!((listening[1].local.as_str(), listening[1].holders.len()), ("/run/a b.sock", 0));
        let all = read(&played.system, &[], true).unwrap();
        let states: Vec<&str> = all.iter().map(|socket| socket.state.as_str()).collect();
        assert_eq!(states, ["LISTEN", "ESTABLISHED", "BOUND_INACTIVE", "LISTEN", "CONNECTED"]);
        assert_eq!(all[1].remote, "10.0.0.2:49153");
    }

    #[test]
    fn addresses_of_both_kinds() {
        assert_eq!(address("00000000000000000000000001000000:0050").unwrap().to_string(), "[::1]:80");
        assert_eq!(address("0100007F:0000").unwrap().to_string(), "127.0.0.1:0");
        for bad in ["", ":", "0100007F", "0100007:1", "0100007F:10000", "xyzxyzxy:1", "üüüü:1"] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_listener_of_this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap().to_string();
        let own = i32::try_from(std::process::id()).unwrap();
        let services = [InspectService { name: "test".into(), pid: own }];
        let sockets = read(&System::real(), &services, false).unwrap();
        let found = sockets.iter().find(|socket| socket.local == local).unwrap();
        assert!(found.holders.iter().any(|holder| holder.pid == own), "{found:?}");
    }
}
