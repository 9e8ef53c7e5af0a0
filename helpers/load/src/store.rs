//! The configurations that were applied from outside, in a folder of the host's state.
//!
//! ```text
//! config/7/           the files of generation 7, and .about: who applied it, when and why
//! config/current      a link to the one in force; without it, the host's own folder (/etc/kelson) is
//! config/pending      the one on trial, and the one before: the next boot returns to that
//! ```
//!
//! A generation is whole before its folder has its number, and `current` is replaced in one step: a power cut
//! leaves the old configuration in force or the new one. Names that begin with a dot are leftovers of a write that was
//! broken off, and the next write removes them.

mod disk;
mod files;
mod kept;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use kelson_spec::applied::{Answer, CURRENT, Change, Generation, Question, Source, TreeFile};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::loaded::{Diagnostic, Loaded};
use kelson_spec::quote::error_text;
use kelson_spec::sources::{self, SourcesSpec};
use kelson_sys::ordered;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::folder::load_with;
use crate::sources::Sources;
use disk::Disk;
pub use files::{TREE_MAX, name_mistake, read_tree};

/// How many are kept.
const MOST: usize = 10;
/// The file of a generation that says who applied it, when and why.
const ABOUT: &str = ".about";
/// The file of a generation that the host has left because nobody confirmed it.
const REVERTED: &str = ".reverted";
const PENDING: &str = "pending";

/// The one on trial, and the one to which the host returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Pending {
    generation: Generation,
    before: Generation,
}

/// The configurations of a host.
pub struct Store {
    folder: PathBuf,
    /// The configuration folder of the host itself: generation 0.
    own: PathBuf,
    sources: Sources,
    disk: Disk,
}

impl Store {
    pub fn new(folder: &Path, own: &Path, sources: &Sources) -> Store {
        let (folder, own) = (folder.to_owned(), own.to_owned());
        Store { folder, own, sources: sources.clone(), disk: Disk::default() }
    }

    /// Answers a question of PID 1.
    pub fn answer(&self, question: Question) -> Answer {
        if let Question::Apply(_) = &question
            && let Err(error) = self.disk.make_folders(&self.folder)
        {
            return Answer::Refused(self.failed(&error));
        }
        let _lock = self.lock();
        let answered = match question {
            Question::Apply(change) => self.apply(change),
            Question::Confirm => self.settle().map(|()| Answer::Settled).map_err(|error| self.failed(&error)),
            Question::Revert => self.revert(),
            Question::Get { generation, sources } => self.get(generation, sources),
            Question::History => {
                let trial = self.pending().map(|pending| (pending.generation, pending.before));
                Ok(Answer::History { kept: self.history(), trial })
            }
        };
        answered.unwrap_or_else(Answer::Refused)
    }

    /// Waits until no other process is at work here: one that an earlier incarnation of PID 1 has asked may still write.
    fn lock(&self) -> Option<Flock<File>> {
        // Without the folder there is nothing to read; where it cannot be locked, each file is still whole.
        Flock::lock(File::open(&self.folder).ok()?, FlockArg::LockExclusive).ok()
    }

    /// The generation in force.
    fn current(&self) -> Generation {
        let target = fs::read_link(self.folder.join(CURRENT)).ok();
        target.and_then(|target| target.to_str()?.parse().ok()).unwrap_or(0)
    }

    /// Reads the generation in force, whose files are named below `named`.
    pub fn load(&self, named: &Path) -> Loaded {
        let _lock = self.lock();
        self.load_current(named)
    }

    fn load_current(&self, named: &Path) -> Loaded {
        let mut loaded = self.load_generation(self.current(), named);
        if let Some(generation) = loaded.generation {
            let message = format!(
                "the files here are not read: generation {generation}, which was applied, is in force; `kelsonctl \
                 rollback 0` returns to them"
            );
            loaded.warnings.push(whole(&self.own, message));
        }
        loaded
    }

    /// Whether something was applied, and is in force or on trial.
    pub fn is_used(&self) -> bool {
        self.current() != 0 || self.pending().is_some()
    }

    /// As [`Self::load`], at the boot: what was on trial has not been confirmed, and the host returns to the one before.
    pub fn load_at_boot(&self, named: &Path) -> Loaded {
        let _lock = self.lock();
        let Some(pending) = self.pending() else { return self.load_current(named) };
        let settled = self.return_to(pending);
        let mut loaded = self.load_generation(pending.before, named);
        let message = match settled {
            Ok(()) => format!(
                "generation {} was not confirmed before this boot, and generation {} is in force again",
                pending.generation, pending.before
            ),
            Err(error) => {
                format!("generation {} was not confirmed: {}", pending.generation, self.failed(&error))
            }
        };
        loaded.warnings.push(whole(&self.folder, message));
        loaded
    }

