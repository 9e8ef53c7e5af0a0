//! The short lines of answers.

use std::borrow::Cow;
use std::io::{self, ErrorKind};

use kelson_sys::text::is_harmful;

/// The longest, in bytes.
const LONGEST: usize = 512;

/// Makes a text safe for any terminal: one line, no control characters, nothing that turns the direction of
/// writing, at most [`LONGEST`] bytes.
pub fn harmless(text: Cow<'static, str>) -> Cow<'static, str> {
    if text.len() <= LONGEST && !text.chars().any(is_harmful) {
        return text;
    }
    let mut clean = String::new();
    for c in kelson_sys::text::harmless(&text, Some('\u{fffd}')) {
        if clean.len().saturating_add(c.len_utf8()) > LONGEST.saturating_sub('…'.len_utf8()) {
            clean.push('…');
            break;
        }
        clean.push(c);
    }
    clean.into()
}

/// Describes the error of a connection.
pub fn io_error(error: &io::Error) -> Cow<'static, str> {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset => "connection reset".into(),
        ErrorKind::ConnectionAborted => "connection aborted".into(),
        ErrorKind::BrokenPipe | ErrorKind::NotConnected => "connection closed".into(),
        ErrorKind::UnexpectedEof => "connection closed before the answer".into(),
        ErrorKind::NotFound => "no such file or directory".into(),
        ErrorKind::NotADirectory => "not a directory".into(),
        ErrorKind::PermissionDenied => "permission denied".into(),
        // A Unix socket says so at once.
        ErrorKind::WouldBlock => "its queue of connections is full".into(),
        ErrorKind::NetworkUnreachable => "network unreachable".into(),
        ErrorKind::HostUnreachable => "host unreachable".into(),
        ErrorKind::NetworkDown => "network down".into(),
        ErrorKind::AddrNotAvailable => "no local address or port left for the connection".into(),
        ErrorKind::TimedOut => "the connection timed out".into(),
        _ => error.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_acts_on_no_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\r\nc\u{202e}".into()), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c\u{fffd}");
        assert!(matches!(harmless("200 OK".into()), Cow::Borrowed("200 OK")));
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for text in ["ä".repeat(LONGEST), "\x07".repeat(LONGEST), "x".repeat(LONGEST + 1)] {
            let short = harmless(text.into());
            assert!(short.len() <= LONGEST && short.len() > LONGEST - 4 && short.ends_with('…'));
        }
        assert_eq!(harmless("x".repeat(LONGEST).into()), "x".repeat(LONGEST));
    }
}
