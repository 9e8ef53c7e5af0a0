//! One file of a volume, for the helper `kelson-volumes`.

use std::path::Path;

use crate::folder::volume_files::volume;
use crate::parser;
use kelson_spec::names::is_name;
use kelson_spec::quote::quoted;
use kelson_spec::volume_file::VolumeFile;

/// Reads the file of the volume `name` of the configuration folder `config`, or that of the last of the sources in `layers`
/// which has one, as `kelson-load` does.
///
/// # Errors
/// A sentence: the file is missing, cannot be read or has mistakes. It has nothing of the volume's context.
pub fn read(name: &str, config: &Path, layers: Option<&Path>) -> Result<VolumeFile, String> {
    if !is_name(name) {
        return Err(format!("{} is not the name of a volume; use a-z, 0-9 and -", quoted(name)));
    }
    let (name, config, layers) = (name.to_owned(), config.to_owned(), layers.map(Path::to_owned));
    parser::guarded(move || volume(&name, &config, layers.as_deref()))
}
