//! The log of one service: its files, and what memory has behind them.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use super::wanted::{Runs, Wanted};
use crate::files::{MOST_FILES, path_of};
use crate::line::{self, LONGEST, Source};
use crate::run::Run;
use crate::store::{OwnedLine, Seam, Store, client_note};

/// Read at a time while looking for the beginning; and while reading on.
const BLOCK: usize = 64 * 1024;
const READ: usize = 16 * 1024;
/// A line of a file that is longer than that is none of ours, and is cut.
const CUT: usize = LONGEST + 128;
/// How often files are opened again that were rotated meanwhile.
const TRIES: usize = 5;

struct Part {
    file: File,
    from: u64,
    to: u64,
}

/// One service.
pub struct Log {
    pub service: Arc<str>,
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
    pub runs: Runs,
    /// The number of the first line that is not part of this.
    pub next: u64,
    /// To be said before the next line.
    note: Option<OwnedLine>,
}

/// Returns the lines of a service's memory that belong to its history.
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
    /// Opens the files; may wait for a disk for ever.
    pub fn open(store: &Store, directory: &Path, name: &Arc<str>, wanted: &Wanted) -> io::Result<Log> {
        let (mut parts, seam) = open_parts(store, directory, name)?;
        begin(&mut parts, wanted)?;
        Ok(Log::new(name, parts, seam, false))
    }

    /// The same without any file: what memory has.
    pub fn of_memory(store: &Store, name: &Arc<str>) -> Log {
        Log::new(name, Vec::new(), store.seam(name), true)
    }

    /// `all`: of what is in memory, also what is in the files.
    fn new(service: &Arc<str>, parts: Vec<Part>, seam: Seam, all: bool) -> Log {
        let runs = Runs::new(seam.run);
        Log {
            next: seam.next,
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

    pub fn rewind(&mut self) {
        self.part = 0;
        self.at = self.parts.first().map_or(0, |part| part.from);
        self.buffer.clear();
        self.remembered = 0;
        self.time = 0;
        self.of = Run::default();
        self.note = None;
    }

    pub fn next_line(&mut self) -> io::Result<Option<OwnedLine>> {
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
