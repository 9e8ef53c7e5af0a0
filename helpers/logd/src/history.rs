//! The lines of services as they stand in files, continued by those in memory, merged by time.
//!
//! Everything here may wait for a disk and runs on a thread that may be left behind. A file is read up to the [`Mark`]
//! that the writer had set at one instant; the lines after it come from memory as of the same instant: none is doubled,
//! none is lost.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use super::files::{MOST_FILES, path_of};
use super::line::{self, LONGEST, Source};
use super::run::Run;
use super::store::{OwnedLine, Seam, Store, client_note};

/// Read at a time while looking for the beginning; and while reading on.
const BLOCK: usize = 64 * 1024;
const READ: usize = 16 * 1024;
/// A line of a file that is longer than that is none of ours, and is cut.
const CUT: usize = LONGEST + 128;
/// How often files are opened again that were rotated meanwhile.
const TRIES: usize = 5;
/// Read at most in one call: of many lines none may be wanted.
const LOOKED_AT: usize = 4 * 1024 * 1024;

/// What a client wants of the past.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// At most so many of the last lines.
    pub tail: Option<u32>,
    /// No lines before the one and behind the other, in nanoseconds since 1970.
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// Only lines of one run.
    pub run: Option<WantedRun>,
    /// Only lines that contain this.
    pub text: Text,
}

/// One run of each service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedRun {
    /// The youngest with this number.
    Number(u32),
    /// The one before the youngest.
    Previous,
}

/// What is looked for in lines. Bytes and no pattern: whoever may read logs chooses it, and no choice takes long.
#[derive(Debug, Clone, Default)]
pub struct Text(pub Arc<[u8]>);

impl Text {
    /// Notes are never left out: what is looked for may be missing where they stand.
    pub fn is_in(&self, line: &OwnedLine) -> bool {
        self.0.is_empty()
            || line.source == Source::Note
            || line.text.windows(self.0.len()).any(|window| *window == *self.0)
    }
}

impl Wanted {
    fn since(&self, time: i64) -> bool {
        self.since.is_none_or(|since| time >= since)
    }

    fn includes(&self, line: &OwnedLine) -> bool {
        self.since(line.time) && self.until.is_none_or(|until| line.time < until) && self.text.is_in(line)
    }

    /// Whether the last lines that are wanted are the last that there are.
    fn ends_with_the_log(&self) -> bool {
        self.until.is_none() && self.run.is_none() && self.text.0.is_empty()
    }
}

/// What is done with the lines as they are read. What comes first is done first, each from the oldest line on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Finds which runs there are.
    Runs,
    /// Counts those that are wanted: so many.
    Count(u64),
    /// Gives them, but for the first so many.
    Give(u64),
}

struct Part {
    file: File,
    from: u64,
    to: u64,
}

/// One service.
struct Log {
    service: Arc<str>,
    /// Oldest first.
    parts: Vec<Part>,
    memory: Vec<OwnedLine>,
    part: usize,
    at: u64,
    buffer: VecDeque<u8>,
    remembered: usize,
    /// Lines without a time of their own get that of the line before, notes the run.
    time: i64,
    of: Run,
    runs: Runs,
    /// To be said before the next line.
    note: Option<OwnedLine>,
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
        let mut next = HashMap::new();
        let mut logs = Vec::new();
        for name in names {
            let (mut parts, seam) = open_parts(store, &directory, name)?;
            begin(&mut parts, &wanted)?;
            next.insert(name.clone(), seam.next);
            logs.push(Log::new(name, parts, seam, false));
        }
        History::over(logs, wanted, next)
    }

    /// The same without any file: what memory has.
    pub fn of_memory(store: &Store, names: &[Arc<str>], wanted: Wanted) -> io::Result<History> {
        let mut next = HashMap::new();
        let mut logs = Vec::new();
        for name in names {
            let seam = store.seam(name);
            next.insert(name.clone(), seam.next);
            logs.push(Log::new(name, Vec::new(), seam, true));
        }
        History::over(logs, wanted, next)
    }

    fn over(logs: Vec<Log>, wanted: Wanted, next: HashMap<Arc<str>, u64>) -> io::Result<History> {
        let stage = match (wanted.run, wanted.tail) {
            (Some(_), _) => Stage::Runs,
            (None, Some(_)) => Stage::Count(0),
            (None, None) => Stage::Give(0),
        };
        let mut history = History { logs, heads: Vec::new(), order: BinaryHeap::new(), wanted, stage, next };
        history.rewind()?;
        Ok(history)
    }

    /// The next lines, at most so many bytes of text; `None` at the end. There may be none although it is not the end:
    /// a call reads only so much.
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

