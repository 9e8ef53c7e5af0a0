//! The one place for output: formats, the terminal, and how things look in each.
//!
//! Commands hand over what they know in the form of [`views`]; JSON and YAML are made from these alone, so
//! they stay the same whatever a table looks like. The output for people is a [`page`]. Everything that is
//! printed goes through [`print()`].

pub mod drawing;
pub mod faulty;
pub mod page;
pub mod retry;
pub mod screen;
pub mod size;
pub mod style;
pub mod table;
pub mod terminal;
pub mod text;
pub mod time;
pub mod timeline;
pub mod tree;
pub mod views;

use std::io::Write as _;

use serde::Serialize;
use serde_yaml::Value;

pub use page::Page;
pub use size::size;
pub use style::{
    Palette, Tone, health_name, service_tone, standing_name, state_name, state_tone, stream_name,
};
pub use table::{Cell, Rows, Table, cell, or_dash, toned};
pub use terminal::{Progress, Terminal};
pub use text::{escape, escape_bytes, escape_lines, fit, list, nearest, width};
pub use views::{View, joined, some};
pub(crate) use views::{object, views};

use crate::failure::Failure;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs; stable
    Json,
    /// As JSON, in YAML
    Yaml,
}

impl Format {
    /// One value as a whole, in a format for programs. In `Table` it is empty.
    pub fn document(self, value: &impl Serialize) -> Result<String, Failure> {
        match self {
            Format::Table => Ok(String::new()),
            Format::Json => Ok(serde_json::to_string_pretty(value).map_err(not_written)? + "\n"),
            Format::Yaml => serde_yaml::to_string(value).map_err(not_written),
        }
    }

    /// One value of a stream: a line of JSON, a document of YAML. In `Table` it is empty.
    pub fn item(self, value: &impl Serialize) -> Result<String, Failure> {
        match self {
            Format::Table => Ok(String::new()),
            Format::Json => Ok(serde_json::to_string(value).map_err(not_written)? + "\n"),
            Format::Yaml => Ok("---\n".to_owned() + &serde_yaml::to_string(value).map_err(not_written)?),
        }
    }
}

/// The value with the name of its host in front; of a list, each of its values.
pub fn led(node: &str, value: Value) -> Vec<Value> {
    let values = if let Value::Sequence(values) = value { values } else { vec![value] };
    values.into_iter().map(|value| views::joined(object!(node: node), value)).collect()
}

fn not_written(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("the result cannot be written: {error}"))
}

/// Writes to the standard output, at once.
///
/// # Errors
/// The output cannot be written to (a full disk). When its reader has gone this process ends, as others do, by
/// SIGPIPE. The signal is ignored until then, so that a connection that breaks is an error and not an end.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// [`print()`] for what need not be UTF-8.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => terminal::end_by_sigpipe(),
        Err(error) => Err(Failure::Failed(format!("cannot write the output: {error}"))),
    }
}

/// Says something beside the result, on the standard error.
pub fn note(text: &str) {
    // There is nobody to report a failure to.
    drop(writeln!(std::io::stderr().lock(), "kelsonctl: {}", text::escape_lines(text)));
}

/// [`note`] about one of several hosts, where it has a name.
pub fn note_of(node: Option<&str>, text: &str) {
    match node {
        Some(node) => note(&format!("{node}: {text}")),
        None => note(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_in_each_format() {
        let value = serde_json::json!([{"name": "db", "pid": null}]);
        assert_eq!(Format::Table.document(&value).unwrap(), "");
        assert_eq!(
            Format::Json.document(&value).unwrap(),
            "[\n  {\n    \"name\": \"db\",\n    \"pid\": null\n  }\n]\n"
        );
        assert_eq!(Format::Yaml.document(&value).unwrap(), "- name: db\n  pid: null\n");
    }

    #[test]
    fn the_host_stands_in_front_of_each_object() {
        let view = object!(kind: "task", name: "a", start_ms: 5.0, duration_ms: 0.5);
        let list = led("edge", Value::Sequence(vec![view.clone(), view.clone()]));
        assert_eq!(list.len(), 2);
        assert_eq!(led("edge", view), list[..1]);
        assert_eq!(
            Format::Json.item(&list[0]).unwrap(),
            "{\"node\":\"edge\",\"kind\":\"task\",\"name\":\"a\",\"startMs\":5.0,\"durationMs\":0.5}\n"
        );
    }

    #[test]
    fn items_of_a_stream_are_told_apart() {
        let value = serde_json::json!({"seq": 1});
        assert_eq!(Format::Json.item(&value).unwrap(), "{\"seq\":1}\n");
        assert_eq!(Format::Yaml.item(&value).unwrap(), "---\nseq: 1\n");
    }
}
