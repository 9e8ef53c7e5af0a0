//! One line of a log, in memory and in a file, and how bytes from a pipe become lines.
//!
//! In a file: `2026-11-21T09:29:15.123456789Z stdout F:7:3fa9 text`. `P` instead of `F`: the text goes on in the next line
//! of this stream, or the process ended without a newline. Behind it stands the [`Run`]. The text is kept byte for byte.

use std::time::SystemTime;

use super::run::{LONGEST_TAG, Run};

/// The text behind a line that lost its end, lest it is taken for whole.
pub const TORN: &str =
    "the line before this one is not whole: its end was not on the disk when the host or logd went down";
/// The same where whole lines were lost.
pub const LOST: &str = "lines are missing here: they were not on the disk when the host went down";
/// Longer lines are cut into partial ones.
pub const LONGEST: usize = 16 * 1024;
/// `2026-11-21T09:29:15.123456789Z`.
const STAMP: usize = 30;
/// With ` stdout `.
const BEFORE_TAG: usize = STAMP + 8;
const NANOS: i64 = 1_000_000_000;

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Stdout,
    Stderr,
    /// logd itself.
    Note,
}

impl Source {
    fn word(self) -> &'static [u8] {
        match self {
            Source::Stdout => b"stdout",
            Source::Stderr => b"stderr",
            Source::Note => b"note",
        }
    }
}

/// A line that borrows its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Nanoseconds since 1970.
    pub time: i64,
    pub source: Source,
    pub run: Run,
    pub partial: bool,
    pub text: &'a [u8],
}

impl<'a> Line<'a> {
    /// A line of logd itself, of now.
    pub fn note(text: &'a [u8]) -> Line<'a> {
        Line { time: now(), source: Source::Note, run: Run::default(), partial: false, text }
    }
}

/// Nanoseconds since 1970, as far as an i64 goes.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Writes times; keeps the text of the last second, which is that of most lines.
#[derive(Default)]
pub struct Clock {
    second: Option<i64>,
    text: Vec<u8>,
}

impl Clock {
    /// Appends the line as it stands in a file.
    pub fn append(&mut self, out: &mut Vec<u8>, line: Line<'_>) {
        let time = line.time.clamp(0, i64::MAX);
        let (second, nanos) = (time.div_euclid(NANOS), time.rem_euclid(NANOS));
        if self.second != Some(second) {
            self.second = Some(second);
            self.text.clear();
            // `2026-11-21T09:29:15Z`; the fraction follows in place of the `Z`.
            let text = prost_types::Timestamp { seconds: second, nanos: 0 }.to_string();
            self.text.extend_from_slice(text.trim_end_matches('Z').as_bytes());
        }
        out.extend_from_slice(&self.text);
        let mut digits = *b".000000000Z ";
        let mut rest = nanos;
        for digit in digits.iter_mut().skip(1).take(9).rev() {
            *digit = b'0'.saturating_add(u8::try_from(rest.rem_euclid(10)).unwrap_or(0));
            rest = rest.div_euclid(10);
        }
        out.extend_from_slice(&digits);
        out.extend_from_slice(line.source.word());
        out.extend_from_slice(if line.partial { b" P" } else { b" F" });
        line.run.append(out);
        out.push(b' ');
        out.extend_from_slice(line.text);
        out.push(b'\n');
    }
}

/// Reads a line of a file, without its newline; absent if it is not one of ours (torn, or somebody else wrote it).
pub fn parse(bytes: &[u8]) -> Option<Line<'_>> {
    let time = parse_stamp(bytes.get(..STAMP)?)?;
    let rest = bytes.get(STAMP..)?.strip_prefix(b" ")?;
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let (word, rest) = rest.split_at_checked(space)?;
    let source =
        [Source::Stdout, Source::Stderr, Source::Note].into_iter().find(|source| source.word() == word)?;
    let (tag, rest) = rest.split_at_checked(2)?;
    let partial = match tag {
        b" F" => false,
        b" P" => true,
        _ => return None,
    };
    let (tags, text) = rest.split_at_checked(tags_length(rest)?)?;
    Some(Line { time, source, run: Run::parse(tags), partial, text: text.strip_prefix(b" ")? })
}

