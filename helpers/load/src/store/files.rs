//! The files of a configuration as a tree: read from a folder, and checked before they are written to one.

use kelson_sys::ordered;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use kelson_spec::applied::TreeFile;
use kelson_spec::names::{
    COMPOSE, COMPOSE_VARIABLES, GROUPS, MACHINE, OF_OTHER_PROGRAMS, SERVICES, TALOS, UNITS, VOLUMES,
};
use kelson_spec::quote::{error_text, quoted};

use crate::{imported, read};

/// The most that a configuration may hold, in bytes. A request of the API holds a little more.
pub const TREE_MAX: usize = 1_000_000;
/// The most files of a configuration.
const FILES_MAX: usize = 5000;
/// The longest name of a file, in bytes (`NAME_MAX`).
const NAME_MAX: usize = 255;

/// Why a file of this name is none of a configuration; `None`: it is one.
pub fn name_mistake(name: &str) -> Option<String> {
    let sound = match name.split_once('/') {
        None => name == MACHINE || name == "machine.yml",
        Some((folder, file)) => is_file_of(folder, file),
    };
    (!sound).then(|| {
        format!(
            "{} is no file of a configuration; those are {MACHINE}, {SERVICES}/NAME.yaml, {GROUPS}/NAME.yaml, {VOLUMES}/NAME.yaml, \
             and in {UNITS}/, {COMPOSE}/ and {TALOS}/ what `kelsonctl import folder` reads",
            quoted(name)
        )
    })
}

/// Whether a file of this name in a folder of a configuration is read, or named as a mistake.
fn is_file_of(folder: &str, file: &str) -> bool {
    let plain = |part: &str| {
        (!part.starts_with('.') || part == COMPOSE_VARIABLES)
            && part.len() <= NAME_MAX
            && !part.contains(|c: char| c == '/' || c.is_control())
    };
    match file.split_once('/') {
        None if [SERVICES, GROUPS, VOLUMES].contains(&folder) => plain(file) && read::is_yaml(file),
        None => plain(file) && imported::is_read(folder, file),
        Some((inner, name)) => plain(inner) && plain(name) && imported::is_read(folder, file),
    }
}

/// Refuses what can be no configuration.
pub fn check(files: &[TreeFile]) -> Result<(), String> {
    if let Some(mistake) = files.iter().find_map(|file| name_mistake(&file.name)) {
        return Err(mistake);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = files.iter().find(|file| !names.insert(file.name.as_str())) {
        return Err(format!("{} is there twice", quoted(&twice.name)));
    }
    if files.is_empty() {
        return Err("the configuration has no file; to run nothing, apply an empty services folder with a \
                    machine.yaml"
            .to_owned());
    }
    bounded(files)
}

fn bounded(files: &[TreeFile]) -> Result<(), String> {
    if files.len() > FILES_MAX {
        return Err(format!("the configuration has {} files; it may have {FILES_MAX}", files.len()));
    }
    let size = files.iter().fold(0_usize, |sum, file| sum.saturating_add(file.content.len()));
    if size > TREE_MAX {
        return Err(format!("the configuration has {size} bytes; it may have {TREE_MAX}"));
    }
    Ok(())
}

/// Whether both are the same configuration. The order does not matter.
pub fn same(one: &[TreeFile], other: &[TreeFile]) -> bool {
    let sorted = |files: &[TreeFile]| {
        let mut files: Vec<TreeFile> = files.to_vec();
        ordered::sort_by(&mut files, |one, other| one.name.cmp(&other.name));
        files
    };
    one.len() == other.len() && sorted(one) == sorted(other)
}

/// The files of a folder such as `/etc/kelson` that belong to a configuration, by name.
///
/// # Errors
/// A sentence: what cannot be read, or is too much.
pub fn read_tree(folder: &Path) -> Result<Vec<TreeFile>, String> {
    let failed =
        |path: &Path, error: &io::Error| format!("{} cannot be read: {}", path.display(), error_text(error));
    fs::metadata(folder).map_err(|error| failed(folder, &error))?;
    let mut names = vec![MACHINE.to_owned(), "machine.yml".to_owned()];
    for part in [GROUPS, SERVICES, VOLUMES].into_iter().chain(OF_OTHER_PROGRAMS) {
        let path = folder.join(part);
        for file in names_in(&path).map_err(|error| failed(&path, &error))? {
            let inner = path.join(&file);
            if OF_OTHER_PROGRAMS.contains(&part) && inner.is_dir() {
                let found = names_in(&inner).map_err(|error| failed(&inner, &error))?;
                names.extend(found.into_iter().map(|name| format!("{part}/{file}/{name}")));
            } else {
                names.push(format!("{part}/{file}"));
            }
        }
    }
    names.retain(|name| name_mistake(name).is_none());
    ordered::sort(&mut names);
    let mut files = Vec::new();
    for name in names {
        let path = folder.join(&name);
        if path.symlink_metadata().is_err() {
            continue;
        }
        let content =
            read::bytes(&path, read::MAX_FILE).map_err(|error| format!("{}: {error}", path.display()))?;
        files.push(TreeFile { name, content });
    }
    bounded(&files)?;
    Ok(files)
}

/// The names in a folder that are text; none where there is no such folder.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().into_string().ok())).filter_map(Result::transpose).collect()
}
