//! `environment` and `environmentFiles`.

use std::path::Path;

use super::codec::{map, text};
use super::mapping::{At, Mapping};
use crate::decode::{Decoder, Place, quoted, shown};
use crate::environment;
use crate::json::Json;
use crate::read::{self, MAX_FILE, ReadError};
use crate::schema::{Kind, form};
use crate::tree::{Node, Value};
use kelson_spec::loaded::{Diagnostic, Unchecked};

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
    let variables = map(("name", "^[A-Za-z_][A-Za-z0-9_]*$", "LANG"), |d, p, n| d.environment(p, n), text());
    let (kind, shown) = (variables.kind.clone(), variables.clone());
    mapping
        .own(
            ("environment", None, own),
            move || kind(),
            move |d, seen, spec| {
                let files = seen.read(d, "environmentFiles", |d, p, n| {
                    d.list(p, n, "a list of paths", |d, p, n| d.environment_file(p, n))
                });
                let own = seen.read(d, "environment", |d, p, n| variables.decode(d, p, n));
                let all = files.into_iter().flatten().flatten().chain(own.into_iter().flatten());
                at.put(spec, environment::unique(all));
            },
            move |spec, extent| shown_at.get(spec).map_or(Json::Null, |list| shown.encode(&list, extent)),
        )
        .own(
            ("environmentFiles", None, files),
            || Kind::List(Box::new(Kind::Form(form("path", "^-?/", "-/etc/web.env"))), 0..=usize::MAX),
            |_, _, _| {},
            // What they say stands in `environment`.
            |_, _| Json::List(Vec::new()),
        )
}

impl Decoder<'_> {
    fn environment(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<(String, String)>> {
        let mut list = Vec::new();
        for (name, entry) in self.entries(place, node)? {
            let inner = Place::Key(place, name);
            if let Some(message) = environment::name_mistake(name) {
                self.wrong(place, entry.key.at, message);
            } else if matches!(entry.value.value, Value::Null) {
                self.wrong(&inner, entry.value.at, "this key has no value; write \"\" for an empty one");
            } else if let Some(value) = self.text(&inner, &entry.value) {
                list.push((name.to_owned(), value));
            }
        }
        Some(list)
    }

    /// Reads a file of `KEY=VALUE` lines; with `-` before the path it may be missing.
    fn environment_file(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<(String, String)>> {
        let text = self.text(place, node)?;
        let (optional, path) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        if !path.starts_with('/') {
            let text = format!("{} is not a path from the root; write it with / first", quoted(path));
            self.wrong(place, node.at, text);
            return None;
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
                    self.wrong(place, node.at, text);
                }
                return None;
            }
            Err(ReadError::NotUtf8 { line, column, byte }) => {
                self.elsewhere(path, line, column, ReadError::NotUtf8 { line, column, byte }.to_string());
                return None;
            }
            Err(error) => {
                self.wrong(place, node.at, format_args!("{}: {error}", shown(&path.to_string_lossy())));
                return None;
            }
        };
        let (entries, mistakes) = environment::parse(&content);
        for mistake in mistakes {
            self.elsewhere(path, mistake.line, mistake.column, mistake.message);
        }
        Some(entries)
    }

    /// Notes a mistake in another file that makes this service faulty.
    fn elsewhere(&mut self, file: &Path, line: u32, column: u32, message: String) {
        let (file, service) = (file.to_owned(), self.service.map(str::to_owned));
        self.diagnostics.push(Diagnostic { file, line, column, service, message });
    }
}
