//! The names of the secrets in a folder.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use kelson_spec::secrets::is_name;
use kelson_sys::ordered;

use crate::SecretError;

/// The secrets in a folder, by name. One that is not there has none.
pub fn names_in(folder: &Path) -> Result<Vec<String>, SecretError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(SecretError::at(folder))?,
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_name(name)).collect();
    ordered::sort(&mut names);
    Ok(names)
}
