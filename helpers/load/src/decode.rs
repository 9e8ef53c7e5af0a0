//! From the tree of a file to the spec it means, with every mistake on the way.
//!
//! A decoder never stops at a mistake: it notes it, leaves that value out, and goes on. Whoever called it looks at the end
//! whether anything was noted. Functions give `None` exactly when they noted a mistake (or a caller above them did).

mod scalar;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::accounts::Accounts;
use crate::member::Ties;
use crate::read::ReadError;
use crate::tree::{Entry, Node, Position, Value};
use kelson_spec::loaded::{Diagnostic, Unchecked};
use kelson_spec::near::near;
pub use kelson_spec::quote::{quoted, shown};
use kelson_spec::service::{Credentials, ServiceSpec};

/// How many mistakes of one file are shown.
pub const MOST_MISTAKES: usize = 100;

/// The files outside the configuration folder that specs refer to.
pub struct Context {
    /// Before every absolute path: `/`, or the root of an image that is checked elsewhere. `None`: neither is at hand.
    root: Option<PathBuf>,
    accounts: OnceCell<Result<Accounts, (&'static str, ReadError)>>,
    unchecked: RefCell<BTreeSet<Unchecked>>,
}

impl Context {
    pub fn new(root: Option<&Path>) -> Self {
        Context { root: root.map(Path::to_owned), accounts: OnceCell::new(), unchecked: RefCell::default() }
    }

    /// Where the absolute path `path` of a spec lies. `None`: it is not at hand, and `what` remains unchecked.
    pub fn locate(&self, path: &Path, what: Unchecked) -> Option<PathBuf> {
        match &self.root {
            Some(root) => Some(root.join(path.strip_prefix("/").unwrap_or(path))),
            None => {
                self.unchecked.borrow_mut().insert(what);
                None
            }
        }
    }

    /// What could not be checked so far.
    pub fn unchecked(&self) -> BTreeSet<Unchecked> {
        self.unchecked.borrow().clone()
    }

    /// The number of a group, where /etc/group has it.
    pub fn group(&self, name: &str) -> Option<u32> {
        self.accounts()?.as_ref().ok()?.group_named(name)
    }

    /// What can be told of a user without the files that name users.
    pub fn unresolved(&self, text: &str) -> Result<Credentials, String> {
        match Accounts::default().resolve(text) {
            Err(_) if Accounts::may_know(text) => {
                self.unchecked.borrow_mut().insert(Unchecked::Users);
                Ok(Credentials { uid: 0, gid: 0, groups: Vec::new(), name: text.to_owned(), home: None })
            }
            resolved => resolved,
        }
    }

    /// `None`: they are not at hand.
    pub fn accounts(&self) -> Option<&Result<Accounts, (&'static str, ReadError)>> {
        let root = self.root.as_deref()?;
        Some(self.accounts.get_or_init(|| Accounts::read(root)))
    }
}

/// A spec and where it names other services: `depends` first, then `when`, in the order of a walk.
#[derive(Debug)]
pub struct Decoded {
    pub spec: ServiceSpec,
    pub references: Vec<Position>,
    /// How many of the first entries of `depends` come from the group and not from the file.
    pub by_group: usize,
    /// Where what it runs is written.
    pub workload: Position,
}

/// Notes the mistakes of one file.
pub struct Decoder<'a> {
    pub context: &'a Context,
    pub file: &'a Path,
    /// The service that a mistake makes faulty.
    pub service: Option<&'a str>,
    pub diagnostics: Vec<Diagnostic>,
    /// What is no mistake and hardly meant.
    pub warnings: Vec<Diagnostic>,
    /// The name of the file without its ending.
    pub stem: String,
    /// Where services are named: the entries of `depends`, then those of `when`, in the order of a walk.
    pub references: Vec<Position>,
    /// The same of each entry of the machine file's `builtins`.
    pub builtin_references: Vec<Vec<Position>>,
    /// Where the service file says what it runs.
    pub workload: Position,
    pub ties: Ties,
    /// Paths within the container at which something of the host is seen.
    pub targets: BTreeSet<PathBuf>,
}

impl<'a> Decoder<'a> {
    pub fn new(context: &'a Context, file: &'a Path, service: Option<&'a str>) -> Self {
        Decoder {
            context,
            file,
            service,
            diagnostics: Vec::new(),
            warnings: Vec::new(),
            stem: String::new(),
            references: Vec::new(),
            builtin_references: Vec::new(),
            workload: Position::START,
            ties: Ties::default(),
            targets: BTreeSet::new(),
        }
    }
}

/// Where in a file a value stands, as a path of keys: `depends[2].service`.
#[derive(Clone, Copy)]
pub enum Place<'p> {
    Root,
    Key(&'p Place<'p>, &'p str),
    Index(&'p Place<'p>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Root => Ok(()),
            Place::Key(Place::Root, key) => f.write_str(&shown(key)),
            Place::Key(parent, key) => write!(f, "{parent}.{}", shown(key)),
            Place::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A mapping whose keys have been checked.
pub struct Fields<'p, 'n> {
    pub place: &'p Place<'p>,
    pub node: &'n Node,
    pub entries: &'n [Entry],
}

impl<'n> Fields<'_, 'n> {
    pub fn get(&self, key: &str) -> Option<&'n Node> {
        self.entry(key).map(|entry| &*entry.value)
    }

    /// Where the key itself stands.
    pub fn position(&self, key: &str) -> Position {
        self.entry(key).map_or(self.node.at, |entry| entry.key.at)
    }

    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    fn entry(&self, key: &str) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| entry.key.is(key))
    }
}

