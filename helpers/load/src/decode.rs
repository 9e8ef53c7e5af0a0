//! From the tree of a file to the spec it means, with every mistake on the way.
//!
//! A decoder never stops at a mistake: it notes it, leaves that value out, and goes on. Its caller looks at
//! the end whether anything was noted. Functions give `None` exactly when they noted a mistake (or a caller
//! above them did).

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::accounts::{AccountError, Accounts};
use crate::member::Ties;
use crate::read::ReadError;
use crate::tree::{Entry, Node, Position, Value};
use kelson_spec::features::{Feature, Features, MissingFeature};
use kelson_spec::loaded::{Diagnostic, Unchecked};
use kelson_spec::names::{LONGEST_NAME, is_name};
pub use kelson_spec::quote::{quoted, shown};
use kelson_spec::service::{Credentials, ServiceSpec};

/// How many mistakes of one file are shown.
pub const MOST_MISTAKES: usize = 100;

/// The files outside the configuration folder that specs refer to.
pub struct Context {
    /// Before every absolute path: `/`, or the root of an image that is checked elsewhere. `None`: neither is at hand.
    root: Option<PathBuf>,
    /// Of the `init` that is to run what the files say.
    features: Features,
    accounts: OnceCell<Result<Accounts, (&'static str, ReadError)>>,
    unchecked: RefCell<BTreeSet<Unchecked>>,
}

impl Context {
    pub fn new(root: Option<&Path>, features: Features) -> Self {
        Context {
            root: root.map(Path::to_owned),
            features,
            accounts: OnceCell::new(),
            unchecked: RefCell::default(),
        }
    }

