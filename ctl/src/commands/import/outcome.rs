//! What became of files: the service files, and what is not kept.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use kelson_import::{Beside, Fate, Finding, Translation};
use kelson_load::Json;
use serde_yaml::Value;

use crate::call::Call;
use crate::failure::Failure;
use crate::output::{Page, escape, views};

/// The largest file that is read, in bytes.
const MOST: u64 = 1 << 20;

/// A service of a file, and what became of it.
pub struct Imported {
    pub from: String,
    pub outcome: Result<Translation, String>,
}

views! {
    Beside: beside { service: beside.name, file: beside.file.file() }
    Finding: finding { section, key, file, line, fate: finding.fate.name(), sentence }
    Imported: imported {
        unit: imported.from,
        service: imported.outcome.as_ref().ok().map(|done| done.name.clone()),
        file: imported.outcome.as_ref().ok().map(|done| done.file.file()),
        beside: imported.outcome.as_ref().map(|done| done.beside.iter().map(beside).collect::<Vec<_>>()).unwrap_or_default(),
        error: imported.outcome.as_ref().err().cloned(),
        fate: imported.outcome.as_ref().map_or(Fate::Rejected, Translation::fate).name(),
        findings: imported.outcome.as_ref().map(|done| done.findings.iter().map(view).collect::<Vec<_>>()).unwrap_or_default(),
    }
}

fn view(finding: &Finding) -> Value {
    crate::output::View::view(finding)
}

fn beside(one: &Beside) -> Value {
    crate::output::View::view(one)
}

/// Shows the service files, or writes them into a folder, and tells what is not kept.
pub fn show(call: &Call, imported: &[Imported], out: Option<&Path>) -> Result<(), Failure> {
    let written = out.map(|folder| write(folder, imported)).transpose()?;
    let text = || written.unwrap_or_else(|| documents(imported));
    call.show(&imported.iter().map(crate::output::View::view).collect::<Vec<_>>(), || Page::Text(text()))?;
    if call.is_table() {
        for one in imported {
            tell(call, one);
        }
    }
    Ok(())
}

pub fn read(path: &Path) -> Result<String, String> {
    let of_path = |what: String| format!("{}: {what}", path.display());
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(of_path("this is a folder; name a file".to_owned())),
        Ok(found) if found.len() > MOST => {
            return Err(of_path("this is more than 1 MiB".to_owned()));
        }
        Ok(_) => {}
        Err(error) => return Err(of_path(error.to_string())),
    }
    let bytes = std::fs::read(path).map_err(|error| of_path(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| of_path("this is no UTF-8".to_owned()))
}

fn files(imported: &[Imported]) -> impl Iterator<Item = (&str, &Json)> {
    imported.iter().filter_map(|one| one.outcome.as_ref().ok()).flat_map(Translation::files)
}

/// The service files; of several, each behind its name.
fn documents(imported: &[Imported]) -> String {
    let done: Vec<(&str, &Json)> = files(imported).collect();
    match done.as_slice() {
        [(_, only)] => only.file(),
        several => several.iter().map(|(name, file)| format!("--- # {name}.yaml\n{}", file.file())).collect(),
    }
}

/// Writes the service files; none if one is there already.
fn write(folder: &Path, imported: &[Imported]) -> Result<String, Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let files: Vec<(PathBuf, String)> =
        files(imported).map(|(name, file)| (folder.join(format!("{name}.yaml")), file.file())).collect();
    let there = files.iter().find(|(path, _)| path.symlink_metadata().is_ok());
    let mut names: Vec<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| matches!(pair, [one, other] if one == other));
    if let Some(path) = there.map(|(path, _)| path.as_path()).or(twice.and_then(|pair| pair.first().copied()))
    {
        let path = path.display();
        return Err(Failure::Failed(format!(
            "{path} is there already, or two services have this name; nothing was written: remove it, or name another \
             folder with --out"
        )));
    }
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut text = String::new();
    for (path, content) in files {
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        made.and_then(|mut file| file.write_all(content.as_bytes())).map_err(|error| failed(&path, error))?;
        text += &format!("{} written\n", escape(&path.display().to_string()));
    }
    Ok(text)
}

/// What was not kept of a unit.
fn tell(call: &Call, imported: &Imported) {
    match &imported.outcome {
        Err(error) => call.note(&escape(error)),
        Ok(done) => note_losses(call, &done.findings),
    }
}

/// Notes the findings about what is not kept, for people.
pub fn note_losses(call: &Call, findings: &[Finding]) {
    for Finding { file, line, key, fate, sentence, .. } in findings {
        if call.is_table() && *fate != Fate::Kept {
            call.note(&escape(&format!("{file}:{line}: {key}: {}: {sentence}", fate.name())));
        }
    }
}

/// The end of the command; `what` is what files hold.
///
/// # Errors
/// If something is lost.
pub fn end(imported: &[Imported], what: &str) -> Result<(), Failure> {
    let fate = |one: &&Imported| one.outcome.as_ref().map_or(Fate::Rejected, Translation::fate);
    let lossy: Vec<&Imported> = imported.iter().filter(|one| fate(one) == Fate::Rejected).collect();
    match (lossy.as_slice(), imported.len()) {
        ([], _) => Ok(()),
        ([Imported { outcome: Err(_), .. }], 1) => Err(Failure::Reported),
        (_, 1) => Err(Failure::Failed(format!("the service file does not do all that the {what} asks for"))),
        (lossy, all) => {
            let count = lossy.len();
            Err(Failure::Failed(format!("{count} of {all} {what}s lose something, or are not translated")))
        }
    }
}