/// What stands at a node, for "found …".
pub fn found(node: &Node) -> String {
    match &node.value {
        Value::Null => "nothing".to_owned(),
        Value::Scalar(text) => quoted(text),
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "a mapping".to_owned(),
    }
}

impl Decoder<'_> {
    /// Notes a mistake.
    pub fn note(&mut self, at: Position, message: impl Into<String>) {
        let mistake = self.found(at, message.into());
        self.diagnostics.push(mistake);
    }

    /// Notes what is no mistake and hardly meant.
    pub fn warn(&mut self, place: &Place<'_>, at: Position, message: impl fmt::Display) {
        let warning = self.found(at, format!("{place}: {message}"));
        self.warnings.push(warning);
    }

    fn found(&self, at: Position, message: String) -> Diagnostic {
        Diagnostic {
            file: self.file.to_owned(),
            line: at.line,
            column: at.column,
            service: self.service.map(str::to_owned),
            message,
        }
    }

    /// Notes a mistake of the value at `place`.
    pub fn wrong(&mut self, place: &Place<'_>, at: Position, message: impl fmt::Display) {
        match place {
            Place::Root => self.note(at, message.to_string()),
            _ => self.note(at, format!("{place}: {message}")),
        }
    }

    /// Notes that something of another kind stands here.
    pub fn expected(&mut self, place: &Place<'_>, node: &Node, what: &str) {
        self.wrong(place, node.at, format_args!("found {} where {what} belongs", found(node)));
    }

    /// The keys and values of a mapping of any keys; a key that is none or stands twice is noted and left out.
    pub fn entries<'n>(&mut self, place: &Place<'_>, node: &'n Node) -> Option<Vec<(&'n str, &'n Entry)>> {
        let Value::Mapping(entries) = &node.value else {
            self.expected(place, node, "a mapping of keys to values");
            return None;
        };
        let mut good: Vec<(&str, &Entry)> = Vec::with_capacity(entries.len());
        let mut seen = std::collections::HashMap::with_capacity(entries.len());
        for entry in entries {
            let at = entry.key.at;
            match &entry.key.value {
                Value::Scalar(key) => match seen.insert(key.as_str(), at.line) {
                    None => good.push((key, entry)),
                    Some(line) => {
                        seen.insert(key.as_str(), line);
                        self.wrong(
                            &Place::Key(place, key),
                            at,
                            format_args!("this key stands here a second time; the first is in line {line}"),
                        );
                    }
                },
                _ => self.wrong(place, at, format_args!("found {} where a key belongs", found(&entry.key))),
            }
        }
        Some(good)
    }

    /// A mapping in which only the keys `allowed` may stand; of the keys `elsewhere`, which are known but may not stand
    /// here, `why` is said.
    pub fn fields_where<'p, 'n>(
        &mut self,
        place: &'p Place<'p>,
        node: &'n Node,
        allowed: &[&str],
        elsewhere: &[&str],
        why: &str,
    ) -> Option<Fields<'p, 'n>> {
        for (key, entry) in self.entries(place, node)? {
            if allowed.contains(&key) {
                continue;
            }
            if elsewhere.contains(&key) {
                let text = format!("{why}; allowed here: {}", allowed.join(", "));
                self.wrong(&Place::Key(place, key), entry.key.at, text);
                continue;
            }
            // A file of nothing but mistakes is not worth the search.
            let near = near(key, allowed.iter().copied().filter(|_| self.diagnostics.len() < MOST_MISTAKES));
            let hint = match near {
                Some(near) => format!("; did you mean {near}? Allowed here: "),
                None => "; allowed here: ".to_owned(),
            };
            self.wrong(
                &Place::Key(place, key),
                entry.key.at,
                format_args!("this key is not known{hint}{}", allowed.join(", ")),
            );
        }
        let Value::Mapping(entries) = &node.value else { return None };
        Some(Fields { place, node, entries })
    }

    pub fn missing(&mut self, fields: &Fields<'_, '_>, key: &str, example: &str) {
        let place = Place::Key(fields.place, key);
        self.wrong(&place, fields.node.at, format_args!("this key is missing; write {example}"));
    }

    /// Exactly one of `keys` must be there: which.
    pub fn one_of<'k>(&mut self, fields: &Fields<'_, '_>, keys: &[&'k str]) -> Option<&'k str> {
        let present: Vec<&str> = keys.iter().copied().filter(|key| fields.has(key)).collect();
        match present.as_slice() {
            [one] => Some(one),
            [] => {
                let text = format!("one of the keys {} is missing", keys.join(", "));
                self.wrong(fields.place, fields.node.at, text);
                None
            }
            [first, second, ..] => {
                let at = fields.position(first).max(fields.position(second));
                let text = format!("{first} and {second} exclude each other; keep one");
                self.wrong(fields.place, at, text);
                None
            }
        }
    }

    /// The items of a list, each decoded; items with a mistake are left out.
    pub fn list<'n, T>(
        &mut self,
        place: &Place<'_>,
        node: &'n Node,
        what: &str,
        mut decode: impl FnMut(&mut Self, &Place<'_>, &'n Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Value::Sequence(items) = &node.value else {
            self.expected(place, node, what);
            return None;
        };
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let place = Place::Index(place, index);
            if matches!(item.value, Value::Null) {
                self.wrong(&place, item.at, "this item is empty; give it a value or remove it");
            } else if let Some(value) = decode(self, &place, item) {
                list.push(value);
            }
        }
        Some(list)
    }
}
