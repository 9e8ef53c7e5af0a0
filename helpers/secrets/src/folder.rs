//! The names of the secrets in a folder.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use kelson_spec::secrets::is_name;
use kelson_sys::ordered;

use crate::SecretError;

/// The secrets in a folder, by name. One that is not there has none.
pub fn names_in(folder: &Path) -> Result<Vec<String>, SecretError> {
    let mut names = file_names(folder)?;
    names.retain(|name| is_name(name));
    Ok(names)
}

/// The sorted names of all files in a folder. One that is not there has none.
pub fn file_names(folder: &Path) -> Result<Vec<String>, SecretError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(SecretError::at(folder))?,
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    ordered::sort(&mut names);
    Ok(names)
}
