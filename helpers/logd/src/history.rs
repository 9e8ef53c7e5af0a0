//! The lines of services as they stand in files, continued by those in memory, merged by time.
//!
//! Everything here may wait for a disk and runs on a thread that may be left behind. A file is read up to the [`Mark`]
//! that the writer had set at one instant; the lines after it come from memory as of the same instant: none is doubled,
//! none is lost.

mod log;
mod wanted;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::Arc;

use super::store::{OwnedLine, Store};
use log::Log;
pub use wanted::{Text, Wanted, WantedRun};

/// Read at most in one call: of many lines none may be wanted.
const LOOKED_AT: usize = 4 * 1024 * 1024;

/// The work on the lines as they are read. The first stage comes first, each from the oldest line on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Finds which runs there are.
    Runs,
    /// Counts the wanted lines, with the number so far.
    Count(u64),
    /// Gives them, but for the first ones: this many.
    Give(u64),
}

/// Lines of some services, oldest first.
pub struct History {
    logs: Vec<Log>,
    heads: Vec<Option<OwnedLine>>,
    order: BinaryHeap<Reverse<(i64, usize)>>,
    wanted: Wanted,
    stage: Stage,
    /// The number of the first line of each service that is not part of this.
    pub next: HashMap<Arc<str>, u64>,
}

impl History {
    /// Opens the files; may wait for a disk for ever.
    pub fn open(store: &Store, names: &[Arc<str>], wanted: Wanted) -> io::Result<History> {
        let directory = store.directory();
        let open = |name: &Arc<str>| Log::open(store, &directory, name, &wanted);
        let logs = names.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        History::over(logs, wanted)
    }

    /// The same without any file: what memory has.
    pub fn of_memory(store: &Store, names: &[Arc<str>], wanted: Wanted) -> io::Result<History> {
        History::over(names.iter().map(|name| Log::of_memory(store, name)).collect(), wanted)
    }

    fn over(logs: Vec<Log>, wanted: Wanted) -> io::Result<History> {
        let next = logs.iter().map(|log| (log.service.clone(), log.next)).collect();
        let stage = match (wanted.run, wanted.tail) {
            (Some(_), _) => Stage::Runs,
            (None, Some(_)) => Stage::Count(0),
            (None, None) => Stage::Give(0),
        };
        let mut history = History { logs, heads: Vec::new(), order: BinaryHeap::new(), wanted, stage, next };
        history.rewind()?;
        Ok(history)
    }

    /// The next lines, at most this many bytes of text; `None` at the end. There may be none although it is
    /// not the end: a call reads only so much.
    pub fn chunk(&mut self, bytes: usize) -> io::Result<Option<Vec<OwnedLine>>> {
        let mut lines = Vec::new();
        let (mut size, mut seen): (usize, usize) = (0, 0);
        while size < bytes && seen < LOOKED_AT {
            let Some((log, line)) = self.next_line()? else {
                if matches!(self.stage, Stage::Give(_)) {
                    return Ok((!lines.is_empty()).then_some(lines));
                }
                self.next_stage()?;
                continue;
            };
            let length = line.text.len().saturating_add(64);
            seen = seen.saturating_add(length);
            if self.stage == Stage::Runs {
                if let Some(log) = self.logs.get_mut(log) {
                    log.runs.meet(line.run);
                }
                continue;
            }
            let of_run = self.wanted.run.is_none()
                || self.logs.get(log).is_some_and(|log| log.runs.chosen == Some(line.run));
            if !of_run || !self.wanted.includes(&line) {
                continue;
            }
            match &mut self.stage {
                Stage::Runs => {}
                Stage::Count(count) => *count = count.saturating_add(1),
                Stage::Give(skip @ 1..) => *skip = skip.saturating_sub(1),
                Stage::Give(_) => {
                    size = size.saturating_add(length);
                    lines.push(line);
                }
            }
        }
        Ok(Some(lines))
    }

    /// All lines were read once.
    fn next_stage(&mut self) -> io::Result<()> {
        self.stage = match (self.stage, self.wanted.tail) {
            (Stage::Runs, tail) => {
                if let Some(wanted) = self.wanted.run {
                    self.logs.iter_mut().for_each(|log| log.runs.choose(wanted));
                }
                if tail.is_some() { Stage::Count(0) } else { Stage::Give(0) }
            }
            (Stage::Count(count), Some(tail)) => Stage::Give(count.saturating_sub(tail.into())),
            (stage, _) => stage,
        };
        self.rewind()
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.order.clear();
        self.heads = Vec::new();
        for log in &mut self.logs {
            log.rewind();
        }
        for index in 0..self.logs.len() {
            self.heads.push(None);
            self.advance(index)?;
        }
        Ok(())
    }

    /// The next line, and which of the logs it is of.
    fn next_line(&mut self) -> io::Result<Option<(usize, OwnedLine)>> {
        let Some(Reverse((_, index))) = self.order.pop() else { return Ok(None) };
        let line = self.heads.get_mut(index).and_then(Option::take);
        self.advance(index)?;
        Ok(line.map(|line| (index, line)))
    }

    fn advance(&mut self, index: usize) -> io::Result<()> {
        if let (Some(log), Some(head)) = (self.logs.get_mut(index), self.heads.get_mut(index)) {
            *head = log.next_line()?;
            self.order.extend(head.iter().map(|line| Reverse((line.time, index))));
        }
        Ok(())
    }
}
