//! A record of the kernel log: `priority,sequence,microseconds,flags;text`, and lines of `KEY=value` after it, which begin
//! with a space and are left out. Bytes that cannot be shown stand in it as `\xNN`. Source:
//! `Documentation/ABI/testing/dev-kmsg` of the kernel.

use std::time::Duration;

use kelson_proto::v1;
use kelson_services::messages::duration;

/// `None`: nothing that the kernel writes.
pub fn parse(record: &[u8]) -> Option<v1::KernelMessage> {
    let head_end = record.iter().position(|byte| *byte == b';')?;
    let (head, rest) = record.split_at_checked(head_end)?;
    let mut fields = std::str::from_utf8(head).ok()?.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let seq = fields.next()?.parse().ok()?;
    let time = duration(Duration::from_micros(fields.next()?.parse().ok()?));
    let text = unescape(rest.get(1..)?.split(|byte| *byte == b'\n').next()?);
    Some(v1::KernelMessage { seq, time: Some(time), level: priority & 7, text })
}

/// Undoes `\xNN`, but for control characters other than tab and newline: they are not for terminals.
fn unescape(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        match escaped(rest) {
            Some((byte, tail)) if matches!(byte, b'\t' | b'\n' | b' '..=b'~' | 0x80..) => {
                out.push(byte);
                rest = tail;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The byte that `\xNN` at the start of `text` stands for, and what comes after.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = text.strip_prefix(b"\\x")?.split_at_checked(2)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some((byte, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(record: &str) -> String {
        parse(record.as_bytes()).unwrap().text
    }

    #[test]
    fn a_record_with_its_dictionary() {
        let record = "30,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n DEVICE=n2\n";
        let message = parse(record.as_bytes()).unwrap();
        assert_eq!((message.seq, message.level), (339, 6));
        assert_eq!(message.time, Some(duration(Duration::from_micros(5_140_900))));
        assert_eq!(message.text, "NET: Registered protocol family 10");
    }

    #[test]
    fn further_fields_and_semicolons_in_the_text() {
        assert_eq!(text("6,1,0,-,caller=T1;a;b\n"), "a;b");
        assert_eq!(text("6,1,0,c;"), "");
    }

    #[test]
    fn escapes() {
        assert_eq!(text("6,1,0,-;tab\\x09 back\\x5cslash line\\x0abreak\n"), "tab\t back\\slash line\nbreak");
        assert_eq!(text("6,1,0,-;gr\\xc3\\xbc\\xc3\\x9f\n"), "grüß");
        assert_eq!(
            text("6,1,0,-;\\x1b[31mred\\x7f\n"),
            "\\x1b[31mred\\x7f",
            "nothing that a terminal would obey"
        );
        assert_eq!(text("6,1,0,-;\\xzz \\x4\n"), "\\xzz \\x4");
        assert_eq!(text("6,1,0,-;\\xff\n"), "\u{fffd}");
    }

    #[test]
    fn what_is_no_record() {
        for bad in ["", ";", "6;x", "6,1;x", "a,1,0,-;x", "6,1,0,-"] {
            assert!(parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
