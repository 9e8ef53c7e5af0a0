//! The last lines of all services in memory: what followers read, and what `logs` shows of a disk that does not answer.
//!
//! Every line of a service has a number, counted from 1 in the life of this logd; a reader that comes too late sees from
//! the numbers how many it missed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::line::{Line, Source};
use super::run::Run;

/// A line kept in memory.
#[derive(Debug, Clone, Copy)]
pub struct Kept<'a> {
    pub service: &'a Arc<str>,
    pub seq: u64,
    /// The text may lie in two pieces.
    pub text: (&'a [u8], &'a [u8]),
    pub time: i64,
    pub source: Source,
    pub run: Run,
    pub partial: bool,
}

struct Entry {
    service: Arc<str>,
    seq: u64,
    time: i64,
    /// Where the text begins, counted from the first byte ever kept.
    start: u64,
    length: u32,
    source: Source,
    run: Run,
    partial: bool,
}

/// Bounded by bytes, entries included.
pub struct Ring {
    entries: VecDeque<Entry>,
    text: VecDeque<u8>,
    /// How many entries, and bytes of text, were thrown out.
    gone: u64,
    gone_bytes: u64,
    limit: usize,
}

impl Ring {
    pub fn new(limit: usize) -> Ring {
        Ring { entries: VecDeque::new(), text: VecDeque::new(), gone: 0, gone_bytes: 0, limit }
    }

    /// Bounds it anew; memory that is not needed any more is given back.
    pub fn set_limit(&mut self, limit: usize) {
        let less = limit < self.limit;
        self.limit = limit;
        if less {
            self.make_room(0);
            self.entries.shrink_to_fit();
            self.text.shrink_to_fit();
        }
    }

    pub fn push(&mut self, service: &Arc<str>, seq: u64, line: Line<'_>) {
        let Ok(length) = u32::try_from(line.text.len()) else { return };
        self.make_room(line.text.len().saturating_add(size_of::<Entry>()));
        let start = self.gone_bytes.saturating_add(self.text.len() as u64);
        self.text.extend(line.text);
        let Line { time, source, run, partial, .. } = line;
        let service = service.clone();
        self.entries.push_back(Entry { service, seq, time, start, length, source, run, partial });
    }

    fn make_room(&mut self, wanted: usize) {
        while self.size().saturating_add(wanted) > self.limit {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.text.drain(..(oldest.length as usize).min(self.text.len()));
            self.gone = self.gone.saturating_add(1);
            self.gone_bytes = self.gone_bytes.saturating_add(u64::from(oldest.length));
        }
    }

    fn size(&self) -> usize {
        self.entries.len().saturating_mul(size_of::<Entry>()).saturating_add(self.text.len())
    }

    /// Lines from a position on, or from the oldest if that one is gone, each with the position behind it.
    pub fn from(&self, position: u64) -> impl Iterator<Item = (u64, Kept<'_>)> {
        let skip = usize::try_from(position.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        let first = self.gone.max(position).saturating_add(1);
        let skip = skip.min(self.entries.len());
        self.entries.range(skip..).zip(first..).map(|(entry, behind)| (behind, self.kept(entry)))
    }

    fn kept<'a>(&'a self, entry: &'a Entry) -> Kept<'a> {
        let (front, back) = self.text.as_slices();
        let from = usize::try_from(entry.start.saturating_sub(self.gone_bytes)).unwrap_or(usize::MAX);
        let to = from.saturating_add(entry.length as usize);
        let piece =
            |all: &'a [u8], from: usize, to: usize| all.get(from..to.min(all.len())).unwrap_or_default();
        let text = (
            piece(front, from, to),
            piece(back, from.saturating_sub(front.len()), to.saturating_sub(front.len())),
        );
        let Entry { service, seq, time, source, run, partial, .. } = entry;
        Kept { service, seq: *seq, text, time: *time, source: *source, run: *run, partial: *partial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(ring: &mut Ring, service: &Arc<str>, seq: u64, text: &str) {
        let run = Run::new(seq, 1);
        let line = Line { time: 1, source: Source::Stdout, run, partial: false, text: text.as_bytes() };
        ring.push(service, seq, line);
    }

    #[test]
    fn it_keeps_the_last_lines_within_its_bound() {
        let mut ring = Ring::new(64 * 1024);
        let web: Arc<str> = "web".into();
        for seq in 1..=10_000 {
            push(&mut ring, &web, seq, &format!("line number {seq}"));
            assert!(ring.size() <= 64 * 1024);
        }
        let seen: Vec<(u64, String)> = ring
            .from(0)
            .map(|(_, kept)| (kept.seq, String::from_utf8([kept.text.0, kept.text.1].concat()).unwrap()))
            .collect();
        assert!(seen.len() > 500);
        assert_eq!(seen.last().unwrap().0, 10_000);
        assert_eq!(seen[0].0, 10_001 - seen.len() as u64);
        assert!(seen.iter().all(|(seq, text)| *text == format!("line number {seq}")));
    }

    #[test]
    fn a_reader_goes_on_where_it_was() {
        let mut ring = Ring::new(1 << 20);
        let web: Arc<str> = "web".into();
        push(&mut ring, &web, 1, "one");
        let (position, _) = ring.from(0).last().unwrap();
        assert_eq!(ring.from(position).count(), 0);
        push(&mut ring, &web, 2, "two");
        assert_eq!(ring.from(position).map(|(_, kept)| kept.seq).collect::<Vec<_>>(), [2]);
    }
}
