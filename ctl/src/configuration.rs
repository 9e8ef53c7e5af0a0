//! Configurations of a host: read here, sent there, and what they change.

mod changes;
mod difference;

use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_api::client::Client;
use kelson_load::FileKind;
use kelson_proto::v1::{
    ApplyRequest, ApplyResponse, ConfigurationFile, GetConfigurationRequest, GetConfigurationResponse,
};

use crate::call::Call;
use crate::failure::{Failure, answer_within};
use crate::output::{Page, joined, object};
pub use difference::{differences, text};

/// The host writes to its disk, and gives that a minute.
pub const TIMEOUT: Duration = Duration::from_secs(90);

/// The options of a command that puts a configuration in force.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Manner {
    /// Only show what would happen
    #[arg(long)]
    pub dry_run: bool,
    /// Go back unless `confirm` comes within D, such as 2m
    #[arg(long, value_name = "D", value_parser = crate::output::time::parse_timeout)]
    auto_rollback: Option<Duration>,
    /// The reason, for the history
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

impl Manner {
    /// The request, without its files.
    pub fn request(&self, base: u64) -> ApplyRequest {
        ApplyRequest {
            base: Some(base),
            dry_run: self.dry_run,
            auto_rollback: self.auto_rollback.map(crate::output::time::to_wire),
            message: self.message.clone().unwrap_or_default(),
            ..ApplyRequest::default()
        }
    }
}

/// A configuration as its author has it.
#[derive(Debug)]
pub enum Given {
    /// A folder with all files.
    Folder(PathBuf, Vec<ConfigurationFile>),
    /// One file of it, which takes the place of the one of its name.
    File(PathBuf, ConfigurationFile),
}

impl Given {
    /// Reads a folder such as `/etc/kelson`, or one file.
    ///
    /// # Errors
    /// It cannot be read, or is none of a configuration.
    pub fn read(path: &Path) -> Result<Given, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::Failed(format!("{}: {why}", path.display()));
        let metadata = std::fs::metadata(path).map_err(|error| failed(&error))?;
        if metadata.is_dir() {
            let files = kelson_load::read_tree(path).map_err(Failure::Failed)?;
            if files.is_empty() {
                return Err(failed(&"it has no machine.yaml and no service files in services/"));
            }
            let files = files.into_iter();
            let files = files.map(|file| ConfigurationFile { name: file.name, content: file.content });
            return Ok(Given::Folder(path.to_owned(), files.collect()));
        }
        let name = name_of(path)?;
        if usize::try_from(metadata.len()).unwrap_or(usize::MAX) > kelson_load::TREE_MAX {
            return Err(failed(&format!("it is larger than {} bytes", kelson_load::TREE_MAX)));
        }
        let content = std::fs::read(path).map_err(|error| failed(&error))?;
        Ok(Given::File(path.to_owned(), ConfigurationFile { name, content }))
    }

    /// The whole configuration, where these are the files in force.
    pub fn onto(&self, now: &[ConfigurationFile]) -> Vec<ConfigurationFile> {
        match self {
            Given::Folder(_, files) => files.clone(),
            Given::File(_, file) => with(now, file.clone()),
        }
    }

    /// The path here of a file of the configuration.
    pub fn place(&self, name: &str) -> String {
        match self {
            Given::Folder(folder, _) => folder.join(name).display().to_string(),
            Given::File(path, file) if file.name == name => path.display().to_string(),
            Given::File(..) => name.to_owned(),
        }
    }
}

/// The files with this one in place of the one of its name.
pub fn with(now: &[ConfigurationFile], file: ConfigurationFile) -> Vec<ConfigurationFile> {
    let others = now.iter().filter(|known| known.name != file.name).cloned();
    let mut files: Vec<ConfigurationFile> = others.chain([file.clone()]).collect();
    files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    files
}

/// The name of a file in its configuration: by its folder, or by its keys.
fn name_of(path: &Path) -> Result<String, Failure> {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let sources = kelson_load::Sources { root: None, ..kelson_load::Sources::default() };
    let name = match kelson_load::load_file(path, &sources).kind {
        FileKind::Machine => "machine.yaml".to_owned(),
        FileKind::Service => format!("services/{file}"),
        FileKind::Group => format!("groups/{file}"),
        FileKind::Volume => format!("volumes/{file}"),
    };
    match kelson_load::name_mistake(&name) {
        Some(mistake) => Err(Failure::Failed(mistake)),
        None => Ok(name),
    }
}

/// The files of a generation; `None`: of the one in force.
pub async fn fetch(client: &Client, generation: Option<u64>) -> Result<GetConfigurationResponse, Failure> {
    let request = GetConfigurationRequest { generation, sources: false };
    answer_within(TIMEOUT, client.configuration().get(request)).await
}

/// Puts a configuration in force, and shows what that changes.
pub async fn apply(
    call: &Call,
    client: &Client,
    request: ApplyRequest,
    now: &[ConfigurationFile],
    new: &[ConfigurationFile],
    place: impl Fn(&str) -> String,
) -> Result<(), Failure> {
    let found = differences(now, new);
    let dry_run = request.dry_run;
    let answer: ApplyResponse = answer_within(TIMEOUT, client.configuration().apply(request)).await?;
    let view = joined(changes::view(&answer), object!(files: found));
    call.show(&view, || Page::Text(text(&found, call.terminal.palette) + &changes::lines(&answer, dry_run)))?;
    let mistakes = answer.mistakes.iter().filter(|found| !found.warning);
    for warning in answer.mistakes.iter().filter(|found| found.warning) {
        call.note(&format!("warning: {}", changes::mistake(warning, &place)));
    }
    mistakes.clone().for_each(|mistake| call.note(&changes::mistake(mistake, &place)));
    match mistakes.count() {
        0 => Ok(()),
        1 => Err(refused(call, "1 mistake")),
        count => Err(refused(call, &format!("{count} mistakes"))),
    }
}

/// The first mistake, for which the host has changed nothing.
pub fn mistake(answer: &ApplyResponse, place: impl Fn(&str) -> String) -> Option<String> {
    let mistake = answer.mistakes.iter().find(|found| !found.warning)?;
    Some(changes::mistake(mistake, &place))
}

fn refused(call: &Call, mistakes: &str) -> Failure {
    call.note(&format!("{mistakes}; nothing was changed"));
    Failure::Reported
}
