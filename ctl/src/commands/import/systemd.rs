//! `import systemd`: service units, with their drop-ins.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use kelson_import::{Fate, Finding, Source, Translation, Unit};
use serde_yaml::Value;

use crate::call::Call;
use crate::failure::Failure;
use crate::output::{Page, escape, views};

/// The largest unit file that is read, in bytes.
const MOST: u64 = 1 << 20;

/// Translate service units of systemd
///
/// Drop-ins are read from the folder FILE.d beside each file, in the order of
/// their names; those of an instance also from NAME@INSTANCE.service.d. Standard
/// error tells what is not kept. The exit status is 1 if something is lost.
///
/// Examples:
///   kelsonctl import systemd /lib/systemd/system/redis-server.service
///   kelsonctl import systemd --instance 15-main postgresql@.service
///   kelsonctl import systemd --out /etc/kelson/services *.service
///   kelsonctl import systemd -o json web.service
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Unit files: NAME.service, or NAME@.service
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The instance of a template
    #[arg(long, value_name = "INSTANCE")]
    instance: Option<String>,
    /// What a specifier of the host stands for: H=edge-1
    #[arg(long = "specifier", value_name = "X=VALUE", value_parser = specifier)]
    specifiers: Vec<(char, String)>,
    /// Write NAME.yaml files into this folder, over none
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn specifier(text: &str) -> Result<(char, String), String> {
    let parts = text.split_once('=').and_then(|(name, value)| {
        let mut letters = name.chars();
        letters.next().filter(|_| letters.next().is_none()).map(|letter| (letter, value.to_owned()))
    });
    parts.ok_or_else(|| "write a letter and its value, such as H=edge-1".to_owned())
}

/// A file and what became of it.
struct Imported {
    unit: String,
    outcome: Result<Translation, String>,
}

views! {
    Finding: finding { section, key, file, line, fate: finding.fate.name(), sentence }
    Imported: imported {
        unit,
        service: imported.outcome.as_ref().ok().map(|done| done.name.clone()),
        file: imported.outcome.as_ref().ok().map(|done| done.file.file()),
        error: imported.outcome.as_ref().err().cloned(),
        fate: imported.outcome.as_ref().map_or(Fate::Rejected, Translation::fate).name(),
        findings: imported.outcome.as_ref().map(|done| done.findings.iter().map(view).collect::<Vec<_>>()).unwrap_or_default(),
    }
}

fn view(finding: &Finding) -> Value {
    crate::output::View::view(finding)
}

pub fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let Arguments { files, instance, specifiers, out } = arguments;
    let one = |path: &PathBuf| Imported {
        unit: path.display().to_string(),
        outcome: import(path, instance.as_deref(), &specifiers),
    };
    let imported: Vec<Imported> = files.iter().map(one).collect();
    let written = match &out {
        Some(folder) => Some(write(folder, &imported)?),
        None => None,
    };
    let text = || written.unwrap_or_else(|| documents(&imported));
    call.show(&imported.iter().map(crate::output::View::view).collect::<Vec<_>>(), || Page::Text(text()))?;
    if call.is_table() {
        for one in &imported {
            tell(call, one);
        }
    }
    end(&imported)
}

fn import(path: &Path, instance: Option<&str>, specifiers: &[(char, String)]) -> Result<Translation, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut files = vec![path.to_owned()];
    files.extend(drop_ins(path, &name, instance)?);
    let mut texts = Vec::with_capacity(files.len());
    for file in &files {
        texts.push((file.display().to_string(), read(file)?));
    }
    let sources = texts.iter().map(|(name, text)| Source { name, text }).collect();
    let unit = Unit { name: &name, instance, sources, specifiers: specifiers.to_vec() };
    kelson_import::service(&unit).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<String, String> {
    let of_path = |what: String| format!("{}: {what}", path.display());
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(of_path("this is a folder; name a unit file".to_owned())),
        Ok(found) if found.len() > MOST => {
            return Err(of_path("this is more than 1 MiB, and no unit file".to_owned()));
        }
        Ok(_) => {}
        Err(error) => return Err(of_path(error.to_string())),
    }
    let bytes = std::fs::read(path).map_err(|error| of_path(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| of_path("this is no UTF-8, and no unit file".to_owned()))
}

/// The drop-ins of a unit in the order of their names, whatever folder they are in. Of two of the same name that of the
/// instance counts.
fn drop_ins(path: &Path, name: &str, instance: Option<&str>) -> Result<Vec<PathBuf>, String> {
    let mut folders = vec![format!("{name}.d")];
    if let (Some(template), Some(instance)) = (name.strip_suffix("@.service"), instance) {
        folders.push(format!("{template}@{instance}.service.d"));
    }
    let mut found = std::collections::BTreeMap::<OsString, PathBuf>::new();
    for folder in folders {
        let folder = path.with_file_name(folder);
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(format!("{}: {error}", folder.display())),
        };
        for entry in entries.flatten() {
            if entry.path().extension().is_some_and(|end| end == "conf") {
                found.insert(entry.file_name(), entry.path());
            }
        }
    }
    Ok(found.into_values().collect())
}

/// The service files; of several, each behind its name.
fn documents(imported: &[Imported]) -> String {
    let done: Vec<&Translation> = imported.iter().filter_map(|one| one.outcome.as_ref().ok()).collect();
    match done.as_slice() {
        [only] => only.file.file(),
        several => {
            several.iter().map(|one| format!("--- # {}.yaml\n{}", one.name, one.file.file())).collect()
        }
    }
}

/// Writes the service files; none if one is there already.
fn write(folder: &Path, imported: &[Imported]) -> Result<String, Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let files: Vec<(PathBuf, String)> = imported
        .iter()
        .filter_map(|one| one.outcome.as_ref().ok())
        .map(|one| (folder.join(format!("{}.yaml", one.name)), one.file.file()))
        .collect();
    let there = files.iter().find(|(path, _)| path.symlink_metadata().is_ok());
    let mut names: Vec<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| matches!(pair, [one, other] if one == other));
    if let Some(path) = there.map(|(path, _)| path.as_path()).or(twice.and_then(|pair| pair.first().copied()))
    {
        let path = path.display();
        return Err(Failure::Failed(format!(
            "{path} is there already, or two units have this name; nothing was written: remove it, or name another \
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
        Ok(done) => {
            for finding in done.findings.iter().filter(|finding| finding.fate != Fate::Kept) {
                let Finding { file, line, key, fate, sentence, .. } = finding;
                call.note(&escape(&format!("{file}:{line}: {key}: {}: {sentence}", fate.name())));
            }
        }
    }
}

fn end(imported: &[Imported]) -> Result<(), Failure> {
    let fate = |one: &&Imported| one.outcome.as_ref().map_or(Fate::Rejected, Translation::fate);
    let lossy: Vec<&Imported> = imported.iter().filter(|one| fate(one) == Fate::Rejected).collect();
    match (lossy.as_slice(), imported.len()) {
        ([], _) => Ok(()),
        ([Imported { outcome: Err(_), .. }], 1) => Err(Failure::Reported),
        (_, 1) => Err(Failure::Failed("the service file does not do all that the unit asks for".to_owned())),
        (lossy, all) => {
            let count = lossy.len();
            Err(Failure::Failed(format!("{count} of {all} units lose something, or are not translated")))
        }
    }
}