/// The runs of one service, in the order of their first lines.
#[derive(Debug, Default)]
struct Runs {
    met: Vec<Run>,
    last: Run,
    /// The youngest that logd knows of; it may have written nothing.
    youngest: Run,
    chosen: Option<Run>,
}

impl Runs {
    fn meet(&mut self, run: Run) {
        if run != self.last && run.is_known() && !self.met.contains(&run) {
            self.met.push(run);
        }
        self.last = run;
    }

    fn choose(&mut self, wanted: WantedRun) {
        self.chosen = match wanted {
            WantedRun::Number(number) => self.met.iter().rfind(|run| run.number == number).copied(),
            WantedRun::Previous => {
                let all = self.met.len().saturating_sub(usize::from(!self.youngest.is_known()));
                let before = self.met.iter().position(|run| *run == self.youngest).unwrap_or(all);
                self.met.get(..before).and_then(<[Run]>::last).copied()
            }
        };
    }
}

/// What of a service's memory belongs to its history.
fn memory(name: &Arc<str>, seam: Seam, all: bool) -> Vec<OwnedLine> {
    let mut lines = if all { seam.written } else { Vec::new() };
    if seam.missed > 0 {
        let time = seam.unwritten.first().map_or_else(line::now, |line| line.time);
        let text = format!(
            "{} lines are missing here: they are not written yet and not in memory any more",
            seam.missed
        );
        lines.push(client_note(name, time, text));
    }
    lines.extend(seam.unwritten);
    lines
}

/// The files of a service, oldest first, and where memory goes on.
fn open_parts(store: &Store, directory: &Path, name: &Arc<str>) -> io::Result<(Vec<Part>, Seam)> {
    let mut left = TRIES;
    loop {
        left = left.saturating_sub(1);
        // Files before the seam: as long as the writer has no mark it has added nothing.
        let mut found = open_all(directory, name)?;
        let seam = store.seam(name);
        if let Some(mark) = seam.mark {
            match found.iter().position(|(_, id)| *id == (mark.device, mark.inode)) {
                Some(current) => {
                    // Younger ones were begun after the seam.
                    found.drain(..current);
                    if let Some((part, _)) = found.first_mut() {
                        part.to = mark.length;
                    }
                }
                None if left > 0 => continue,
                // The file was deleted under the writer's hands: what is left is what there is.
                None => {}
            }
        }
        return Ok((found.into_iter().rev().map(|(part, _)| part).collect(), seam));
    }
}

/// Device and inode.
type Id = (u64, u64);

