//! A YAML file as a tree in which everything knows its line and column.
//!
//! Built from the parser's stream of events with a stack of its own: the depth of a file costs heap, never stack. An alias
//! shares the node it names, but is counted as if it were written out, so that a file of a few lines cannot grow into
//! millions of values.

use std::collections::HashMap;
use std::rc::Rc;

use kelson_spec::quote::shown;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

/// How deep lists and mappings may be nested; the deepest place of a sound file is 8.
const MAX_DEPTH: u32 = 32;
/// How many values a file may hold, aliases written out.
const MAX_VALUES: u32 = 100_000;

/// Line and column, counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    pub const START: Position = Position { line: 1, column: 1 };
    /// The file as a whole.
    pub const FILE: Position = Position { line: 0, column: 0 };

    fn of(marker: &Marker) -> Self {
        Position {
            line: u32::try_from(marker.line()).unwrap_or(u32::MAX).max(1),
            column: u32::try_from(marker.col()).unwrap_or(u32::MAX).saturating_add(1),
        }
    }
}

#[derive(Debug)]
pub struct Node {
    pub at: Position,
    pub value: Value,
}

impl Node {
    /// The value of a key, where this is a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let Value::Mapping(entries) = &self.value else { return None };
        let entry = entries.iter().find(|entry| entry.key.is(key));
        entry.map(|entry| &*entry.value)
    }

    /// The same without the first entry of this key.
    pub fn without(&self, key: &str) -> Node {
        let value = match &self.value {
            Value::Null => Value::Null,
            Value::Scalar(text) => Value::Scalar(text.clone()),
            Value::Sequence(items) => Value::Sequence(items.clone()),
            Value::Mapping(entries) => {
                let first = entries.iter().position(|entry| entry.key.is(key));
                let rest = entries.iter().enumerate().filter(|(place, _)| Some(*place) != first);
                Value::Mapping(rest.map(|(_, entry)| entry.clone()).collect())
            }
        };
        Node { at: self.at, value }
    }

    /// The text of a single value.
    pub fn scalar(&self) -> Option<&str> {
        if let Value::Scalar(text) = &self.value { Some(text) } else { None }
    }

    /// It is this single value.
    pub fn is(&self, text: &str) -> bool {
        self.scalar() == Some(text)
    }

    pub fn is_mapping(&self) -> bool {
        matches!(self.value, Value::Mapping(_))
    }

    pub fn is_empty_list(&self) -> bool {
        matches!(&self.value, Value::Sequence(items) if items.is_empty())
    }
}

#[derive(Debug)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// The text as it stands in the file, without quotes; what it means is for the decoder to say.
    Scalar(String),
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub key: Rc<Node>,
    pub value: Rc<Node>,
}

/// The reason why a file is no tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Mistake {
    pub at: Position,
    pub message: String,
}

impl Mistake {
    fn new(at: Position, message: impl Into<String>) -> Self {
        Mistake { at, message: message.into() }
    }
}

/// A finished node with its measures.
#[derive(Clone)]
struct Built {
    node: Rc<Node>,
    depth: u32,
    values: u32,
}

/// A list or mapping whose end has not been seen.
struct Open {
    at: Position,
    anchor: usize,
    depth: u32,
    values: u32,
    content: Content,
}

enum Content {
    Sequence(Vec<Rc<Node>>),
    Mapping { entries: Vec<Entry>, key: Option<Rc<Node>> },
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Built>,
    root: Option<Built>,
}