    /// # Errors
    /// The `init` that is to run what the files say does not have it.
    pub fn require(&self, feature: Option<Feature>) -> Result<(), MissingFeature> {
        feature.map_or(Ok(()), |feature| self.features.require(feature))
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

    /// The facts that could not be checked so far.
    pub fn unchecked(&self) -> BTreeSet<Unchecked> {
        self.unchecked.borrow().clone()
    }

    /// The number of a group, where /etc/group has it.
    pub fn group(&self, name: &str) -> Option<u32> {
        self.accounts()?.as_ref().ok()?.group_named(name)
    }

    /// A user that was resolved without the files that name users, as far as that is possible.
    pub fn unresolved(
        &self,
        text: &str,
        resolved: Result<Credentials, AccountError>,
    ) -> Result<Credentials, AccountError> {
        match resolved {
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

/// A spec and where it names other services: `depends` first, then `after` and `when`, in the order of a walk.
#[derive(Debug)]
pub struct Decoded {
    pub spec: ServiceSpec,
    pub references: Vec<Position>,
    /// The names of `before`, `partOf`, `conflicts`, `onFailure`, `onSuccess` and `reload.with`, each with its key.
    pub mentions: Vec<(&'static str, String, Position)>,
    /// How many of the first entries of `depends` come from the group and not from the file.
    pub by_group: usize,
    /// Where what it runs is written.
    pub workload: Position,
    pub csi: CsiPlaces,
    /// Where its `disconnect` is written.
    pub disconnect: Option<Position>,
    /// Where its `templates` are written.
    pub templates: Option<Position>,
    /// Where it names what it waits for in the fleet, at first.
    pub registered: Option<Position>,
}

/// Where a service file names plugins and their volumes.
#[derive(Debug, Default)]
pub struct CsiPlaces {
    /// The plugin that the service is.
    pub provides: Option<Position>,
    /// The volumes of the source `csi`, in their order.
    pub volumes: Vec<Position>,
    /// Those of the source `overlay`.
    pub overlays: Vec<Position>,
}

/// Notes the mistakes of one file.
pub struct Decoder<'a> {
    pub context: &'a Context,
    pub file: &'a Path,
    /// The service that a mistake makes faulty.
    pub service: Option<&'a str>,
    pub diagnostics: Vec<Diagnostic>,
    /// Entries that are no mistakes and hardly meant.
    pub warnings: Vec<Diagnostic>,
    /// The name of the file without its ending.
    pub stem: String,
    /// Where services are named: the entries of `depends`, then those of `after` and `when`, in the order of a walk.
    pub references: Vec<Position>,
    /// The names of `before`, `partOf`, `conflicts`, `onFailure`, `onSuccess` and `reload.with`, each with its key.
    pub mentions: Vec<(&'static str, String, Position)>,
    /// The same of each entry of the machine file's `builtins`.
    pub builtin_references: Vec<Vec<Position>>,
    /// Where the service file says what it runs.
    pub workload: Position,
    pub csi: CsiPlaces,
    /// Where the service file names what it waits for in the fleet, at first.
    pub registered: Option<Position>,
    pub ties: Ties,
    /// Variables in the commands are replaced by their values.
    pub expands: bool,
    /// Paths within the container at which something of the host is seen.
    pub targets: BTreeSet<PathBuf>,
    /// The way from the root of the file to the value at hand: `depends[2].service`.
    place: Vec<Step>,
}

enum Step {
    Key(Cow<'static, str>),
    Index(usize),
}

/// A mistake or a warning at a position of a file.
pub fn diagnostic(
    file: &Path,
    at: Position,
    service: Option<&str>,
    message: impl Into<String>,
) -> Diagnostic {
    let (line, column) = (at.line, at.column);
    let (file, service) = (file.to_owned(), service.map(str::to_owned));
    Diagnostic { file, line, column, service, message: message.into() }
}

/// Describes the value of a node, for "found …".
pub fn found(node: &Node) -> String {
    match &node.value {
        Value::Null => "nothing".to_owned(),
        Value::Scalar(text) => quoted(text),
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "a mapping".to_owned(),
    }
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
            mentions: Vec::new(),
            builtin_references: Vec::new(),
            workload: Position::START,
            csi: CsiPlaces::default(),
            registered: None,
            ties: Ties::default(),
            expands: false,
            targets: BTreeSet::new(),
            place: Vec::new(),
        }
    }

    /// Does something at the value of a key of the mapping at hand.
    pub fn at_key<T>(&mut self, key: impl Into<Cow<'static, str>>, act: impl FnOnce(&mut Self) -> T) -> T {
        self.at(Step::Key(key.into()), act)
    }

    fn at<T>(&mut self, step: Step, act: impl FnOnce(&mut Self) -> T) -> T {
        self.place.push(step);
        let done = act(self);
        self.place.pop();
        done
    }

    /// Notes a mistake of the value at hand.
    pub fn wrong(&mut self, at: Position, message: impl fmt::Display) {
        let mistake = self.found(at, message);
        self.diagnostics.push(mistake);
    }

    /// Notes a mistake of the value at hand, and gives nothing in its place.
    pub fn refuse<T>(&mut self, node: &Node, message: impl fmt::Display) -> Option<T> {
        self.wrong(node.at, message);
        None
    }

    /// Notes that something of another kind stands here.
    pub fn expected<T>(&mut self, node: &Node, what: &str) -> Option<T> {
        self.refuse(node, format_args!("found {} where {what} belongs", found(node)))
    }

    /// Notes what is no mistake and hardly meant, of an item of the list at hand.
    pub fn warn(&mut self, index: usize, at: Position, message: impl fmt::Display) {
        let warning = self.at(Step::Index(index), |d| d.found(at, message));
        self.warnings.push(warning);
    }

    fn found(&self, at: Position, message: impl fmt::Display) -> Diagnostic {
        let mut text = String::new();
        for (place, step) in self.place.iter().enumerate() {
            text += &match step {
                Step::Key(key) => format!("{}{}", if place == 0 { "" } else { "." }, shown(key)),
                Step::Index(index) => format!("[{index}]"),
            };
        }
        let before = if text.is_empty() { "" } else { ": " };
        diagnostic(self.file, at, self.service, format!("{text}{before}{message}"))
    }

    /// The keys and values of a mapping of any keys; a key that is none or stands twice is noted and left out.
    pub fn entries<'n>(&mut self, node: &'n Node) -> Option<Vec<(&'n str, &'n Entry)>> {
        let Value::Mapping(entries) = &node.value else {
            return self.expected(node, "a mapping of keys to values");
        };
        let mut good: Vec<(&str, &Entry)> = Vec::with_capacity(entries.len());
        let mut seen = HashMap::with_capacity(entries.len());
        for entry in entries {
            let at = entry.key.at;
            match &entry.key.value {
                Value::Scalar(key) => match seen.get(key.as_str()) {
                    None => {
                        seen.insert(key.as_str(), at.line);
                        good.push((key, entry));
                    }
                    Some(line) => {
                        let text = format!("this key stands here a second time; the first is in line {line}");
                        self.at_key(key.clone(), |d| d.wrong(at, text));
                    }
                },
                _ => self.wrong(at, format_args!("found {} where a key belongs", found(&entry.key))),
            }
        }
        Some(good)
    }

    /// A mapping of any keys to values. `mistake` says what is wrong with a key beside those before it, `none` what to do
    /// where a value is missing.
    pub fn pairs<T>(
        &mut self,
        node: &Node,
        none: &str,
        mistake: impl Fn(&str, &[(String, T)]) -> Option<String>,
        mut decode: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<(String, T)>> {
        let mut list = Vec::new();
        for (key, entry) in self.entries(node)? {
            if let Some(message) = mistake(key, &list) {
                self.wrong(entry.key.at, message);
                continue;
            }
            let value = self.at_key(key.to_owned(), |d| match entry.value.value {
                Value::Null => d.refuse(&entry.value, format_args!("this key has no value; {none}")),
                _ => decode(d, &entry.value),
            });
            list.extend(value.map(|value| (key.to_owned(), value)));
        }
        Some(list)
    }

    /// The items of a list, each decoded; items with a mistake are left out.
    pub fn list<'n, T>(
        &mut self,
        node: &'n Node,
        what: &str,
        mut decode: impl FnMut(&mut Self, &'n Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Value::Sequence(items) = &node.value else { return self.expected(node, what) };
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            list.extend(self.at(Step::Index(index), |d| match item.value {
                Value::Null => d.refuse(item, "this item is empty; give it a value or remove it"),
                _ => decode(d, item),
            }));
        }
        Some(list)
    }

    /// Refuses a list of more than `most`, at the first of those.
    pub fn at_most<M: fmt::Display>(
        &mut self,
        node: &Node,
        most: usize,
        refuse: impl FnOnce(usize) -> M,
    ) -> Option<()> {
        let Value::Sequence(items) = &node.value else { return Some(()) };
        items.get(most).map_or(Some(()), |first| self.refuse(first, refuse(items.len())))
    }

    /// A single value as it is written, where `what` is expected.
    pub fn scalar<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar(text) => Some(text),
            _ => self.expected(node, what),
        }
    }

    /// A text: any single value as it is written. It goes to the kernel in the end, so it holds no NUL.
    pub fn text(&mut self, node: &Node) -> Option<String> {
        let text = self.scalar(node, "a text")?;
        if text.contains('\0') {
            return self.refuse(node, "a NUL byte cannot stand in a text");
        }
        Some(text.to_owned())
    }

    /// A text that is not empty.
    pub fn word(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node)?;
        if text.is_empty() { self.refuse(node, "this text is empty") } else { Some(text) }
    }

    /// A path from `/`.
    pub fn path(&mut self, node: &Node) -> Option<PathBuf> {
        let text = self.text(node)?;
        if !text.starts_with('/') {
            let text = format!("{} is not a path from the root; write it with / first", quoted(&text));
            return self.refuse(node, text);
        }
        Some(PathBuf::from(text))
    }

    /// The name of a service or a check.
    pub fn name(&mut self, node: &Node) -> Option<String> {
        let text = self.scalar(node, "a name")?;
        if !is_name(text) {
            let text = format!(
                "{} is not a name; use small letters, digits and -, no - first, at most {LONGEST_NAME}",
                quoted(text)
            );
            return self.refuse(node, text);
        }
        Some(text.to_owned())
    }

    /// The key `name` of a file, which may only repeat how the file is called. Whether it does.
    pub fn file_name(&mut self, node: &Node) -> Option<bool> {
        let name = self.name(node)?;
        if name != self.stem {
            let text = format!(
                "{} is not the file's name; write {}, or rename the file to {name}.yaml",
                quoted(&name),
                self.stem
            );
            self.wrong(node.at, text);
        }
        Some(name == self.stem)
    }
}
