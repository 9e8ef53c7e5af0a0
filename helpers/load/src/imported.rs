//! Files of other programs in a configuration folder, as `kelsonctl import folder` translates them.
//!
//! The reader runs `kelsonctl` for it, on hosts that have such files. So the program of PID 1 does not have to contain the
//! importer.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use kelson_spec::names::{COMPOSE, COMPOSE_FILES, COMPOSE_VARIABLES, DEFAULT_PATH, TALOS, UNITS};
use kelson_spec::quote::error_text;
use serde::Deserialize;

use crate::read;

/// Translates what a folder has, into the JSON of `kelsonctl import folder`.
pub type Importer = fn(&Path) -> Result<String, String>;

/// The longest time of a translation. A host whose disk does not answer then starts the services of its service files.
const LIMIT: Duration = Duration::from_secs(20);
/// The longest translation that is read, in bytes.
const MOST: u64 = 16 << 20;
const PROGRAM: &str = "kelsonctl";
const UNIT_KINDS: [&str; 4] = [".service", ".socket", ".timer", ".path"];

/// A service of a file, as `kelsonctl import folder` has it.
#[derive(Debug, Deserialize)]
pub struct Imported {
    #[serde(rename = "unit")]
    pub from: PathBuf,
    pub service: Option<String>,
    /// The service file.
    pub file: Option<String>,
    /// Further services that it becomes.
    pub beside: Vec<Beside>,
    pub error: Option<String>,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
pub struct Beside {
    pub service: String,
    pub file: String,
}

/// What became of a key.
#[derive(Debug, Deserialize)]
pub struct Finding {
    pub key: String,
    pub file: PathBuf,
    pub line: u32,
    pub fate: Fate,
    pub sentence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    Kept,
    Approximated,
    Rejected,
}

/// Whether a file of this name in such a folder is read: `NAME.service` or `NAME.service.d/NAME.conf` in `units`,
/// `PROJECT/compose.yaml` in `compose`, `NAME.yaml` in `talos`.
pub fn is_read(folder: &str, name: &str) -> bool {
    let ends = |name: &str, ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    match (folder, name.split_once('/')) {
        (UNITS, None) => ends(name, &UNIT_KINDS),
        (UNITS, Some((folder, file))) => {
            folder.strip_suffix(".d").is_some_and(|unit| ends(&format!(".{unit}"), &UNIT_KINDS))
                && file.ends_with(".conf")
        }
        (COMPOSE, Some((_, file))) => COMPOSE_FILES.contains(&file) || file == COMPOSE_VARIABLES,
        (TALOS, None) => read::is_yaml(name),
        _ => false,
    }
}

/// Reads a translation.
///
/// # Errors
/// The importer failed, or its answer is not the JSON of this release.
pub fn translation(importer: Importer, config: &Path) -> Result<Vec<Imported>, String> {
    serde_json::from_str(&importer(config)?).map_err(|error| {
        format!("the answer of {PROGRAM} cannot be read ({error}); install the {PROGRAM} of this release")
    })
}

/// Runs `kelsonctl import folder`.
///
/// # Errors
/// `kelsonctl` is not installed, or gives no answer.
pub fn by_client(config: &Path) -> Result<String, String> {
    by_client_in(DEFAULT_PATH, config)
}

fn by_client_in(path: &str, config: &Path) -> Result<String, String> {
    let mut places = path.split(':').map(|folder| Path::new(folder).join(PROGRAM));
    let program = places.find(|path| path.is_file()).ok_or_else(|| {
        format!(
            "{PROGRAM}, which translates the files here, is not in {path}; install it, or put service files in their place"
        )
    })?;
    let mut command = Command::new(&program);
    command.args(["import", "folder", "--output", "json", "--"]).arg(config).env_clear();
    let output = output_of(command, LIMIT).map_err(|why| format!("{}: {why}", program.display()))?;
    String::from_utf8(output).map_err(|_| format!("{}: its answer is no text", program.display()))
}

/// What a program writes to its standard output until it ends.
fn output_of(mut command: Command, limit: Duration) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error_text(&error).to_string();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
    let output = child.stdout.take().ok_or("it has no output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.take(MOST).read_to_end(&mut bytes);
        // Where the limit has passed nobody listens.
        let _ = sender.send(read.map(|_| bytes));
    });
    let read = receiver.recv_timeout(limit);
    // It has nothing more to say.
    let _ = child.kill();
    match read {
        Ok(read) => {
            let _ = child.wait();
            read.map_err(failed)
        }
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_programs_have_their_names() {
        for (folder, name) in [
            ("units", "web.service"),
            ("units", "web@a.service"),
            ("units", "web.service.d/10-memory.conf"),
            ("units", "service.d/all.conf"),
            ("units", "web.socket"),
            ("compose", "shop/compose.yaml"),
            ("compose", "shop/.env"),
            ("talos", "ups.yaml"),
        ] {
            assert!(is_read(folder, name), "{folder}/{name}");
        }
        for (folder, name) in [
            ("units", "web.mount"),
            ("units", "multi-user.target.wants/web.service"),
            ("units", "web.service.d/note.txt"),
            ("units", "web.mount.d/a.conf"),
            ("compose", "compose.yaml"),
            ("compose", "shop/data.yaml"),
            ("talos", "a/b.yaml"),
            ("services", "web.service"),
        ] {
            assert!(!is_read(folder, name), "{folder}/{name}");
        }
    }

    #[test]
    fn a_program_that_hangs_or_fails_costs_its_time_alone() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let minute = Duration::from_secs(60);
        assert_eq!(output_of(shell("echo '[]'; exit 1"), minute), Ok(b"[]\n".to_vec()));
        assert_eq!(
            output_of(shell("exec sleep 1000"), Duration::ZERO),
            Err("no answer within 0 s".to_owned())
        );
        let missing = output_of(Command::new("/nowhere/kelsonctl"), minute);
        assert_eq!(missing, Err("No such file or directory".to_owned()));
    }

    #[test]
    fn a_client_that_is_not_installed_is_named_with_its_places() {
        let error = by_client_in("/nowhere:/none", Path::new("/etc/kelson")).unwrap_err();
        assert!(error.contains("is not in /nowhere:/none; install it"), "{error}");
    }

    #[test]
    fn an_answer_that_is_none_names_the_release() {
        let wrong: Importer = |_| Ok("[{}]".to_owned());
        let error = translation(wrong, Path::new("/etc/kelson")).unwrap_err();
        assert!(error.starts_with("the answer of kelsonctl cannot be read (missing field"), "{error}");
    }
}