/// Reads the first document of `text`. The tree is there whenever the text is sound YAML; a second document, say, is a
/// mistake beside a whole tree.
pub fn parse(text: &str) -> (Option<Rc<Node>>, Vec<Mistake>) {
    let mut mistakes = Vec::new();
    let mut builder = Builder::default();
    let mut documents = 0_u32;
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(found) => found,
            Err(error) => {
                mistakes.push(syntax_mistake(text, &error));
                return (None, mistakes);
            }
        };
        let at = Position::of(&span.start);
        if matches!(event, Event::DocumentStart(_)) {
            documents = documents.saturating_add(1);
            if documents > 1 {
                mistakes.push(Mistake::new(
                    at,
                    "a second document starts here; a file holds one, without a line ---",
                ));
                break;
            }
        }
        if let Err(mistake) = builder.take(event, at, &mut mistakes) {
            mistakes.push(mistake);
            return (None, mistakes);
        }
    }
    (builder.root.map(|built| built.node), mistakes)
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Position, mistakes: &mut Vec<Mistake>) -> Result<(), Mistake> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                check_tag(tag.as_deref(), at, mistakes);
                let null =
                    style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                // The parser puts a value that is not there at the next word; its key is where one looks.
                let at = if null && text.is_empty() { self.key_position().unwrap_or(at) } else { at };
                let value = if null { Value::Null } else { Value::Scalar(text.into_owned()) };
                let built = Built { node: Rc::new(Node { at, value }), depth: 0, values: 1 };
                self.add(anchor, built, at)
            }
            Event::SequenceStart(anchor, tag) => {
                check_tag(tag.as_deref(), at, mistakes);
                self.push(anchor, at, Content::Sequence(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                check_tag(tag.as_deref(), at, mistakes);
                self.push(anchor, at, Content::Mapping { entries: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let value = match open.content {
                    Content::Sequence(items) => Value::Sequence(items),
                    Content::Mapping { entries, .. } => Value::Mapping(entries),
                };
                let node = Rc::new(Node { at: open.at, value });
                let built = Built { node, depth: open.depth.saturating_add(1), values: open.values };
                self.add(open.anchor, built, open.at)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(built) => {
                    let built = built.clone();
                    self.add(0, built, at)
                }
                None => Err(Mistake::new(at, "this alias stands within the value it names")),
            },
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn key_position(&self) -> Option<Position> {
        match self.open.last().map(|open| &open.content) {
            Some(Content::Mapping { key: Some(key), .. }) => Some(key.at),
            _ => None,
        }
    }

    fn push(&mut self, anchor: usize, at: Position, content: Content) -> Result<(), Mistake> {
        if self.open.len() >= MAX_DEPTH as usize {
            return Err(too_deep(at));
        }
        self.open.push(Open { at, anchor, depth: 0, values: 1, content });
        Ok(())
    }

    /// Puts a finished node, which stands or is named at `at`, into what is open.
    fn add(&mut self, anchor: usize, built: Built, at: Position) -> Result<(), Mistake> {
        if anchor != 0 {
            self.anchors.insert(anchor, built.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(built);
            return Ok(());
        };
        open.depth = open.depth.max(built.depth);
        open.values = open.values.saturating_add(built.values);
        if open.depth >= MAX_DEPTH {
            return Err(too_deep(at));
        }
        if open.values > MAX_VALUES {
            let text = format!("the file holds more than {MAX_VALUES} values, aliases written out");
            return Err(Mistake::new(at, text));
        }
        match &mut open.content {
            Content::Sequence(items) => items.push(built.node),
            Content::Mapping { entries, key } => match key.take() {
                None => *key = Some(built.node),
                Some(key) => entries.push(Entry { key, value: built.node }),
            },
        }
        Ok(())
    }
}

/// Makes a mistake of the parser's error. Points at a tab in the indentation, where the parser blames the
/// value before it.
fn syntax_mistake(text: &str, error: &ScanError) -> Mistake {
    let tab = || {
        text.lines().zip(1..).find_map(|(line, number)| {
            let indent = line.find(|c: char| !c.is_ascii_whitespace()).unwrap_or(0);
            let column = line.get(..indent)?.find('\t')?;
            Some(Position {
                line: number,
                column: u32::try_from(column).unwrap_or(u32::MAX).saturating_add(1),
            })
        })
    };
    if error.info().contains("tab")
        && let Some(at) = tab()
    {
        let text = "this is not YAML: a tab stands before the first word of this line; indent with spaces";
        return Mistake::new(at, text);
    }
    Mistake::new(Position::of(error.marker()), format!("this is not YAML: {}", error.info()))
}

fn too_deep(at: Position) -> Mistake {
    Mistake::new(at, format!("lists and mappings are nested more than {MAX_DEPTH} deep"))
}

fn check_tag(tag: Option<&saphyr_parser::Tag>, at: Position, mistakes: &mut Vec<Mistake>) {
    if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) {
        mistakes.push(Mistake::new(
            at,
            format!("the tag {} means nothing here; remove it", shown(&tag.to_string())),
        ));
    }
}
