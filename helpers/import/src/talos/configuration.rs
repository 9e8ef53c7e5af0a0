//! `ExtensionServiceConfig`: the files and variables that an operator gives an extension service.

use std::path::PathBuf;

use kelson_spec::service::Requirement;

use super::draft::{Context, Draft, Part, each_judged, wait};
use crate::finding::Outcome;
use crate::key::{moot, nearly};
use crate::unit_name::kelson_name;
use crate::yaml::Value;

/// A file that a service needs on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub content: String,
}

pub const FILE: Part = Part {
    title: "`ExtensionServiceConfig`: each of `configFiles`",
    keys: &[
        moot("content", "the content of the file on the host"),
        nearly("mountPath", |_, _| Outcome::kept("`target` of a mount"), "`target` of a mount with `ro`"),
    ],
};

/// Where a file is on the host, as Talos calls it.
fn place(context: &Context<'_>, service: &str, target: &str) -> Option<PathBuf> {
    let plain = target.trim_start_matches('/').replace('/', "-");
    let is_name = !plain.is_empty() && plain != "." && plain != ".." && target.starts_with('/');
    is_name.then(|| context.folder.join(kelson_name(service)).join(plain))
}

fn text<'v>(item: &'v Value, key: &str) -> &'v str {
    item.get(key).and_then(Value::text).unwrap_or_default()
}

/// The files of the document of this context.
pub fn files(context: &Context<'_>) -> Vec<ConfigFile> {
    let items = context.document.value.get("configFiles").map_or(&[][..], Value::items);
    let file = |item: &Value| {
        let path = place(context, context.document.name(), text(item, "mountPath"))?;
        Some(ConfigFile { path, content: text(item, "content").to_owned() })
    };
    items.iter().filter_map(file).collect()
}

pub fn config_files(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    each_judged(draft, value, |draft, item| FILE.read(draft, item).and(config_file(draft, item)))
}

fn config_file(draft: &mut Draft<'_>, item: &Value) -> Outcome {
    let target = text(item, "mountPath");
    let Some(path) =
        place(draft.context, draft.name, target).filter(|_| !target.split('/').any(|part| part == ".."))
    else {
        return Outcome::rejected(format!("{target:?} is no absolute path of a file"));
    };
    wait(draft, Requirement::Path(path.clone()));
    let sentence = format!("{target}: its content belongs into {}", path.display());
    draft.mount(path, target, vec!["ro".to_owned(), "bind".to_owned()]).and(Outcome::approximated(sentence))
}
