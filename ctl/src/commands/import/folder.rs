//! `import folder`: what a host reads from its configuration folder beside Kelson's own files.

use std::path::{Path, PathBuf};

use kelson_import::{Fate, Finding, PartUnit};
use kelson_spec::names::{COMPOSE, COMPOSE_FILES, TALOS, UNITS};

use super::outcome::{Imported, end, show};
use super::{compose, systemd, talos};
use crate::call::Call;
use crate::failure::Failure;
use crate::output::{Format, View};

/// Translate the files of other programs in a configuration folder
///
/// It translates what a host with this folder runs beside its service files: the
/// units of systemd in units/, the projects of Docker Compose in compose/, and
/// the files of Talos in talos/. A host takes what loses nothing. Standard error
/// tells what is not kept. The exit status is 1 if something is lost.
///
/// Examples:
///   kelsonctl import folder /etc/kelson
///   kelsonctl import folder --out /etc/kelson/services /etc/kelson
///   kelsonctl import folder -o json /etc/kelson
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The configuration folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write NAME.yaml files into this folder, over none
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let Arguments { folder, out } = arguments;
    if !folder.is_dir() {
        return Err(Failure::Failed(format!("{} is not a folder", folder.display())));
    }
    let imported = imported(&folder);
    show(call, &imported, out.as_deref())?;
    end(&imported, "file")
}

/// The same as JSON, for the reader of the folder.
///
/// # Errors
/// It is no JSON.
pub fn json(folder: &Path) -> Result<String, String> {
    let views: Vec<_> = imported(folder).iter().map(View::view).collect();
    Format::Json.document(&views).map_err(|failure| failure.to_string())
}

fn imported(folder: &Path) -> Vec<Imported> {
    let mut found = of_units(&folder.join(UNITS));
    found.extend(entries(&folder.join(COMPOSE)).iter().flat_map(|path| of_compose(path)));
    found.extend(of_talos(&entries(&folder.join(TALOS))));
    found
}

/// What is in a folder, by name; hidden files are passed over.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let hidden = |path: &PathBuf| systemd::file_name(path).starts_with('.');
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).filter(|path| !hidden(path)).collect();
    paths.sort_unstable();
    paths
}

fn failed(path: &Path, why: &str) -> Imported {
    let from = path.display().to_string();
    Imported { outcome: Err(format!("{from}: {why}")), from }
}

/// The units of a folder. Templates and masked units have no service, and folders are drop-ins.
fn of_units(folder: &Path) -> Vec<Imported> {
    let (mut units, mut others) = (Vec::new(), Vec::new());
    for path in entries(folder) {
        let name = systemd::file_name(&path);
        let is_template = name.rsplit_once('.').is_some_and(|(bare, _)| bare.ends_with('@'));
        let is_masked = path.metadata().is_ok_and(|found| found.len() == 0);
        if path.is_dir() || is_template || is_masked || is_alias(&path, &name) {
            continue;
        }
        match name.ends_with(".service") || PartUnit::is(&name) {
            true => units.push(path),
            false => others.push(failed(&path, "this is no service, socket, timer or path unit")),
        }
    }
    others.extend(systemd::units(units, None, &[]));
    others
}

/// Whether the file is another name of a unit of the folder: a link to that. A link to a template is an instance of it.
fn is_alias(path: &Path, name: &str) -> bool {
    let Ok(target) = std::fs::read_link(path) else { return false };
    let target = systemd::file_name(&target);
    let template = systemd::instance_of(name).map(|(template, _)| template);
    target != name && path.with_file_name(&target).exists() && Some(target) != template
}

/// The services of a project, which has a folder of its own.
fn of_compose(path: &Path) -> Vec<Imported> {
    let Some(file) = COMPOSE_FILES.map(|name| path.join(name)).into_iter().find(|file| file.exists()) else {
        let folder = COMPOSE_FILES.first().copied().unwrap_or_default();
        return vec![failed(path, &format!("a project of Docker Compose is a folder with a file {folder}"))];
    };
    match compose::import(&file, &[], None) {
        Ok(project) => {
            let from = file.display().to_string();
            let services = project.services.into_iter();
            let mut found: Vec<Imported> =
                services.map(|done| Imported { from: from.clone(), outcome: Ok(done) }).collect();
            found.extend(losses(&file, &project.findings));
            found
        }
        Err(why) => vec![Imported { from: file.display().to_string(), outcome: Err(why) }],
    }
}

fn of_talos(paths: &[PathBuf]) -> Vec<Imported> {
    let talos::Documents { mut imported, files, findings } =
        talos::documents(paths, Path::new(talos::FOLDER));
    for path in paths {
        imported.extend(losses(path, &findings));
    }
    // Where they are written, they are read.
    for file in files.iter().filter(|file| !file.path.exists()) {
        let why = "a configuration document holds this file, which is not there; `kelsonctl import talos --files` writes it";
        imported.push(failed(&file.path, why));
    }
    imported
}

/// What is lost of a file as a whole.
fn losses(path: &Path, findings: &[Finding]) -> Vec<Imported> {
    let name = path.display().to_string();
    let of_it = findings.iter().filter(|one| one.file == name && one.fate == Fate::Rejected);
    of_it.map(|one| failed(path, &format!("{}: {}", one.key, one.sentence))).collect()
}
