//! `edit`: one file of the configuration, in an editor.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use kelson_proto::v1::ConfigurationFile;

use crate::call::{Call, Run};
use crate::configuration::{self, Manner, with};
use crate::failure::Failure;
use crate::output::list;

/// Change one file of the configuration in an editor, and apply it
///
/// The editor is $VISUAL, $EDITOR or vi. If the file was not changed, nothing is
/// applied. If it has a mistake, or somebody else applied something in the
/// meantime, your text is kept, and kelsonctl prints where. This needs the role
/// os:admin.
///
/// Examples:
///   kelsonctl edit web
///   kelsonctl edit machine.yaml --auto-rollback 2m
///   kelsonctl edit groups/shop.yaml
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// A service, or a file such as machine.yaml or units/web.service
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    manner: Manner,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let now = configuration::fetch(&client, None).await?;
        let name = match self.name.ends_with(".yaml") || self.name.contains('/') {
            true => self.name,
            false => format!("services/{}.yaml", self.name),
        };
        if let Some(mistake) = kelson_load::name_mistake(&name) {
            return Err(Failure::Usage(mistake));
        }
        let Some(old) = now.files.iter().find(|file| file.name == name) else {
            let names: Vec<String> = now.files.iter().map(|file| file.name.clone()).collect();
            return Err(Failure::Failed(format!("the configuration has no {name}; it has {}", list(&names))));
        };
        let path = write(&name, &old.content)?;
        let edited = edit(&path)?;
        if edited == old.content {
            let _ = std::fs::remove_file(&path);
            call.note("nothing was changed");
            return Ok(());
        }
        let files = with(&now.files, ConfigurationFile { name: name.clone(), content: edited });
        let mut request = self.manner.request(now.generation);
        request.files.clone_from(&files);
        let kept = path.display().to_string();
        let place = |file: &str| if file == name { kept.clone() } else { file.to_owned() };
        let applied = configuration::apply(call, &client, request, &now.files, &files, place).await;
        match &applied {
            Ok(()) => _ = std::fs::remove_file(&path),
            Err(_) => {
                call.note(&format!("your text is in {kept}; `kelsonctl apply` takes it when it is mended"));
            }
        }
        applied
    }
}

/// A new file for the editor, under the name that the file has, so that `kelsonctl apply` takes it.
fn write(name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    for number in 0_u32..1000 {
        let folder = std::env::temp_dir().join(format!("kelsonctl-edit-{}-{number}", std::process::id()));
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(&folder);
        use std::os::unix::fs::DirBuilderExt as _;
        let mut builder = std::fs::DirBuilder::new();
        match builder.mode(0o700).create(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            made => made.map_err(|error| failed(&folder, error))?,
        }
        builder.recursive(true).create(parent).map_err(|error| failed(parent, error))?;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.and_then(|mut made| made.write_all(content)).map_err(|error| failed(&path, error))?;
        return Ok(path);
    }
    Err(Failure::Failed(format!("{} is full of files of earlier edits", std::env::temp_dir().display())))
}

/// The text once the editor has ended.
fn edit(path: &Path) -> Result<Vec<u8>, Failure> {
    let chosen = ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os).find(|word| !word.is_empty());
    let editor = chosen.unwrap_or_else(|| "vi".into());
    // As git and others do: it may have arguments, such as `code --wait`.
    let status =
        std::process::Command::new("/bin/sh").args(["-c", "exec $0 \"$1\""]).arg(&editor).arg(path).status();
    let editor = editor.to_string_lossy();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(Failure::Failed(format!("{editor}: {status}; nothing was applied"))),
        Err(error) => {
            return Err(Failure::Failed(format!("{editor} cannot be started: {error}; set EDITOR")));
        }
    }
    std::fs::read(path).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}
