//! `environment` and `environmentFiles`.

use std::path::Path;
use std::rc::Rc;

use super::at::At;
use super::codec::{Codec, either};
use super::mapping::Mapping;
use super::values::{choice, map, text, word};
use crate::decode::{Decoder, diagnostic, quoted, shown};
use crate::environment;
use crate::json::Json;
use crate::read::{self, MAX_FILE, ReadError};
use crate::schema::{Absent, Key, Kind, form};
use crate::tree::{Node, Position, Value};
use kelson_spec::loaded::Unchecked;
use kelson_spec::service::{Fact, Inherit};

/// The advice where a variable or a header has no value.
pub const EMPTY: &str = "write \"\" for an empty one";

type Variables = Vec<(String, String)>;

/// The name of a variable, and what it looks like.
const NAME: (&str, &str, &str) = ("name", "^[A-Za-z_][A-Za-z0-9_]*$", "LANG");
/// The one key of `environment` that is no variable.
const INHERIT: &str = "inherit";

/// Variables with their values. `mistake`: why one cannot stand here.
pub fn variables(
    mistake: impl Fn(&str, &[(String, String)]) -> Option<String> + 'static,
) -> Codec<Variables> {
    let mistake = move |name: &str, found: &[(String, String)]| {
        mistake(name, found).or_else(|| environment::name_mistake(name))
    };
    map(NAME, EMPTY, mistake, text())
}

/// Variables with facts that are known at each start.
pub fn facts() -> Codec<Vec<(String, Fact)>> {
    map(NAME, "name a fact, such as hostName", |name, _| environment::name_mistake(name), choice(Fact::WORDS))
}

/// `environment` and `environmentFiles`: the files first, later entries win. Without a place for it, nothing is inherited.
pub fn environments<S: 'static>(
    mapping: Mapping<S>,
    at: At<S, Variables>,
    inherited_at: Option<At<S, Inherit>>,
    own: &'static str,
    files: &'static str,
) -> Mapping<S> {
    let (at, inherited_at) = (Rc::new(at), Rc::new(inherited_at));
    let (shown_at, inherited_shown_at) = (at.clone(), inherited_at.clone());
    let inherits = inherited_at.is_some();
    let mistake = move |name: &str, _: &[(String, String)]| {
        let refused = match inherits {
            true => "inherit stands here a second time",
            false => "a built-in service inherits nothing from init; name the variable and its value",
        };
        (name == INHERIT).then(|| refused.to_owned())
    };
    let variables = variables(mistake);
    let inherited = inherit();
    let (kind, shown, inherited_shown) = (variables.kind.clone(), variables.clone(), inherited.clone());
    let inherited_kind = inherited.kind.clone();
    mapping
        .own(
            ("environment", "", own),
            move || match kind() {
                Kind::Map(form, of, mut own) if inherits => {
                    own.push(Key {
                        name: INHERIT,
                        feature: None,
                        kind: inherited_kind(),
                        default: Absent::Means("nothing is inherited"),
                        about: "which variables of `init` the service gets, before all others",
                    });
                    Kind::Map(form, of, own)
                }
                kind => kind,
            },
            move |d, seen, spec| {
                let files = seen.read(d, "environmentFiles", |d, node| {
                    d.list(node, "a list of paths", |d, node| d.environment_file(node))
                });
                let own = seen.read(d, "environment", |d, node| {
                    let Some(at) = &*inherited_at else { return variables.decode(d, node) };
                    if let Some(node) = node.get(INHERIT) {
                        let names = d.at_key(INHERIT, |d| inherited.decode(d, node));
                        names.into_iter().for_each(|names| at.put(spec, names));
                    }
                    variables.decode(d, &node.without(INHERIT))
                });
                let all = files.into_iter().flatten().flatten().chain(own.into_iter().flatten());
                at.put(spec, environment::unique(all));
            },
            move |spec, extent| {
                let inherit = inherited_shown_at.as_ref().as_ref().and_then(|at| at.get(spec));
                let inherit = inherit.filter(|inherit| *inherit != Inherit::Nothing);
                let mut all = shown_at.get(spec).map_or(Json::Null, |list| shown.encode(&list, extent));
                if let (Json::Map(entries), Some(inherit)) = (&mut all, inherit) {
                    entries.insert(0, (INHERIT.to_owned(), inherited_shown.encode(&inherit, extent)));
                }
                all
            },
        )
        .own(
            ("environmentFiles", "", files),
            || Kind::List(Box::new(Kind::Form(form("path", "^-?/", "-/etc/web.env"))), 0..=usize::MAX),
            |_, _, _| {},
            // Their contents stand in `environment`.
            |_, _| Json::List(Vec::new()),
        )
}

/// `all`, or the names of the variables.
fn inherit() -> Codec<Inherit> {
    let all = choice([("all", ())]);
    let name = word(NAME.0, NAME.1, NAME.2).but(|name| {
        let own = name.starts_with(Inherit::OWN);
        let own =
            own.then(|| format!("{} is a variable of Kelson itself and is never inherited", quoted(name)));
        own.or_else(|| environment::name_mistake(name))
    });
    let names = name.list("a list of names");
    let (kind, shown) = (either(&all, &names), names.clone());
    Codec::new(
        kind,
        move |d, node| match node.value {
            Value::Scalar(_) => all.decode(d, node).map(|()| Inherit::All),
            Value::Sequence(_) => names.decode(d, node).map(Inherit::Names),
            _ => d.expected(node, "all or a list of names"),
        },
        move |inherit, extent| match inherit {
            Inherit::Names(names) => shown.encode(names, extent),
            Inherit::All | Inherit::Nothing => Json::text("all"),
        },
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
