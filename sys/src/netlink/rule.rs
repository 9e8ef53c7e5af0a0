//! Writing policy rules, which say what table of routes a packet is for.

use std::io;
use std::net::IpAddr;

use super::request::{Request, ask, family, octets, unless};

/// Attributes of Linux's `fib_rules.h`; not in the C library.
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
/// Look into a table.
const FR_ACT_TO_TBL: u8 = 1;

/// Packets from and to these networks look into this table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRule {
    /// `None`: from anywhere.
    pub from: Option<(IpAddr, u8)>,
    /// `None`: to anywhere. One of both is there, of the same family as the other.
    pub to: Option<(IpAddr, u8)>,
    pub table: u32,
    /// The lowest is looked at first.
    pub priority: u32,
}

/// Makes a rule; one that is there is no error.
///
/// # Errors
/// What the kernel says: EINVAL of a rule without any network.
pub fn add_rule(rule: &NewRule) -> io::Result<()> {
    unless(libc::EEXIST, ask(&rule_message(rule)?))
}

fn rule_message(rule: &NewRule) -> io::Result<Vec<u8>> {
    let (known, _) = rule.from.or(rule.to).ok_or(io::ErrorKind::InvalidInput)?;
    let prefix = |network: Option<(IpAddr, u8)>| network.map_or(0, |(_, prefix)| prefix);
    // struct fib_rule_hdr: family, prefixes of destination and source, tos, table, two unused, action, flags
    let mut request =
        Request::new(libc::RTM_NEWRULE, libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL, 1)
            .put(&[family(known), prefix(rule.to), prefix(rule.from), 0, 0, 0, 0, FR_ACT_TO_TBL])
            .put(&[0; 4]);
    for (kind, network) in [(FRA_DST, rule.to), (FRA_SRC, rule.from)] {
        if let Some((address, _)) = network {
            request = request.attribute(kind, &octets(address));
        }
    }
    let numbers = [(FRA_PRIORITY, rule.priority), (FRA_TABLE, rule.table)];
    let request = numbers
        .into_iter()
        .fold(request, |request, (kind, number)| request.attribute(kind, &number.to_ne_bytes()));
    Ok(request.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_a_rule_once() {
        let done = std::thread::spawn(|| {
            // SAFETY: it changes this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "run it as root");
            let rules = || {
                let shown = std::process::Command::new("ip").args(["rule", "show"]).output().unwrap();
                String::from_utf8(shown.stdout).unwrap()
            };
            let network = |text: &str, prefix| Some((text.parse().unwrap(), prefix));
            let rule = NewRule {
                from: network("192.0.2.0", 24),
                to: network("198.51.100.0", 24),
                table: 1000,
                priority: 77,
            };
            add_rule(&rule).unwrap();
            add_rule(&rule).unwrap();
            let text = rules();
            assert!(text.contains("77:\tfrom 192.0.2.0/24 to 198.51.100.0/24 lookup 1000"), "{text}");
            assert_eq!(text.matches("lookup 1000").count(), 1);
            add_rule(&NewRule { from: network("2001:db8::", 32), to: None, ..rule }).unwrap();
            let nowhere = add_rule(&NewRule { from: None, to: None, ..rule }).unwrap_err();
            assert_eq!(nowhere.kind(), io::ErrorKind::InvalidInput);
        });
        done.join().unwrap();
    }
}
