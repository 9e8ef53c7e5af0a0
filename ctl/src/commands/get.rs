//! `get`: the files of a configuration of the host.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kelson_proto::v1::ConfigurationFile;

use crate::call::{Call, Run};
use crate::configuration;
use crate::failure::Failure;
use crate::output::text::lossy;
use crate::output::{Page, escape, escape_lines, object, views};

/// Print the configuration in force, or write it to a folder
///
/// The folder can be changed and applied again. This needs the role os:admin.
///
/// Examples:
///   kelsonctl get
///   kelsonctl get ./config
///   kelsonctl get --generation 4 ./old
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// A folder that is not there yet, or is empty
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// An earlier generation [default: the one in force]
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
}

views! {
    ConfigurationFile: file { name, content: lossy(&file.content) }
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let found = configuration::fetch(&call.client()?, self.generation).await?;
        let line = match &self.folder {
            None => None,
            Some(folder) => {
                write(folder, &found.files)?;
                let (count, folder) = (found.files.len(), folder.display().to_string());
                let text = format!(
                    "generation {}: {count} files written to {}\n",
                    found.generation,
                    escape(&folder)
                );
                Some(text)
            }
        };
        let view = object!(found => generation, files);
        call.show(&view, || Page::Text(line.unwrap_or_else(|| documents(&found.files))))
    }
}

/// All files, each behind its name, as one stream of YAML.
fn documents(files: &[ConfigurationFile]) -> String {
    let document = |file: &ConfigurationFile| {
        let text = escape_lines(&lossy(&file.content));
        let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        format!("--- # {}\n{text}{end}", escape(&file.name))
    };
    files.iter().map(document).collect()
}

fn write(folder: &Path, files: &[ConfigurationFile]) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    // The host names the files: none of them leads out of the folder.
    if let Some(mistake) = files.iter().find_map(|file| kelson_load::name_mistake(&file.name)) {
        return Err(Failure::Failed(format!("the host sent something else than a configuration: {mistake}")));
    }
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::Failed(format!("{} is not empty; nothing was written", folder.display())));
    }
    for file in files {
        let path = folder.join(&file.name);
        let parent = path.parent().unwrap_or(folder);
        // It may hold secrets.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|error| failed(parent, error))?;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.and_then(|mut made| made.write_all(&file.content)).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