/// How many bytes stand between `F` or `P` and the space before the text.
fn tags_length(rest: &[u8]) -> Option<usize> {
    let length = rest.iter().take(LONGEST_TAG).position(|byte| *byte == b' ')?;
    (length == 0 || rest.starts_with(b":")).then_some(length)
}

/// The bytes of the text of a line of a service's own in a file, as far as its head shows.
pub fn text_length(line: &[u8]) -> usize {
    let rest = line.get(BEFORE_TAG.saturating_add(1)..).unwrap_or_default();
    let tags = tags_length(rest).unwrap_or_default();
    rest.len().saturating_sub(tags).saturating_sub(1)
}

/// The time at the start of a line of a file.
pub fn parse_stamp(bytes: &[u8]) -> Option<i64> {
    // Of the forms that a time may have, the one that logd writes.
    let stamp = bytes.get(..STAMP).filter(|stamp| stamp.ends_with(b"Z") && stamp.get(19) == Some(&b'.'))?;
    let prost_types::Timestamp { seconds, nanos } = std::str::from_utf8(stamp).ok()?.parse().ok()?;
    seconds.checked_mul(NANOS)?.checked_add(nanos.into())
}

/// Cuts what a pipe gave into lines; `held` is the beginning of a line whose end has not come yet, and takes no memory
/// while there is none. `emit` gets the text and whether it is partial.
pub fn split(held: &mut Vec<u8>, mut bytes: &[u8], mut emit: impl FnMut(&[u8], bool)) {
    while !bytes.is_empty() {
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let (text, rest) = bytes.split_at_checked(newline.unwrap_or(bytes.len())).unwrap_or((bytes, &[]));
        if held.is_empty() && newline.is_some() {
            emit_long(text, &mut emit);
        } else {
            hold(held, text, &mut emit);
            if newline.is_some() {
                emit(held, false);
                *held = Vec::new();
            }
        }
        bytes = rest.get(1..).unwrap_or_default();
    }
}

/// As [`split`] for lines that nobody keeps: gives how many have ended, and their bytes.
pub fn skip(held: &mut Vec<u8>, bytes: &[u8]) -> (u64, u64) {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end.saturating_add(1));
    let (whole, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
    let mut lines = whole.iter().filter(|byte| **byte == b'\n').count() as u64;
    let mut size = (whole.len() as u64).saturating_sub(lines);
    if lines > 0 {
        size = size.saturating_add(std::mem::take(held).len() as u64);
    }
    split(held, rest, |text, _| {
        lines = lines.saturating_add(1);
        size = size.saturating_add(text.len() as u64);
    });
    (lines, size)
}

/// Emits a whole line.
fn emit_long(mut text: &[u8], emit: &mut impl FnMut(&[u8], bool)) {
    while text.len() > LONGEST {
        let (first, rest) = text.split_at_checked(LONGEST).unwrap_or((text, &[]));
        emit(first, true);
        text = rest;
    }
    emit(text, false);
}

