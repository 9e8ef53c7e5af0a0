//! `import compose`: the services of a compose file.

use std::path::{Path, PathBuf};

use kelson_import::Fate;
use kelson_import::compose::{File, Project, project};

use super::outcome::{Imported, end, note_losses, read, show};
use crate::call::Call;
use crate::failure::Failure;

/// Translate a file of Docker Compose
///
/// Each service becomes a container with an address of its own, which the others
/// reach by its name. Variables come from the file .env beside FILE, and from
/// --variable. Standard error tells what is not kept. The exit status is 1 if
/// something is lost.
///
/// Examples:
///   kelsonctl import compose compose.yaml
///   kelsonctl import compose --variable TAG=1.4 --out services compose.yaml
///   kelsonctl import compose -o json compose.yaml
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The compose file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The value of a variable: TAG=1.4
    #[arg(long = "variable", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// The name of the project; else of the folder
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Write NAME.yaml files into this folder, over none
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    parts
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write a name and its value, such as TAG=1.4".to_owned())
}

pub fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let Arguments { file, variables, project, .. } = &arguments;
    let Project { services, findings } =
        import(file, variables, project.as_deref()).map_err(Failure::Failed)?;
    let from = file.display().to_string();
    let imported: Vec<Imported> =
        services.into_iter().map(|done| Imported { from: from.clone(), outcome: Ok(done) }).collect();
    show(call, &imported, arguments.out.as_deref())?;
    note_losses(call, &findings);
    end(&imported, "service")?;
    match findings.iter().any(|finding| finding.fate == Fate::Rejected) {
        true => Err(Failure::Failed("the service files do not do all that the file asks for".to_owned())),
        false => Ok(()),
    }
}

/// Translates a file, whose variables come from the file `.env` beside it too.
pub fn import(
    file: &Path,
    more: &[(String, String)],
    name_of_project: Option<&str>,
) -> Result<Project, String> {
    let text = read(file)?;
    let path = std::path::absolute(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut variables = beside(folder)?;
    variables.extend_from_slice(more);
    let of_folder = folder.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = file.display().to_string();
    project(&File {
        name: &name,
        text: &text,
        folder,
        project: name_of_project.unwrap_or(&of_folder),
        variables: &variables,
    })
    .map_err(|error| error.to_string())
}

/// The variables of the file `.env` beside the compose file, if there is one.
fn beside(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let path = folder.join(".env");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let (found, mistakes) = kelson_load::environment_file(&read(&path)?);
    match mistakes.first() {
        Some(mistake) => Err(format!("{}:{}: {}", path.display(), mistake.line, mistake.message)),
        None => Ok(found),
    }
}
