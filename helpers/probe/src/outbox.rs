//! Results on their way to PID 1. If it does not take them, the oldest are thrown away and counted.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::ask::Answer;
use kelson_helper::probe::{self as wire, FROM_PROBE_MAX, FrameStart, FromProbe, Record, Verdict};

/// So many wait at most: two of each check that there can be. And so many bytes of text.
const UNSENT_MAX: usize = 32_768;
const TEXTS_MAX: usize = 1 << 20;

struct Unsent {
    id: u64,
    at: u64,
    took: Duration,
    verdict: Verdict,
    text: Cow<'static, str>,
}

#[derive(Default)]
pub struct Outbox {
    unsent: VecDeque<Unsent>,
    /// Bytes of their texts.
    texts: usize,
    /// Thrown away and not yet told.
    dropped: u64,
    /// What PID 1 knows as the last text of each check.
    known: HashMap<u64, Cow<'static, str>>,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.dropped == 0
    }

    #[cfg(test)]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// `at`: in microseconds since 1970.
    pub fn add(&mut self, id: u64, at: u64, took: Duration, answer: Answer) {
        let Answer { verdict, text } = answer;
        self.texts = self.texts.saturating_add(text.len());
        self.unsent.push_back(Unsent { id, at, took, verdict, text });
        while self.unsent.len() > UNSENT_MAX || self.texts > TEXTS_MAX {
            let Some(oldest) = self.unsent.pop_front() else { break };
            self.texts = self.texts.saturating_sub(oldest.text.len());
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// The check has ended: PID 1 knows it no more.
    pub fn forget(&mut self, id: u64) {
        self.known.remove(&id);
    }

    /// Appends a frame of as many as fit into one; `lives` tells whether a check has not ended.
    pub fn write(&mut self, buffer: &mut Vec<u8>, lives: impl Fn(u64) -> bool) {
        if self.dropped > 0 {
            let told = wire::write_frame(buffer, &FromProbe::Dropped(self.dropped), FROM_PROBE_MAX);
            if told.is_ok() {
                self.dropped = 0;
            }
        }
        let frame = FrameStart::new(buffer);
        let mut whole = frame.push(buffer, &FromProbe::Results, FROM_PROBE_MAX).is_ok();
        while whole && let Some(first) = self.unsent.front() {
            let Unsent { id, at, took, verdict, text } = first;
            let (id, lives) = (*id, lives(*id));
            if lives {
                let known = self.known.get(&id).is_some_and(|known| known == text);
                let text: Option<&str> = (!known).then_some(text);
                let record = Record { id, at: *at, took: *took, verdict: *verdict, text };
                if frame.push(buffer, &record, FROM_PROBE_MAX).is_err() {
                    // Not even one fits an empty frame: texts are shorter than that, so this one is full.
                    whole = false;
                    continue;
                }
            }
            let Some(sent) = self.unsent.pop_front() else { break };
            self.texts = self.texts.saturating_sub(sent.text.len());
            if lives && self.known.get(&id) != Some(&sent.text) {
                self.known.insert(id, sent.text);
            }
        }
        frame.finish(buffer);
        if self.unsent.is_empty() {
            self.unsent.shrink_to(1024);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_helper::probe::Incoming;

    fn answer(text: impl Into<Cow<'static, str>>) -> Answer {
        Answer { verdict: Verdict::Passes, text: text.into() }
    }

    /// Records of all frames, with their texts, and what was dropped.
    fn read(buffer: &[u8]) -> (Vec<(u64, Option<String>)>, u64) {
        let mut incoming = Incoming::new(FROM_PROBE_MAX);
        incoming.push(buffer);
        let (mut records, mut lost) = (Vec::new(), 0);
        while let Some(frame) = incoming.frame().unwrap() {
            let (message, mut rest) = wire::read_piece(frame).unwrap();
            match message {
                FromProbe::Dropped(count) => lost += count,
                FromProbe::Results => {
                    while !rest.is_empty() {
                        let (record, more): (Record<'_>, _) = wire::read_piece(rest).unwrap();
                        records.push((record.id, record.text.map(str::to_owned)));
                        rest = more;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        (records, lost)
    }

    fn drain(outbox: &mut Outbox) -> (Vec<(u64, Option<String>)>, u64) {
        let mut buffer = Vec::new();
        while !outbox.is_empty() {
            outbox.write(&mut buffer, |_| true);
        }
        read(&buffer)
    }

    #[test]
    fn a_text_is_sent_only_where_it_is_another() {
        let mut outbox = Outbox::default();
        for (id, text) in [(1, "a"), (2, "a"), (1, "a"), (1, "b"), (2, "a"), (1, "a")] {
            outbox.add(id, 0, Duration::ZERO, answer(text));
        }
        let some = |text: &str| Some(text.to_owned());
        let wanted = [(1, some("a")), (2, some("a")), (1, None), (1, some("b")), (2, None), (1, some("a"))];
        assert_eq!(drain(&mut outbox).0, wanted);
        outbox.add(1, 0, Duration::ZERO, answer("a"));
        outbox.forget(2);
        outbox.add(2, 0, Duration::ZERO, answer("a"));
        assert_eq!(drain(&mut outbox).0, [(1, None), (2, some("a"))]);
    }

    #[test]
    fn what_nobody_takes_is_bounded_and_the_newest_stay() {
        let mut outbox = Outbox::default();
        for id in 0..100_000 {
            outbox.add(id, 0, Duration::ZERO, answer("connected"));
        }
        let (records, dropped) = drain(&mut outbox);
        assert_eq!((records.len(), dropped), (UNSENT_MAX, 100_000 - UNSENT_MAX as u64));
        assert_eq!(records.last().unwrap().0, 99_999);
        assert!(outbox.unsent.capacity() <= 2048);

        let mut outbox = Outbox::default();
        for id in 0..10_000 {
            outbox.add(1, 0, Duration::ZERO, answer(format!("{id}{}", "x".repeat(500))));
            assert!(outbox.texts <= TEXTS_MAX);
        }
        let (records, dropped) = drain(&mut outbox);
        assert!(records.len() > 2000 && records.len() as u64 + dropped == 10_000, "{}", records.len());
    }

    #[test]
    fn results_of_a_check_that_ended_are_not_sent() {
        let mut outbox = Outbox::default();
        outbox.add(1, 0, Duration::ZERO, answer("a"));
        outbox.add(2, 0, Duration::ZERO, answer("a"));
        let mut buffer = Vec::new();
        outbox.write(&mut buffer, |id| id == 2);
        assert_eq!(read(&buffer).0.len(), 1);
        assert!(outbox.is_empty() && outbox.known.len() == 1);
    }
}
