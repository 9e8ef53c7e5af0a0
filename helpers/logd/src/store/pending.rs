//! The lines of one service that wait for its file, oldest first, and what was lost between them.
//!
//! Lines wait in chunks of whole lines. When something has to be dropped the oldest chunk goes: its lines become the
//! loss that the next chunk reports, so the note stands where the lines would, and the newest lines survive.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::line::{self, Clock, Line};

/// Bytes of a chunk, but for its last line. It is also what the writer takes at a time.
pub(super) const CHUNK: usize = 64 * 1024;

/// Lines that were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    pub lines: u64,
    pub bytes: u64,
}

impl Lost {
    pub fn add(&mut self, lines: u64, bytes: u64) {
        self.lines = self.lines.saturating_add(lines);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Whole lines, and what was lost just before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub lost: Lost,
    /// Why, if anything was.
    pub reason: Arc<str>,
    pub bytes: Vec<u8>,
    /// Number of the last line: in `bytes`, or lost.
    pub last: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pending {
    chunks: VecDeque<Chunk>,
    size: usize,
}

impl Chunk {
    fn new(last: u64) -> Chunk {
        Chunk { lost: Lost::default(), reason: "".into(), bytes: Vec::new(), last }
    }

    /// Lines that were lost directly behind those that this chunk reports already.
    fn lose(&mut self, lost: Lost, reason: &str) {
        if lost == Lost::default() {
            return;
        }
        self.lost.add(lost.lines, lost.bytes);
        if *self.reason != *reason {
            self.reason = reason.into();
        }
    }
}

/// The lines in `bytes`, as they count once they are lost.
pub(super) fn lines_in(bytes: &[u8]) -> Lost {
    let mut lost = Lost::default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        lost.add(1, line::text_length(line) as u64);
    }
    lost
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Bytes of its lines.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Adds a line. Returns the bytes that it takes.
    pub fn add(&mut self, clock: &mut Clock, number: u64, line: Line<'_>) -> usize {
        let room = self.chunks.back().is_some_and(|chunk| chunk.bytes.len() < CHUNK);
        if !room {
            self.chunks.push_back(Chunk::new(number));
        }
        let Some(chunk) = self.chunks.back_mut() else { return 0 };
        let before = chunk.bytes.len();
        clock.append(&mut chunk.bytes, line);
        chunk.last = number;
        let added = chunk.bytes.len().saturating_sub(before);
        self.size = self.size.saturating_add(added);
        added
    }

    /// Reports a loss behind all lines.
    pub fn lose_last(&mut self, lost: Lost, reason: &str, number: u64) {
        if self.chunks.back().is_none_or(|chunk| !chunk.bytes.is_empty()) {
            self.chunks.push_back(Chunk::new(number));
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.last = chunk.last.max(number);
            chunk.lose(lost, reason);
        }
    }

    /// Reports a loss before all lines.
    pub fn lose_first(&mut self, lost: Lost, reason: &str, number: u64) {
        if self.chunks.is_empty() {
            self.chunks.push_front(Chunk::new(number));
        }
        if let Some(chunk) = self.chunks.front_mut() {
            chunk.lose(lost, reason);
        }
    }

    /// Drops the oldest lines: a chunk; half of the only one; its only line. Returns what that was and the bytes that it took.
    pub fn drop_oldest(&mut self, reason: &str) -> (Lost, usize) {
        let Some(mut oldest) = self.chunks.pop_front() else { return Default::default() };
        let mut rest = Vec::new();
        if self.chunks.is_empty() {
            let half = oldest.bytes.get(oldest.bytes.len() / 2..).unwrap_or_default();
            let end = half.iter().position(|byte| *byte == b'\n').map_or(0, |end| end.saturating_add(1));
            rest = half.get(end..).unwrap_or_default().to_vec();
            oldest.bytes.truncate(oldest.bytes.len().saturating_sub(rest.len()));
        }
        let (lost, bytes) = (lines_in(&oldest.bytes), oldest.bytes.len());
        self.size = self.size.saturating_sub(bytes);
        if self.chunks.is_empty() {
            self.chunks.push_front(Chunk { bytes: rest, ..Chunk::new(oldest.last) });
        }
        self.lose_first(oldest.lost, &oldest.reason, oldest.last);
        self.lose_first(lost, reason, oldest.last);
        (lost, bytes)
    }

    /// Gives back lines that could not be written: they are the oldest again.
    pub fn put_back(&mut self, chunk: Chunk) {
        self.size = self.size.saturating_add(chunk.bytes.len());
        self.chunks.push_front(chunk);
    }

    /// Takes the oldest chunk.
    pub fn take(&mut self) -> Option<Chunk> {
        let chunk = self.chunks.pop_front()?;
        self.size = self.size.saturating_sub(chunk.bytes.len());
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Source;
    use crate::run::Run;

    struct Host {
        pending: Pending,
        clock: Clock,
        number: u64,
    }

    impl Host {
        fn new() -> Host {
            Host { pending: Pending::default(), clock: Clock::default(), number: 0 }
        }

        fn add(&mut self, count: u64, length: usize) {
            for _ in 0..count {
                self.number += 1;
                let mut text = format!("{} ", self.number);
                text.extend(std::iter::repeat_n('.', length.saturating_sub(text.len())));
                let (source, run) = (Source::Stdout, Run::default());
                let line = Line { time: 1, source, run, partial: false, text: text.as_bytes() };
                self.pending.add(&mut self.clock, self.number, line);
            }
        }

        /// The contents that the file would get: `a-b` lines, `!n` lost.
        fn file(&mut self) -> Vec<String> {
            let mut said = Vec::new();
            while let Some(chunk) = self.pending.take() {
                if chunk.lost != Lost::default() {
                    said.push(format!("!{}", chunk.lost.lines));
                }
                let text = String::from_utf8(chunk.bytes).unwrap();
                let number =
                    |line: &str| line.split(" F ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
                if let (Some(first), Some(last)) = (text.lines().next(), text.lines().last()) {
                    assert_eq!(number(last), chunk.last.to_string());
                    said.push(format!("{}-{}", number(first), number(last)));
                }
            }
            assert_eq!(self.pending.size(), 0);
            said
        }
    }

    #[test]
    fn the_oldest_lines_are_dropped_and_the_loss_stands_in_their_place() {
        let mut host = Host::new();
        // A line takes 1041 bytes, so a chunk has 63 of them.
        host.add(200, 1000);
        assert_eq!(host.pending.size(), 200 * 1041);
        let (lost, bytes) = host.pending.drop_oldest("slow");
        assert_eq!((lost, bytes), (Lost { lines: 63, bytes: 63_000 }, 63 * 1041));
        host.pending.drop_oldest("slow");
        assert_eq!(host.file(), ["!126", "127-189", "190-200"]);
    }

    #[test]
    fn of_the_only_chunk_the_newest_half_survives_and_of_one_line_nothing() {
        let mut host = Host::new();
        host.add(11, 1000);
        assert_eq!(host.pending.drop_oldest("slow").0.lines, 6);
        host.add(1, 10);
        assert_eq!(host.file(), ["!6", "7-12"]);
        host.add(1, 1000);
        assert_eq!(host.pending.drop_oldest("slow"), (Lost { lines: 1, bytes: 1000 }, 1041));
        assert_eq!(host.pending.size(), 0);
        // Nothing is left to be dropped; the loss is still to be reported, before what comes.
        assert_eq!(host.pending.drop_oldest("slow"), (Lost::default(), 0));
        host.add(1, 10);
        assert_eq!(host.file(), ["!1", "14-14"]);
    }

    #[test]
    fn lines_that_are_put_back_are_the_first_to_be_dropped() {
        let mut host = Host::new();
        host.add(200, 1000);
        host.pending.drop_oldest("slow");
        let mut chunk = host.pending.take().unwrap();
        assert_eq!((chunk.lost.lines, chunk.last), (63, 126));
        host.pending.put_back(chunk);
        assert_eq!(host.pending.size(), 137 * 1041);
        chunk = host.pending.take().unwrap();
        host.pending.put_back(chunk);
        host.pending.drop_oldest("slow");
        assert_eq!(host.file(), ["!126", "127-189", "190-200"]);
    }

    #[test]
    fn losses_before_and_behind_lines_keep_their_places_also_when_those_are_dropped() {
        let mut host = Host::new();
        let three = Lost { lines: 3, bytes: 30 };
        host.add(1, 10);
        host.pending.lose_last(three, "limit", 4);
        host.pending.lose_last(three, "limit", 7);
        assert_eq!(host.file(), ["1-1", "!6"]);
        host.number = 7;
        host.add(1, 10);
        host.pending.lose_last(three, "limit", 11);
        host.number = 11;
        host.add(1, 10);
        host.pending.lose_first(three, "full", 7);
        assert_eq!(host.file(), ["!3", "8-8", "!3", "12-12"]);
        host.add(1, 10);
        host.pending.lose_last(three, "limit", 16);
        host.number = 16;
        host.add(1, 10);
        host.pending.drop_oldest("slow");
        assert_eq!(host.file(), ["!4", "17-17"]);
    }
}
