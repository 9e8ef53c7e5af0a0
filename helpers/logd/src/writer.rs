//! The thread that owns the files. It alone may wait for a disk; the others notice by the queue that it does.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::files::{Files, Written, path_of};
use super::store::{Batch, Job, Limits, Store};
use super::troubles::Troubles;
use kelson_spec::names::is_name;

/// So often a directory is tried that could not be used.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes moved at a time from one directory to the next.
const PIECE: usize = 64 * 1024;

/// A folder that is there may still be on a read-only file system.
fn writable(folder: &Path) -> io::Result<()> {
    let access = nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK;
    Ok(nix::unistd::access(folder, access)?)
}

/// See the module.
pub struct Writer {
    store: Arc<Store>,
    files: Files,
    /// A directory that cannot be used, and when it was tried last.
    wanted: Option<(PathBuf, Instant)>,
    /// Where files are while no other directory can be written.
    fallback: PathBuf,
    failing: HashSet<Arc<str>>,
    told: Option<String>,
    /// The same of [`Self::wanted`].
    told_wanted: Option<String>,
    limits: HashMap<Arc<str>, Limits>,
    troubles: Arc<Troubles>,
}

impl Writer {
    pub fn new(store: Arc<Store>, directory: PathBuf, fallback: PathBuf, troubles: Arc<Troubles>) -> Writer {
        let files = Files::new(directory);
        let limits = HashMap::new();
        Writer {
            store,
            files,
            wanted: None,
            fallback,
            failing: HashSet::new(),
            told: None,
            told_wanted: None,
            limits,
            troubles,
        }
    }

    /// Returns once everything is written after the store was closed.
    pub fn run(mut self) {
        let mut busy = false;
        loop {
            match self.store.next_job(busy) {
                Job::Write(batch) => self.write(&batch),
                Job::Directory(path) => self.move_to(path),
                Job::Close(service) => {
                    self.files.close(&service);
                    self.failing.remove(&service);
                    self.limits.remove(&service);
                }
                Job::End => return,
            }
            if self.store.held_back.load(Ordering::Relaxed) {
                self.troubles.wake();
            }
            busy = true;
        }
    }

    fn write(&mut self, batch: &Batch) {
        if let Some((wanted, _)) = self.wanted.take_if(|(_, since)| since.elapsed() >= AGAIN) {
            self.move_to(wanted);
        }
        self.limits.insert(batch.service.clone(), batch.limits);
        let mut written = self.files.append(&batch.service, batch.limits, &batch.bytes);
        if let Err(error) = &written.result
            && is_read_only(error)
            && self.fall_back(plain(error))
        {
            let rest = batch.bytes.get(written.kept..).unwrap_or_default();
            let elsewhere = self.files.append(&batch.service, batch.limits, rest);
            written = Written { kept: written.kept.saturating_add(elsewhere.kept), ..elsewhere };
        }
        match (written.result, written.mark) {
            (Ok(()), Some(mark)) => {
                self.store.written(batch, mark);
                self.failing.remove(&batch.service);
                self.recovered();
            }
            (result, mark) => {
                let reason = self.failed(result.err().unwrap_or_else(|| io::ErrorKind::NotFound.into()));
                self.failing.insert(batch.service.clone());
                self.store.not_written(batch, written.kept, mark, &reason);
                // It tells PID 1 what was lost.
                self.troubles.wake();
            }
        }
    }

    /// Tells once per change; gives the text.
    fn failed(&mut self, error: io::Error) -> String {
        let text = format!("{}: {}", self.files.directory().display(), plain(&error));
        if self.told.as_ref() != Some(&text) {
            self.told = Some(text.clone());
            self.troubles.tell(text.clone());
        }
        text
    }

    fn recovered(&mut self) {
        if self.wanted.is_none()
            && self.failing.is_empty()
            && (self.told.take().is_some() | self.told_wanted.take().is_some())
        {
            self.troubles.tell(format!("{}: log files are written again", self.files.directory().display()));
        }
    }

    /// Files are in `path` from now on; what is elsewhere moves along as far as it can.
    fn move_to(&mut self, path: PathBuf) {
        if let Err(error) = fs::create_dir_all(&path).and_then(|()| writable(&path)) {
            self.wants(path, &plain(&error));
            return;
        }
        let old = self.files.directory().to_path_buf();
        self.files = Files::new(path.clone());
        self.failing.clear();
        self.store.unmark(None);
        let mut sources = vec![old, self.fallback.clone()];
        sources.dedup();
        for source in sources.into_iter().filter(|source| !same(source, &path)) {
            self.move_files(&source);
        }
        self.store.moved_to(path);
        self.recovered();
    }

    /// Tells once why files are not where they should be.
    fn wants(&mut self, path: PathBuf, why: &str) {
        let text = format!("{}: {why}; logs stay in {}", path.display(), self.files.directory().display());
        if self.told_wanted.as_ref() != Some(&text) {
            self.told_wanted = Some(text.clone());
            self.troubles.tell(text);
        }
        self.wanted = Some((path, Instant::now()));
    }

    /// The file system became read-only under the files: they go on below the runtime folder, and move back when they
    /// can. Returns whether there is such a place.
    fn fall_back(&mut self, why: String) -> bool {
        let from = self.files.directory().to_path_buf();
        let there = fs::create_dir_all(&self.fallback).and_then(|()| writable(&self.fallback));
        if same(&from, &self.fallback) || there.is_err() {
            return false;
        }
        self.files = Files::new(self.fallback.clone());
        self.failing.clear();
        self.store.unmark(None);
        self.store.moved_to(self.fallback.clone());
        self.wants(from, &why);
        true
    }

    fn move_files(&mut self, source: &Path) {
        let Ok(entries) = fs::read_dir(source) else { return };
        let mut names: Vec<String> = Vec::new();
        for entry in entries.flatten() {
            if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_suffix(".log")) {
                names.push(name.to_owned());
            }
        }
        for name in names.into_iter().filter(|name| is_name(name)) {
            let numbers: Vec<u32> = (0..super::files::MOST_FILES)
                .take_while(|number| path_of(source, &name, *number).exists())
                .collect();
            for number in numbers.into_iter().rev() {
                if let Err(error) = self.move_file(&path_of(source, &name, number), &name.as_str().into()) {
                    self.troubles.tell(format!(
                        "the log of {name} could not be moved from {}: {}",
                        source.display(),
                        plain(&error)
                    ));
                    break;
                }
            }
        }
    }

    fn move_file(&mut self, from: &Path, service: &Arc<str>) -> io::Result<()> {
        // The sizes of a service that has not written in this incarnation are not known: nothing is rotated away.
        let limits =
            self.limits.get(service).copied().unwrap_or(Limits { max_size: u64::MAX, max_files: u32::MAX });
        let mut reader = BufReader::new(fs::File::open(from)?);
        let mut piece = Vec::new();
        loop {
            let read = reader.read_until(b'\n', &mut piece)?;
            if read > 0 && piece.last() != Some(&b'\n') {
                piece.push(b'\n');
            }
            if read == 0 || piece.len() >= PIECE {
                self.files.append(service, limits, &piece).result?;
                piece.clear();
            }
            if read == 0 {
                return fs::remove_file(from);
            }
        }
    }
}

/// Whether this is the error of a file system that is read-only, because the kernel made it so after an error
/// or an operator did.
fn is_read_only(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EROFS)
}

/// Whether both lead to the same directory.
fn same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => one == other,
    }
}

/// `No space left on device` without the number that Rust adds.
fn plain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}