/// Adds to a line whose end has not come; what is too long leaves as partial lines, at least a byte stays.
fn hold(held: &mut Vec<u8>, mut text: &[u8], emit: &mut impl FnMut(&[u8], bool)) {
    while held.len().saturating_add(text.len()) > LONGEST {
        let (first, rest) = text.split_at_checked(LONGEST.saturating_sub(held.len())).unwrap_or((text, &[]));
        held.extend_from_slice(first);
        emit(held, true);
        held.clear();
        text = rest;
    }
    held.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    fn lines(chunks: &[&[u8]]) -> (Vec<(usize, bool)>, Vec<u8>, Vec<u8>) {
        let (mut held, mut seen, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in chunks {
            split(&mut held, chunk, |text, partial| {
                seen.push((text.len(), partial));
                all.extend_from_slice(text);
                if !partial {
                    all.push(b'\n');
                }
            });
        }
        (seen, all, held)
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let mut out = Vec::new();
        let mut clock = Clock::default();
        let time = 1_795_253_355_123_456_789;
        let run = Run::new(7, 0x3fa9);
        for (run, start) in [
            (Run::default(), &b"2026-11-21T09:29:15.123456789Z stdout F a\0b"[..]),
            (run, b"2026-11-21T09:29:15.123456789Z stdout F:7:3fa9 a\0b"),
        ] {
            out.clear();
            let line = Line { time, source: Source::Stdout, run, partial: false, text: b"a\0b \xff c" };
            clock.append(&mut out, line);
            assert!(out.starts_with(start), "{}", out.escape_ascii());
            let written = out.strip_suffix(b"\n").unwrap();
            assert_eq!((parse(written), text_length(written)), (Some(line), line.text.len()));
        }
        for day in [0, 58, 59, 60, 364, 365, 789, 11_016, 11_017, 19_782, 20_000, 47_540, 100_000] {
            let time = day * DAY * NANOS + 86_399 * NANOS + 1;
            let line = Line { time, source: Source::Stderr, run, partial: true, text: b"" };
            out.clear();
            clock.append(&mut out, line);
            assert_eq!(parse(out.strip_suffix(b"\n").unwrap()), Some(line), "day {day}");
        }
    }

    #[test]
    fn what_is_no_line_is_not_taken_for_one() {
        let good = b"2026-11-21T09:29:15.123456789Z stdout F text";
        assert!(parse(good).is_some());
        for cut in 0..42.min(good.len() - 4) {
            assert!(parse(&good[..cut]).is_none(), "{cut}");
        }
        assert!(parse(b"2026-13-21T09:29:15.123456789Z stdout F text").is_none());
        assert!(parse(b"2026-11-21T09:29:15.12345678xZ stdout F text").is_none());
        assert!(parse(b"2026-11-21T09:29:15.123456789Z stdlog F text").is_none());
        assert!(parse(b"2026-11-21T09:29:15.123456789Z stdout X text").is_none());
        assert!(parse(b"2026-11-21T09:29:15.123456789Z stdout Fx text").is_none());
        let endless =
            [b"2026-11-21T09:29:15.123456789Z stdout F:".as_slice(), &[b'7'; 40], b" text"].concat();
        assert!(parse(&endless).is_none());
        let of_a_later_release = b"2026-11-21T09:29:15.123456789Z stdout F:new text";
        assert_eq!(
            parse(of_a_later_release).map(|line| (line.run, line.text)),
            Some((Run::default(), &b"text"[..]))
        );
    }

    #[test]
    fn lines_come_out_however_the_bytes_come_in() {
        let text = [b"one\n\ntwo\n".as_slice(), &[b'x'; LONGEST], b"\n", &[b'y'; LONGEST * 2 + 1], b"\nend"]
            .concat();
        let whole = lines(&[&text]);
        assert_eq!(whole.2, b"end");
        assert_eq!(whole.0[3], (LONGEST, false));
        assert_eq!(whole.0[4..], [(LONGEST, true), (LONGEST, true), (1, false)]);
        for size in [1, 2, 7, 4096, LONGEST - 1, LONGEST, LONGEST + 1] {
            let chunks: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(lines(&chunks), whole, "in pieces of {size}");
        }
    }

    #[test]
    fn lines_that_are_skipped_count_as_those_that_are_split() {
        let text = [b"one\n\ntwo\n".as_slice(), &[b'x'; 5000], b"\nthree\nend"].concat();
        for size in [1, 2, 7, 4096, text.len()] {
            let (mut held, mut lines, mut bytes) = (b"be".to_vec(), 0, 0);
            for chunk in text.chunks(size) {
                let (more, long) = skip(&mut held, chunk);
                (lines, bytes) = (lines + more, bytes + long);
            }
            assert_eq!((lines, bytes, held.as_slice()), (5, 2 + 6 + 5000 + 5, b"end".as_slice()), "{size}");
        }
        let mut held = Vec::new();
        assert_eq!(skip(&mut held, &[b'x'; LONGEST + 1]), (1, LONGEST as u64));
        assert_eq!(held.len(), 1);
    }

    #[test]
    fn a_finished_line_leaves_no_memory_behind() {
        let mut held = Vec::new();
        split(&mut held, b"half", |_, _| {});
        split(&mut held, b" whole\n", |text, partial| {
            assert_eq!((text, partial), (b"half whole".as_slice(), false));
        });
        assert_eq!(held.capacity(), 0);
    }
}