/// Youngest first; one that is met twice because of a rotation meanwhile, once.
fn open_all(directory: &Path, name: &str) -> io::Result<Vec<(Part, Id)>> {
    let mut found: Vec<(Part, Id)> = Vec::new();
    for number in 0..MOST_FILES {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file =
            match OpenOptions::new().read(true).custom_flags(flags).open(path_of(directory, name, number)) {
                Ok(file) => file,
                // Right after a rotation there is no current one.
                Err(error) if error.kind() == io::ErrorKind::NotFound && number == 0 => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
        let data = file.metadata()?;
        let id = (data.dev(), data.ino());
        if data.is_file() && !found.iter().any(|(_, seen)| *seen == id) {
            found.push((Part { file, from: 0, to: data.len() }, id));
        }
    }
    Ok(found)
}

/// Moves the beginning up to a line before which nothing is wanted.
fn begin(parts: &mut Vec<Part>, wanted: &Wanted) -> io::Result<()> {
    let tail = wanted.tail.filter(|_| wanted.ends_with_the_log());
    if tail.is_none() && wanted.since.is_none() {
        return Ok(());
    }
    let mut lines: u64 = 0;
    let mut block = vec![0; BLOCK];
    for index in (0..parts.len()).rev() {
        let Some(part) = parts.get_mut(index) else { break };
        let mut to = part.to;
        while to > 0 {
            let from = to.saturating_sub(BLOCK as u64);
            let length = usize::try_from(to.saturating_sub(from)).unwrap_or(BLOCK);
            let bytes = block.get_mut(..length).unwrap_or_default();
            part.file.read_exact_at(bytes, from)?;
            lines = lines.saturating_add(bytes.iter().filter(|byte| **byte == b'\n').count() as u64);
            let line = bytes.iter().position(|byte| *byte == b'\n').map(|end| end.saturating_add(1));
            let time = line.and_then(|line| line::parse_stamp(bytes.get(line..)?));
            let enough = tail.is_some_and(|tail| lines > u64::from(tail));
            let early = time.is_some_and(|time| !wanted.since(time));
            if let Some(line) = line.filter(|_| enough || early) {
                part.from = from.saturating_add(line as u64);
                parts.drain(..index);
                return Ok(());
            }
            to = from;
        }
    }
    Ok(())
}

impl Log {
    /// `all`: of what is in memory, also what is in the files.
    fn new(service: &Arc<str>, parts: Vec<Part>, seam: Seam, all: bool) -> Log {
        let runs = Runs { youngest: seam.run, ..Runs::default() };
        Log {
            service: service.clone(),
            parts,
            memory: memory(service, seam, all),
            part: 0,
            at: 0,
            buffer: VecDeque::new(),
            remembered: 0,
            time: 0,
            of: Run::default(),
            runs,
            note: None,
        }
    }

    fn rewind(&mut self) {
        self.part = 0;
        self.at = self.parts.first().map_or(0, |part| part.from);
        self.buffer.clear();
        self.remembered = 0;
        self.time = 0;
        self.of = Run::default();
        self.note = None;
    }

    fn next_line(&mut self) -> io::Result<Option<OwnedLine>> {
        let mut line = self.read_line()?;
        if let Some(line) = &mut line {
            if line.source == Source::Note {
                line.run = self.of;
            }
            self.of = line.run;
        }
        Ok(line)
    }

    fn read_line(&mut self) -> io::Result<Option<OwnedLine>> {
        if let Some(note) = self.note.take() {
            return Ok(Some(note));
        }
        if let Some((mut bytes, whole)) = self.next_bytes()? {
            let service = self.service.clone();
            if !whole {
                // The end of what a file system knows only the length of.
                bytes.truncate(
                    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last.saturating_add(1)),
                );
                if bytes.is_empty() {
                    return Ok(Some(client_note(&service, self.time, line::LOST.to_owned())));
                }
            }
            let line = match line::parse(&bytes) {
                Some(line::Line { time, source, run, partial, text }) => {
                    self.time = time;
                    OwnedLine { service, time, source, run, partial, text: text.to_vec() }
                }
                // Not one of ours, but somebody's: better shown than not.
                None => OwnedLine { text: bytes, ..client_note(&service, self.time, String::new()) },
            };
            if !whole {
                self.note = Some(client_note(&self.service, self.time, line::TORN.to_owned()));
            }
            return Ok(Some(line));
        }
        let line = self.memory.get(self.remembered).cloned();
        self.remembered = self.remembered.saturating_add(1);
        Ok(line)
    }

    /// A line of the files, without its newline, and whether it had one or is too long for that.
    fn next_bytes(&mut self) -> io::Result<Option<(Vec<u8>, bool)>> {
        let mut searched: usize = 0;
        loop {
            if let Some(end) = self.buffer.iter().skip(searched).position(|byte| *byte == b'\n') {
                let length = end.saturating_add(searched);
                let line = self.buffer.drain(..length).collect();
                self.buffer.pop_front();
                return Ok(Some((line, true)));
            }
            searched = self.buffer.len();
            if searched >= CUT || !self.fill()? {
                return Ok((searched > 0).then(|| (self.buffer.drain(..).collect(), searched >= CUT)));
            }
        }
    }

    /// Reads on; false at the end of the current file, of the last one permanently.
    fn fill(&mut self) -> io::Result<bool> {
        while let Some(part) = self.parts.get(self.part) {
            let rest = usize::try_from(part.to.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let mut block = [0; READ];
            let block = block.get_mut(..rest.min(READ)).unwrap_or_default();
            let read = if block.is_empty() { 0 } else { part.file.read_at(block, self.at)? };
            if read > 0 {
                self.at = self.at.saturating_add(read as u64);
                self.buffer.extend(block.iter().take(read));
                return Ok(true);
            }
            self.part = self.part.saturating_add(1);
            self.at = self.parts.get(self.part).map_or(0, |part| part.from);
            if !self.buffer.is_empty() {
                return Ok(false);
            }
        }
        Ok(false)
    }
}
