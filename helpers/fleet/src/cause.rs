//! The text of a cause, which is the same on each host that has it.
//!
//! Kelson's own words are the same already. What a program, a check or a library says is not: it has times, counters and
//! the like in it.

use kelson_proto::v1::FleetObstacle;
use kelson_sys::text::{harmless, start_of};

/// Of a host.
pub const MOST: usize = 8;
/// Bytes of the text of one.
const LENGTH: usize = 200;
/// In place of a number that another host has another one of.
const NUMBER: &str = "N";
/// In place of the name of the host.
const HOST: &str = "HOST";
/// A number behind one of these says what is wrong.
const MEANING: &[&str] = &["code", "error", "exit", "port", "signal", "status", "within"];
/// A word of at least this many hexadecimal digits is an id.
const ID: usize = 8;

/// The cause as others see it. `host`: the name of the host.
pub fn text(obstacle: &FleetObstacle, host: &str) -> String {
    let FleetObstacle { cause, detail, .. } = obstacle;
    let detail = same_everywhere(detail, host);
    let between = if cause.is_empty() || detail.is_empty() { "" } else { ": " };
    let whole: String = harmless(&format!("{cause}{between}{detail}"), Some(' ')).collect();
    match whole.len() <= LENGTH {
        true => whole,
        false => format!("{}…", start_of(&whole, LENGTH.saturating_sub('…'.len_utf8())).trim_end()),
    }
}

/// The text of others without what differs between hosts.
fn same_everywhere(text: &str, host: &str) -> String {
    let (mut out, mut before) = (String::new(), "");
    // Each word with the sign that ends it.
    for part in text.split_inclusive(|sign: char| !is_of_word(sign)) {
        let word = part.trim_end_matches(|sign: char| !is_of_word(sign));
        let bare = word.trim_end_matches(['.', ':', '-', '/']);
        out.push_str(match bare {
            _ if bare == host && !host.is_empty() => HOST,
            _ if differs(bare) && !MEANING.contains(&before) => NUMBER,
            _ => bare,
        });
        out.push_str(part.strip_prefix(bare).unwrap_or_default());
        if !bare.is_empty() {
            before = bare;
        }
    }
    out
}

fn is_of_word(sign: char) -> bool {
    sign.is_alphanumeric() || matches!(sign, '.' | ':' | '-' | '_' | '/' | '+')
}

/// A number, a time, an address of the network or an id.
fn differs(word: &str) -> bool {
    let is_digit = |sign: char| sign.is_ascii_digit();
    let is_hex = |sign: char| sign.is_ascii_hexdigit() || sign == '-';
    word.starts_with(is_digit) || (word.len() >= ID && word.contains(is_digit) && word.chars().all(is_hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cause: &str, detail: &str) -> String {
        let (cause, detail) = (cause.to_owned(), detail.to_owned());
        text(&FleetObstacle { service: "web".into(), cause, detail }, "edge-1")
    }

    #[test]
    fn what_differs_between_hosts_is_left_out() {
        for (said, text) in [
            ("check ping: no answer within 2 s", "check ping: no answer within 2 s"),
            ("check ping failed 4 times: HTTP status 500", "check ping failed N times: HTTP status 500"),
            ("no space left on device (os error 28)", "no space left on device (os error 28)"),
            ("disk full: /var/lib/db, 97.3% of 20GiB", "disk full: /var/lib/db, N% of N"),
            ("killed PID 812 after 1.2 s", "killed PID N after N s"),
            (
                "registry.example:5000: x509: certificate expired at 2026-11-28T16:20:07.123+01:00 (1 days ago)",
                "registry.example:5000: x509: certificate expired at N (N days ago)",
            ),
            ("cannot connect to 192.0.2.7:5432: refused", "cannot connect to N: refused"),
            ("container 5f0c9dabcdef-1 of edge-1.", "container N of HOST."),
            ("container f5c09dab is gone, edge-12 too", "container N is gone, edge-12 too"),
            (
                "/etc/kelson/services/web.yaml:2:3: unknown key",
                "/etc/kelson/services/web.yaml:2:3: unknown key",
            ),
            ("/dev/sda1 is no ext4", "/dev/sda1 is no ext4"),
            ("", ""),
        ] {
            assert_eq!(of("", said), text);
        }
    }

    #[test]
    fn words_of_kelson_stay_as_they_are() {
        assert_eq!(of("exited with status 3", ""), "exited with status 3");
        assert_eq!(of("not ready after 30 s", ""), "not ready after 30 s");
        assert_eq!(of("preparing failed", "at 12:30"), "preparing failed: at N");
    }

    #[test]
    fn a_text_is_one_line_and_not_too_long() {
        assert_eq!(of("", "a\nb\u{1b}[K"), "a b [K");
        let long = of("", &"ä".repeat(300));
        assert!(long.len() <= LENGTH && long.ends_with("ä…"), "{long}");
        assert_eq!(of("", &"x".repeat(LENGTH)).len(), LENGTH);
    }
}
