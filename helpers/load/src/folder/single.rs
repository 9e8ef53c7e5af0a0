//! One file, for its author: as a part of its folder, or by itself.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Reading, load_with};
use crate::files;
use crate::grammar;
use crate::parser;
use crate::read;
use crate::schema::Mapping;
use crate::sources::Sources;
use kelson_spec::loaded::{Diagnostic, Unchecked};
use kelson_spec::names::{GROUPS, MACHINE, OF_OTHER_PROGRAMS, SERVICES, TALOS, UNITS, VOLUMES};

/// The subject of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Service,
    Group,
    Machine,
    Volume,
}

impl FileKind {
    const ALL: [FileKind; 4] = [FileKind::Service, FileKind::Group, FileKind::Machine, FileKind::Volume];

    fn mapping(self) -> Mapping {
        match self {
            FileKind::Service => files::service(),
            FileKind::Group => files::group(),
            FileKind::Machine => files::machine(),
            FileKind::Volume => files::volume(),
        }
    }

    /// The word for such a file.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Service => "service",
            FileKind::Group => "group",
            FileKind::Machine => "machine",
            FileKind::Volume => "volume",
        }
    }
}

/// The mistakes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    pub kind: FileKind,
    /// It lies in a configuration folder, so what it says of other files was looked at too.
    pub in_folder: bool,
    pub diagnostics: Vec<Diagnostic>,
    pub warnings: Vec<Diagnostic>,
    /// The facts that were not checked in it, or in its folder.
    pub unchecked: BTreeSet<Unchecked>,
}

/// Whether the folder has what a configuration folder has.
pub fn is_configuration(folder: &Path) -> bool {
    let folders = [SERVICES, GROUPS, VOLUMES].into_iter().chain(OF_OTHER_PROGRAMS);
    folder.join(MACHINE).exists() || folders.into_iter().any(|name| folder.join(name).is_dir())
}

/// Reads one file. In `services`, `groups`, `volumes`, `units` or `talos`, or called machine.yaml, it is a part of its configuration
/// folder. Elsewhere it is what it is without a mistake, or else what its keys make it look like.
pub fn load_file(path: &Path, sources: &Sources) -> LoadedFile {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = |name: &str| absolute.parent().filter(|folder| folder.ends_with(name))?.parent();
    let translated = above(UNITS).or(above(TALOS));
    let place = match (above(SERVICES).or(translated), above(GROUPS), above(VOLUMES)) {
        (Some(folder), ..) => Some((FileKind::Service, folder)),
        (_, Some(folder), _) => Some((FileKind::Group, folder)),
        (.., Some(folder)) => Some((FileKind::Volume, folder)),
        _ if absolute.ends_with(MACHINE) => absolute.parent().map(|folder| (FileKind::Machine, folder)),
        _ => None,
    };
    let mut file = match place {
        _ if !is_read(path) && translated.is_none() => {
            let mut reading = Reading::new(sources);
            reading.note(path, None, "this file is not read; its name must end in .yaml".to_owned());
            LoadedFile {
                kind: place.map_or(FileKind::Service, |(kind, _)| kind),
                in_folder: place.is_some(),
                diagnostics: reading.diagnostics,
                warnings: Vec::new(),
                unchecked: BTreeSet::new(),
            }
        }
        Some((kind, folder)) => {
            let loaded = load_with(folder, sources);
            let of_it =
                |found: Vec<Diagnostic>| found.into_iter().filter(|one| one.file == absolute).collect();
            LoadedFile {
                kind,
                in_folder: true,
                diagnostics: of_it(loaded.diagnostics),
                warnings: of_it(loaded.warnings),
                unchecked: loaded.unchecked,
            }
        }
        None => {
            let (path, sources) = (path.to_owned(), sources.clone());
            parser::guarded(move || {
                let mut each = FileKind::ALL.into_iter().map(|kind| alone(&path, kind, &sources));
                let good = each.find(|file| file.diagnostics.is_empty());
                good.unwrap_or_else(|| alone(&path, likely_kind(&path), &sources))
            })
        }
    };
    file.diagnostics.iter_mut().chain(&mut file.warnings).for_each(|found| found.file = path.to_owned());
    file
}

/// The kind that knows most of the keys at the beginning of lines.
fn likely_kind(path: &Path) -> FileKind {
    let text = read::utf8(path, read::MAX_FILE).unwrap_or_default();
    let keys: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let known =
        |known: Mapping| keys.iter().filter(|name| known.keys.iter().any(|key| key.name == **name)).count();
    let kinds = FileKind::ALL.into_iter().rev();
    kinds.max_by_key(|kind| known(kind.mapping())).unwrap_or(FileKind::Service)
}

/// Hidden files and others are passed over.
fn is_read(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with('.') && read::is_yaml(&name)
}

fn alone(path: &Path, kind: FileKind, sources: &Sources) -> LoadedFile {
    let mut reading = Reading::new(sources);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match kind {
        FileKind::Service => reading.service_file(&grammar::service_file(), path, &stem),
        FileKind::Group => {
            reading.file(path, None, |d, root, _| grammar::group(d, &stem, root?));
        }
        FileKind::Volume => drop(reading.volume_file(path, &stem)),
        FileKind::Machine => {
            reading.file(path, None, |d, root, _| {
                Some(grammar::machine(d, root?, sources.mode.machine_defaults()))
            });
        }
    }
    let unchecked = reading.context.unchecked();
    LoadedFile {
        kind,
        in_folder: false,
        diagnostics: reading.diagnostics,
        warnings: reading.warnings,
        unchecked,
    }
}
