//! Results on their way to PID 1. If it does not take them, the oldest are thrown away and counted.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::ask::Answer;
use kelson_helper::probe::{Verdict, micros};
use kelson_helper::transport::FROM_HELPER;
use kelson_proto::v1::{self, probe_report};
use prost::Message as _;

/// So many wait at most: two of each check that there can be. The limit in bytes of text.
const UNSENT_MAX: usize = 32_768;
const TEXTS_MAX: usize = 1 << 20;
/// Bytes of the results in one message: what stands before them has room.
const BATCH_MAX: usize = FROM_HELPER - 64;
/// Bytes before each result.
const LENGTH: usize = 4;

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
    /// The last text of each check that PID 1 knows.
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

    /// The next message for PID 1: as many results as fit into one, or how many were thrown away. `lives` tells whether a
    /// check has not ended.
    pub fn next(&mut self, lives: impl Fn(u64) -> bool) -> Option<probe_report::Report> {
        if self.dropped > 0 {
            return Some(probe_report::Report::Dropped(std::mem::take(&mut self.dropped)));
        }
        let (mut results, mut bytes) = (Vec::new(), 0_usize);
        while let Some(Unsent { id, at, took, verdict, text }) = self.unsent.pop_front() {
            self.texts = self.texts.saturating_sub(text.len());
            if !lives(id) {
                continue;
            }
            let known = self.known.get(&id) == Some(&text);
            let sent = (!known).then(|| text.clone().into_owned());
            let (passes, silent) = (verdict == Verdict::Passes, verdict == Verdict::Silent);
            let result = v1::ProbeResult { id, at, took: micros(took), passes, silent, text: sent };
            bytes = bytes.saturating_add(result.encoded_len()).saturating_add(LENGTH);
            if bytes > BATCH_MAX && !results.is_empty() {
                self.texts = self.texts.saturating_add(text.len());
                self.unsent.push_front(Unsent { id, at, took, verdict, text });
                break;
            }
            results.push(result);
            if !known {
                self.known.insert(id, text);
            }
        }
        if self.unsent.is_empty() {
            self.unsent.shrink_to(1024);
        }
        (!results.is_empty()).then_some(probe_report::Report::Results(v1::ProbeResults { results }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: impl Into<Cow<'static, str>>) -> Answer {
        Answer { verdict: Verdict::Passes, text: text.into() }
    }

    /// The results of all messages, with their texts, and how many were dropped.
    fn drain(outbox: &mut Outbox) -> (Vec<(u64, Option<String>)>, u64) {
        let (mut results, mut lost) = (Vec::new(), 0);
        while let Some(report) = outbox.next(|_| true) {
            assert!(report.encoded_len() <= FROM_HELPER);
            match report {
                probe_report::Report::Dropped(count) => lost += count,
                probe_report::Report::Results(batch) => {
                    results.extend(batch.results.into_iter().map(|result| (result.id, result.text)));
                }
                other => panic!("{other:?}"),
            }
        }
        (results, lost)
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
        let Some(probe_report::Report::Results(batch)) = outbox.next(|id| id == 2) else { panic!() };
        assert_eq!(batch.results.len(), 1);
        assert!(outbox.is_empty() && outbox.known.len() == 1);
    }
}
