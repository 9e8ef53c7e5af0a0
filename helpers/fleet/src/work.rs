//! Renders templates and looks at their files, beside the loop: a disk may hang.
//!
//! Texts are kept in the runtime folder, each in a file that is replaced whole. `kelson-task` gives them to services, as this
//! process may not write elsewhere.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_spec::templates;
use kelson_sys::replace;
use nix::fcntl::OFlag;
use tokio::task::JoinHandle;

use crate::attempt::Attempt;
use crate::template::{Known, LONGEST, Outcome, Rendered, render};

/// What tells a file from another version of it. `None`: there is none.
pub type Stamp = Option<(u64, u64, i64, i64)>;

/// What was done.
pub enum Done {
    Rendered {
        source: String,
        /// `None`: it could not be read.
        names: Option<BTreeSet<String>>,
        outcome: Outcome,
        has_text: bool,
        is_new: bool,
        /// Of the file that was read.
        stamp: Stamp,
    },
    Looked(Vec<(String, Stamp)>),
}

/// One at a time, so that a hanging disk holds one thread.
#[derive(Default)]
pub struct Work(Option<JoinHandle<Done>>);

impl Work {
    pub fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    pub fn render(&mut self, runtime: PathBuf, source: String, known: Arc<Known>) {
        self.0 = Some(tokio::task::spawn_blocking(move || rendered(&runtime, source, known)));
    }

    pub fn look(&mut self, sources: Vec<String>) {
        let look = move || {
            Done::Looked(sources.into_iter().map(|source| (source.clone(), stamp(&source))).collect())
        };
        self.0 = Some(tokio::task::spawn_blocking(look));
    }

    /// What was done; `None`: nothing, as a task has panicked. Without a loss when it is dropped.
    pub async fn done(&mut self) -> Option<Done> {
        let Some(handle) = &mut self.0 else { return std::future::pending().await };
        let done = handle.await;
        self.0 = None;
        done.ok()
    }
}

fn stamp(source: &str) -> Stamp {
    let found = fs::metadata(source).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

fn rendered(runtime: &Path, source: String, known: Arc<Known>) -> Done {
    let path = templates::rendered(runtime, Path::new(&source));
    let (before, stamp) = (fs::read(&path).ok(), stamp(&source));
    let unwritten = |error: io::Error| format!("{}: {error}", path.display());
    let begun = read(&source).and_then(|text| {
        make_folder(&path).map_err(unwritten)?;
        Ok((text, Attempt::begin(&path, &format!("{stamp:?}"))?))
    });
    let (names, outcome) = match begun {
        Ok((text, attempt)) => {
            let Rendered { names, outcome } = render(&text, known);
            drop(attempt);
            (Some(names), outcome)
        }
        Err(problem) => (None, Outcome::Problem(problem)),
    };
    let is_new = matches!(&outcome, Outcome::Text(text) if before.as_deref() != Some(text.as_bytes()));
    let (outcome, is_new) = match &outcome {
        Outcome::Text(text) if is_new => match write(&path, text) {
            Ok(()) => (outcome, true),
            Err(error) => (Outcome::Problem(unwritten(error)), false),
        },
        _ => (outcome, false),
    };
    Done::Rendered { source, names, outcome, has_text: is_new || before.is_some(), is_new, stamp }
}

fn read(source: &str) -> Result<String, String> {
    match read_all(source) {
        Ok(bytes) if bytes.len() > LONGEST => Err(format!("it is longer than {LONGEST} bytes")),
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err("there is no such file".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn read_all(source: &str) -> io::Result<Vec<u8>> {
    // A pipe would never end.
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(source)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take((LONGEST as u64).saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes the folder of a file, for this user alone.
fn make_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    // No source has such a name, which begins with `!`.
    replace(path, &path.with_file_name("new"), 0o600, text.as_bytes())
}