    fn load_generation(&self, generation: Generation, named: &Path) -> Loaded {
        let folder = self.folder.join(generation.to_string());
        if generation == 0 {
            return load_with(&self.own, &self.sources);
        }
        if !folder.is_dir() {
            let mut loaded = load_with(&self.own, &self.sources);
            let message =
                format!("generation {generation} is gone, so the files of the host itself are read");
            // Not a folder's: what was read instead is known.
            loaded.warnings.push(whole(&folder, message));
            return loaded;
        }
        self.load_folder(&folder, generation, named)
    }

    fn load_folder(&self, folder: &Path, generation: Generation, named: &Path) -> Loaded {
        let mut loaded = load_with(folder, &self.sources);
        let named = named.join(CURRENT);
        let files = loaded.services.iter_mut().map(|spec| &mut spec.file);
        let found = loaded.diagnostics.iter_mut().chain(&mut loaded.warnings).map(|found| &mut found.file);
        for file in files.chain(found) {
            if let Ok(name) = file.strip_prefix(folder) {
                *file = named.join(name);
            }
        }
        loaded.generation = Some(generation);
        loaded
    }

    fn apply(&self, change: Change) -> Result<Answer, String> {
        let before = self.current();
        if let Some(base) = change.base.filter(|base| *base != before) {
            return Err(self.overtaken(base, before));
        }
        let files = match change.source {
            Source::Files(files) => files,
            Source::Generation(0) => {
                let loaded = Box::new(load_with(&self.own, &self.sources));
                let done = change.dry_run || !loaded.diagnostics.is_empty();
                let now = if done { before } else { 0 };
                if now != before {
                    self.switch(before, now, change.on_trial).map_err(|error| self.failed(&error))?;
                }
                return Ok(Answer::Applied { before, now, loaded });
            }
            Source::Generation(generation) => self.files(generation)?,
        };
        files::check(&files)?;
        if before != 0 && self.files(before).is_ok_and(|old| files::same(&old, &files)) {
            let loaded = Box::new(self.load_generation(before, &self.folder));
            return Ok(Answer::Applied { before, now: before, loaded });
        }
        let staged = self.folder.join(format!(".new-{}", std::process::id()));
        let result = self.stage(&staged, &files).map_err(|error| self.failed(&error)).and_then(|()| {
            let next = self.numbers().last().copied().unwrap_or(0).saturating_add(1);
            let loaded = Box::new(self.load_folder(&staged, next, &self.folder));
            if change.dry_run || !loaded.diagnostics.is_empty() {
                return Ok(Answer::Applied { before, now: before, loaded });
            }
            let about = serde_json::to_vec(&change.about).map_err(|error| error.to_string())?;
            let kept = self.keep(&staged, &files, &about, next);
            let switched = kept.and_then(|()| self.switch(before, next, change.on_trial));
            switched.map_err(|error| self.failed(&error))?;
            self.prune(&[before, next]);
            Ok(Answer::Applied { before, now: next, loaded })
        });
        self.sweep();
        result
    }

    /// Writes the files to a folder of their own, so that they can be read.
    fn stage(&self, staged: &Path, files: &[TreeFile]) -> io::Result<()> {
        self.sweep();
        self.disk.make_folders(staged)?;
        for file in files {
            let path = staged.join(&file.name);
            if let Some(parent) = path.parent() {
                self.disk.make_folders(parent)?;
            }
            self.disk.write(&path, &file.content)?;
        }
        Ok(())
    }

    /// Brings all of it to the disk, and then gives it its number.
    fn keep(
        &self,
        staged: &Path,
        files: &[TreeFile],
        about: &[u8],
        generation: Generation,
    ) -> io::Result<()> {
        self.disk.write(&staged.join(ABOUT), about)?;
        let paths = files.iter().map(|file| staged.join(&file.name)).chain([staged.join(ABOUT)]);
        for path in paths {
            self.disk.sync(&path)?;
        }
        let mut folders: Vec<PathBuf> = files
            .iter()
            .flat_map(|file| Path::new(&file.name).ancestors().skip(1))
            .map(|name| staged.join(name))
            .collect();
        ordered::sort(&mut folders);
        folders.dedup();
        for folder in &folders {
            self.disk.sync(folder)?;
        }
        self.disk.rename(staged, &self.folder.join(generation.to_string()))?;
        // The first one has made the folder, and perhaps that of the state too.
        self.folder
            .ancestors()
            .take(3)
            .filter(|folder| folder.is_dir())
            .try_for_each(|folder| self.disk.sync(folder))
    }

