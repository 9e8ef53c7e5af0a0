//! `import talos`: extension services and container documents.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kelson_import::talos::{ConfigFile, File, Project, project};
use kelson_import::{Fate, Finding};

use super::outcome::{Imported, end, note_losses, read, show};
use crate::call::Call;
use crate::failure::Failure;
use crate::output::escape;

/// Where the files of configuration documents are, unless --files names another folder.
pub const FOLDER: &str = "/var/lib/talos-files";

/// Translate extension services and containers of Talos
///
/// FILE is the file of an extension service, or has documents of the kinds
/// ExtensionServiceConfig and ContainerConfig. All FILEs are read together: a
/// configuration counts for the extension service of its name. Standard error
/// tells what is not kept. The exit status is 1 if something is lost.
///
/// Examples:
///   kelsonctl import talos ups.yaml config.yaml
///   kelsonctl import talos --out services --files /etc/talos ups.yaml config.yaml
///   kelsonctl import talos -o json ups.yaml
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Files of extension services, or of configuration documents
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write NAME.yaml files into this folder, over none
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the files that configurations hold into this folder
    #[arg(long = "files", value_name = "DIR", value_parser = absolute)]
    folder: Option<PathBuf>,
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err("write the absolute path that the folder has on the host".to_owned())
    }
}

pub fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let folder = arguments.folder.as_deref().unwrap_or(Path::new(FOLDER));
    let Documents { imported, files, findings } = documents(&arguments.files, folder);
    show(call, &imported, arguments.out.as_deref())?;
    if arguments.folder.is_some() {
        write(call, &files)?;
    }
    note_losses(call, &findings);
    end(&imported, "document")?;
    match findings.iter().any(|finding: &Finding| finding.fate == Fate::Rejected) {
        true => Err(Failure::Failed("not all documents are services".to_owned())),
        false => Ok(()),
    }
}

/// What becomes of files.
pub struct Documents {
    pub imported: Vec<Imported>,
    /// Those of configuration documents.
    pub files: Vec<ConfigFile>,
    /// Of documents that are no services.
    pub findings: Vec<Finding>,
}

/// Translates files; `folder` is where the files of configuration documents are on the host.
pub fn documents(paths: &[PathBuf], folder: &Path) -> Documents {
    let texts: Vec<(String, Result<String, String>)> =
        paths.iter().map(|path| (path.display().to_string(), read(path))).collect();
    let files: Vec<File<'_>> =
        texts.iter().filter_map(|(name, text)| Some(File { name, text: text.as_ref().ok()? })).collect();
    let Project { services, files, findings } = project(&files, folder);
    let unread = texts.iter().filter_map(|(name, text)| Some((name, text.as_ref().err()?)));
    let unread = unread.map(|(from, error)| Imported { from: from.clone(), outcome: Err(error.clone()) });
    let done = services
        .into_iter()
        .map(|(from, outcome)| Imported { from, outcome: outcome.map_err(|error| error.to_string()) });
    Documents { imported: unread.chain(done).collect(), files, findings }
}

/// Writes the files of configuration documents; none if one is there already. They may hold passwords: the folder of each
/// service is closed to others, and its container sees the files themselves.
fn write(call: &Call, files: &[ConfigFile]) -> Result<(), Failure> {
    let failed =
        |path: &Path, error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
    if let Some(there) = files.iter().find(|file| file.path.symlink_metadata().is_ok()) {
        return Err(failed(
            &there.path,
            &"it is there already; remove it, or name another folder with --files",
        ));
    }
    for ConfigFile { path, content } in files {
        let folder = path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed(folder, &error))?;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
        made.and_then(|mut file| file.write_all(content.as_bytes())).map_err(|error| failed(path, &error))?;
        call.note(&escape(&format!("{} written", path.display())));
    }
    Ok(())
}
