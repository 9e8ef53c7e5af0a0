//! `environment` and `environmentFiles`.

use std::path::Path;

use super::at::At;
use super::mapping::Mapping;
use super::values::{map, text};
use crate::decode::{Decoder, diagnostic, quoted, shown};
use crate::environment;
use crate::json::Json;
use crate::read::{self, MAX_FILE, ReadError};
use crate::schema::{Kind, form};
use crate::tree::{Node, Position};
use kelson_spec::loaded::Unchecked;

/// The advice where a variable or a header has no value.
pub const EMPTY: &str = "write \"\" for an empty one";

type Variables = Vec<(String, String)>;

/// `environment` and `environmentFiles`: the files first, later entries win.
pub fn environments<S: 'static>(
    mapping: Mapping<S>,
    at: At<S, Variables>,
    own: &'static str,
    files: &'static str,
) -> Mapping<S> {
    let at = std::rc::Rc::new(at);
    let shown_at = at.clone();
    let form_of_name = ("name", "^[A-Za-z_][A-Za-z0-9_]*$", "LANG");
    let variables = map(form_of_name, EMPTY, |name, _| environment::name_mistake(name), text());
    let (kind, shown) = (variables.kind.clone(), variables.clone());
    mapping
        .own(
            ("environment", "", own),
            move || kind(),
            move |d, seen, spec| {
                let files = seen.read(d, "environmentFiles", |d, node| {
                    d.list(node, "a list of paths", |d, node| d.environment_file(node))
                });
                let own = seen.read(d, "environment", |d, node| variables.decode(d, node));
                let all = files.into_iter().flatten().flatten().chain(own.into_iter().flatten());
                at.put(spec, environment::unique(all));
            },
            move |spec, extent| shown_at.get(spec).map_or(Json::Null, |list| shown.encode(&list, extent)),
        )
        .own(
            ("environmentFiles", "", files),
            || Kind::List(Box::new(Kind::Form(form("path", "^-?/", "-/etc/web.env"))), 0..=usize::MAX),
            |_, _, _| {},
            // Their contents stand in `environment`.
            |_, _| Json::List(Vec::new()),
        )
}

impl Decoder<'_> {
    /// Reads a file of `KEY=VALUE` lines; with `-` before the path it may be missing.
    fn environment_file(&mut self, node: &Node) -> Option<Vec<(String, String)>> {
        let text = self.text(node)?;
        let (optional, path) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        if !path.starts_with('/') {
            let text = format!("{} is not a path from the root; write it with / first", quoted(path));
            return self.refuse(node, text);
        }
        let path = Path::new(path);
        let Some(located) = self.context.locate(path, Unchecked::EnvironmentFiles) else {
            return Some(Vec::new());
        };
        let content = match read::utf8(&located, MAX_FILE) {
            Ok(content) => content,
            Err(ReadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                if !optional {
                    let path = shown(&path.to_string_lossy());
                    let text =
                        format!("{path} does not exist; create it, or write -{path} if it may be missing");
                    self.wrong(node.at, text);
                }
                return None;
            }
            Err(ReadError::NotUtf8 { line, column, byte }) => {
                let text = ReadError::NotUtf8 { line, column, byte }.to_string();
                return self.elsewhere(path, Position { line, column }, text);
            }
            Err(error) => {
                return self.refuse(node, format_args!("{}: {error}", shown(&path.to_string_lossy())));
            }
        };
        let (entries, mistakes) = environment::parse(&content);
        for mistake in mistakes {
            let at = Position { line: mistake.line, column: mistake.column };
            let _: Option<()> = self.elsewhere(path, at, mistake.message);
        }
        Some(entries)
    }

    /// Notes a mistake in another file that makes this service faulty.
    fn elsewhere<T>(&mut self, file: &Path, at: Position, message: String) -> Option<T> {
        self.diagnostics.push(diagnostic(file, at, self.service, message));
        None
    }
}