    /// Puts a generation in force.
    fn switch(&self, before: Generation, now: Generation, on_trial: bool) -> io::Result<()> {
        match on_trial {
            true => {
                let pending = Pending { generation: now, before };
                let half = self.folder.join(".pending");
                self.disk.write(&half, &serde_json::to_vec(&pending)?)?;
                self.disk.sync(&half)?;
                self.disk.rename(&half, &self.folder.join(PENDING))?;
                self.disk.sync(&self.folder)?;
            }
            false => self.settle()?,
        }
        self.point_to(now)
    }

    fn point_to(&self, generation: Generation) -> io::Result<()> {
        let current = self.folder.join(CURRENT);
        if generation == 0 {
            self.disk.remove(&current)?;
        } else {
            let half = self.folder.join(".current");
            self.disk.remove(&half)?;
            self.disk.link(&generation.to_string(), &half)?;
            self.disk.rename(&half, &current)?;
        }
        self.disk.sync(&self.folder)
    }

    /// Nothing is on trial any more.
    fn settle(&self) -> io::Result<()> {
        let pending = self.folder.join(PENDING);
        if pending.symlink_metadata().is_err() {
            return Ok(());
        }
        self.disk.remove(&pending)?;
        self.disk.sync(&self.folder)
    }

    fn pending(&self) -> Option<Pending> {
        serde_json::from_slice(&fs::read(self.folder.join(PENDING)).ok()?).ok()
    }

    fn return_to(&self, pending: Pending) -> io::Result<()> {
        let left = self.folder.join(pending.generation.to_string());
        if pending.generation != 0 && left.is_dir() {
            // For the history alone: it may be missing.
            let _ = self.disk.write(&left.join(REVERTED), b"");
        }
        self.point_to(pending.before)?;
        self.settle()
    }

    fn revert(&self) -> Result<Answer, String> {
        let Some(pending) = self.pending() else { return Ok(Answer::Settled) };
        self.return_to(pending).map_err(|error| self.failed(&error))?;
        let loaded = Box::new(self.load_generation(pending.before, &self.folder));
        Ok(Answer::Applied { before: pending.generation, now: pending.before, loaded })
    }

    fn get(&self, wanted: Option<Generation>, sources: bool) -> Result<Answer, String> {
        let generation = wanted.unwrap_or_else(|| self.current());
        let mut files = self.files(generation)?;
        if sources {
            files.extend(self.files_of_sources(generation)?);
        }
        Ok(Answer::Files { generation, files })
    }

    /// The files of the sources that a generation is overridden by.
    fn files_of_sources(&self, generation: Generation) -> Result<Vec<TreeFile>, String> {
        let mut files = Vec::new();
        let Some(layers) = self.sources.layers.as_deref().filter(|_| const { OWN.has(Feature::Sources) })
        else {
            return Ok(files);
        };
        let loaded = self.load_generation(generation, &self.folder);
        let kinds = loaded.machine.sources.iter().flat_map(SourcesSpec::kinds);
        for kind in kinds.filter(|kind| !loaded.skipped.contains(kind)) {
            let layer = layers.join(kind.name());
            if !layer.is_dir() {
                continue;
            }
            let place = |file: TreeFile| TreeFile {
                name: format!("{}/{}/{}", sources::FOLDER, kind.name(), file.name),
                ..file
            };
            files.extend(read_tree(&layer)?.into_iter().map(place));
        }
        Ok(files)
    }

    fn files(&self, generation: Generation) -> Result<Vec<TreeFile>, String> {
        let folder = match generation {
            0 => self.own.clone(),
            _ => self.folder.join(generation.to_string()),
        };
        if generation != 0 && !folder.is_dir() {
            let kept: Vec<String> = self.numbers().iter().map(ToString::to_string).collect();
            return Err(format!(
                "there is no generation {generation}; the host keeps 0{}{}",
                if kept.is_empty() { "" } else { ", " },
                kept.join(", ")
            ));
        }
        read_tree(&folder)
    }

    fn failed(&self, error: &io::Error) -> String {
        let folder = self.folder.display();
        let why = error_text(error);
        format!(
            "{folder} cannot be written: {why}; a configuration is kept there, on a disk that is writable"
        )
    }

    fn overtaken(&self, base: Generation, now: Generation) -> String {
        let by = match self.about(now) {
            Some(about) => format!(" (applied by {})", about.author),
            None => String::new(),
        };
        format!(
            "generation {now}{by} is in force and not {base}, which this change is based on; look at it with \
             `kelsonctl diff` and apply again"
        )
    }
}

fn whole(file: &Path, message: String) -> Diagnostic {
    Diagnostic { file: file.to_owned(), line: 0, column: 0, service: None, message }
}

#[cfg(test)]
mod tests;
