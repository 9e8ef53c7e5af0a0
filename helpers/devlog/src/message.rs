//! A message of syslog(3), as RFC 3164 has it and as C libraries send it, becomes one line of a log.

use kelson_sys::text::{harmless, start_of};

/// The longest line in bytes, with its newline. A pipe takes at most this many as a whole or not at all (`PIPE_BUF`).
pub const LINE_MAX: usize = 4096;
/// The end of a line whose message was longer.
const CUT: &str = "…";
/// By their numbers in syslog(3).
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];
const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
/// `user.notice`, for a message without a priority.
const USUAL: u8 = 13;

/// `daemon.err nginx[12]: text` of `<27>Nov 24 21:13:16 nginx[12]: text`. logd adds the time, so the sender's is left out.
pub fn line(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    let (priority, text) = priority(text.trim_end_matches(['\0', '\n']));
    let name =
        |names: &[&'static str], number: u8| names.get(usize::from(number)).copied().unwrap_or_default();
    let (facility, severity) = (name(&FACILITIES, priority >> 3), name(&SEVERITIES, priority & 7));
    let mut line = format!("{facility}.{severity} ");
    line.extend(harmless(without_time(text), Some(' ')));
    shorten(&mut line);
    line.push('\n');
    line
}

/// The number between `<` and `>`, and the text behind it.
fn priority(message: &str) -> (u8, &str) {
    let parsed =
        message.strip_prefix('<').and_then(|rest| rest.split_once('>')).and_then(|(number, text)| {
            let digits = number.bytes().all(|byte| byte.is_ascii_digit());
            let priority = number.parse::<u8>().ok().filter(|_| digits)?;
            (usize::from(priority >> 3) < FACILITIES.len()).then_some((priority, text))
        });
    parsed.unwrap_or((USUAL, message))
}

/// Without the `Nov 24 21:13:16 ` that syslog(3) puts first.
fn without_time(text: &str) -> &str {
    const PATTERN: &[u8] = b"Aaa 99 99:99:99 ";
    let fits = |(byte, pattern): (&u8, &u8)| match pattern {
        b'A' => byte.is_ascii_uppercase(),
        b'a' => byte.is_ascii_lowercase(),
        b'9' => byte.is_ascii_digit() || *byte == b' ',
        other => byte == other,
    };
    match text.split_at_checked(PATTERN.len()) {
        Some((time, rest)) if time.as_bytes().iter().zip(PATTERN).all(fits) => rest,
        _ => text,
    }
}

/// Leaves room for a newline.
fn shorten(line: &mut String) {
    let longest = LINE_MAX.saturating_sub(1);
    if line.len() > longest {
        let room = longest.saturating_sub(CUT.len());
        line.truncate(start_of(line, room).len());
        line.push_str(CUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_one_line() {
        let cases: [(&[u8], &str); 13] = [
            (b"<27>Nov 24 21:13:16 nginx[12]: bind failed", "daemon.err nginx[12]: bind failed"),
            (b"<86>Nov  4 01:02:03 sshd[7]: session opened\n\0", "authpriv.info sshd[7]: session opened"),
            (b"<191>Jan  1 00:00:00 ", "local7.debug "),
            (b"<0>kernel: on fire", "kern.emerg kernel: on fire"),
            (b"<13>no time", "user.notice no time"),
            (b"no priority", "user.notice no priority"),
            (b"<192>too large a priority", "user.notice <192>too large a priority"),
            (b"<+13>a sign", "user.notice <+13>a sign"),
            (b"<13", "user.notice <13"),
            (b"<>", "user.notice <>"),
            (b"<11>two\nlines\x1b[2J", "user.err two lines [2J"),
            (b"<11>\xff\xfe", "user.err \u{fffd}\u{fffd}"),
            (b"", "user.notice "),
        ];
        for (message, expected) in cases {
            assert_eq!(line(message), format!("{expected}\n"), "{message:?}");
        }
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        for filler in ["x", "é", "…", "🦀", "\u{202e}"] {
            let message = format!("<11>{}", filler.repeat(LINE_MAX));
            let line = line(message.as_bytes());
            assert!(line.ends_with("…\n") && line.len() <= LINE_MAX, "{filler}: {}", line.len());
            assert!(line.len() > LINE_MAX - 8, "{filler}: {}", line.len());
        }
        let fits = "x".repeat(LINE_MAX - "user.err \n".len());
        assert_eq!(line(format!("<11>{fits}").as_bytes()), format!("user.err {fits}\n"));
    }

    #[test]
    fn no_message_makes_more_than_one_bounded_line() {
        const PARTS: [&[u8]; 12] = [
            b"<",
            b">",
            b"13",
            b"999999999999",
            b"Nov 24 21:13:16 ",
            b"Nov 24",
            b"\n",
            b"\0",
            b"\x1b[2J",
            b"\xff\xc3",
            "\u{2028}é".as_bytes(),
            &[b'x'; 1500],
        ];
        let mut random = 1_u64;
        let mut below = |limit: u64| {
            for shift in [13, 7, 17] {
                random ^= if shift == 7 { random >> shift } else { random << shift };
            }
            usize::try_from(random % limit).unwrap()
        };
        for _ in 0..2000 {
            let message: Vec<u8> = (0..below(12)).flat_map(|_| PARTS[below(12)].to_vec()).collect();
            let line = line(&message);
            let text = line.strip_suffix('\n').unwrap();
            assert!(line.len() <= LINE_MAX && !text.chars().any(char::is_control), "{message:?}: {line:?}");
        }
    }
}
