//! The last lines of all services in memory: what followers read, and what `logs` shows of a disk that does not answer.
//!
//! Every line of a service has a number, counted from 1 in the life of this logd; a reader that comes too late sees from
//! the numbers how many it missed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::line::{Line, Source};
use super::run::Run;

/// A line that owns its text, for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedLine {
    pub service: Arc<str>,
    pub time: i64,
    pub source: Source,
    pub run: Run,
    pub partial: bool,
    pub text: Vec<u8>,
}

/// A line kept in memory, but for its text.
pub struct Entry {
    pub service: Arc<str>,
    pub seq: u64,
    pub time: i64,
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

    /// Sets a new bound; memory that is not needed any more is given back.
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
    pub fn from(&self, position: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let skip = usize::try_from(position.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        let first = self.gone.max(position).saturating_add(1);
        let skip = skip.min(self.entries.len());
        (first..).zip(self.entries.range(skip..))
    }

    /// An entry with its text.
    pub fn line(&self, entry: &Entry) -> OwnedLine {
        let from = usize::try_from(entry.start.saturating_sub(self.gone_bytes)).unwrap_or(usize::MAX);
        let length = entry.length as usize;
        // The text may lie in two pieces.
        let (front, back) = self.text.as_slices();
        let mut text = Vec::with_capacity(length);
        text.extend_from_slice(piece(front, from, length));
        text.extend_from_slice(piece(
            back,
            from.saturating_sub(front.len()),
            length.saturating_sub(text.len()),
        ));
        let Entry { service, time, source, run, partial, .. } = entry;
        let (service, time, source, run, partial) = (service.clone(), *time, *source, *run, *partial);
        OwnedLine { service, time, source, run, partial, text }
    }
}

/// So many bytes, as far as there are.
fn piece(all: &[u8], from: usize, length: usize) -> &[u8] {
    all.get(from..from.saturating_add(length).min(all.len())).unwrap_or_default()
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
            .map(|(_, entry)| (entry.seq, String::from_utf8(ring.line(entry).text).unwrap()))
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
        assert_eq!(ring.from(position).map(|(_, entry)| entry.seq).collect::<Vec<_>>(), [2]);
    }
}
