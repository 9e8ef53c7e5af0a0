//! A command's output for people about one host, and how the pages of several hosts become one.

use std::collections::BTreeMap;

use kelson_apid::openmetrics;
use kelson_proto::v1::MetricFamily;

use super::style::Tone;
use super::table::{Table, cell};
use super::terminal::Terminal;
use super::text::{escape, width};

/// The output about one host, by how it can stand beside that of another.
#[derive(Debug)]
pub enum Page {
    /// Rows of the same head become one table, with a column that tells the host.
    Table(Table),
    /// Each line says all by itself, and gets its host in front.
    Lines(String),
    /// Read as a whole, under a heading.
    Text(String),
    /// OpenMetrics text, where each sample gets its host as a label.
    Metrics(Vec<MetricFamily>),
}

impl Page {
    /// The page of one host, that needs no name.
    pub fn render(self, terminal: &Terminal) -> String {
        match self {
            Page::Table(table) => whole_table(table, terminal),
            Page::Lines(text) | Page::Text(text) => text,
            Page::Metrics(families) => metrics(&families, true),
        }
    }
}

/// A host's name as it stands in front of its lines, with room for the widest of all.
pub fn front(node: &str, widest: usize, terminal: &Terminal) -> String {
    let name = escape(node);
    let room = " ".repeat(widest.saturating_sub(width(&name)));
    format!("{}{room}  ", terminal.palette.paint(Tone::Quiet, &name))
}

/// The pages of hosts as one, in this order. `whole`: each of those that were asked is there.
pub fn merged(pages: Vec<(&str, Page)>, widest: usize, whole: bool, terminal: &Terminal) -> String {
    let mut out = String::new();
    let mut table: Option<Table> = None;
    let mut families: Option<Vec<MetricFamily>> = None;
    for (node, page) in pages {
        match page {
            Page::Table(rows) => {
                let rows = rows.led_by("NODE", &cell(node));
                match &mut table {
                    Some(table) => table.append(rows),
                    None => table = Some(rows),
                }
            }
            Page::Lines(text) => {
                let front = front(node, widest, terminal);
                text.lines().for_each(|line| out += &format!("{front}{line}\n"));
            }
            Page::Text(text) => {
                if !out.is_empty() {
                    out.push('\n');
                }
                let heading = format!("==> {} <==", escape(node));
                out += &format!("{}\n{text}", terminal.palette.paint(Tone::Strong, &heading));
            }
            Page::Metrics(reported) => {
                families
                    .get_or_insert_default()
                    .extend(reported.into_iter().map(|family| labelled(node, family)));
            }
        }
    }
    if let Some(table) = table {
        out += &whole_table(table, terminal);
    }
    if let Some(families) = families {
        out += &metrics(&families, whole);
    }
    out
}

fn whole_table(table: Table, terminal: &Terminal) -> String {
    let table = if terminal.headers { table } else { table.bare() };
    table.render(terminal.width, terminal.palette)
}

/// The samples of a family, with the name of their host.
fn labelled(node: &str, mut family: MetricFamily) -> MetricFamily {
    family.labels.insert(0, "node".to_owned());
    family.samples.iter_mut().for_each(|sample| sample.labels.insert(0, node.to_owned()));
    family
}

/// The text of families. Families with the same name must stand together, so that their head is there once.
fn metrics(families: &[MetricFamily], whole: bool) -> String {
    let mut places = BTreeMap::new();
    for family in families {
        let next = places.len();
        places.entry(family.name.as_str()).or_insert(next);
    }
    let mut sorted: Vec<&MetricFamily> = families.iter().collect();
    sorted.sort_by_key(|family| places.get(family.name.as_str()));
    let mut text = openmetrics::Text::default();
    sorted.into_iter().for_each(|family| text.family(family));
    text.take() + if whole { openmetrics::END } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::family;

    fn shown(pages: Vec<(&str, Page)>) -> String {
        merged(pages, 6, true, &Terminal::plain())
    }

    #[test]
    fn lines_have_their_host_in_front() {
        let lines = |text: &str| Page::Lines(text.to_owned());
        assert_eq!(
            shown(vec![
                ("edge-2", lines("db: up\nweb: up\n")),
                ("quiet", lines("")),
                ("lab", lines("db: up\n"))
            ]),
            "edge-2  db: up\nedge-2  web: up\nlab     db: up\n"
        );
    }

    #[test]
    fn what_is_read_as_a_whole_has_a_heading() {
        let text = |text: &str| Page::Text(text.to_owned());
        assert_eq!(
            shown(vec![("a\x1b", text("one\n")), ("b", text("two\n\nthree\n"))]),
            "==> a\\x1b <==\none\n\n==> b <==\ntwo\n\nthree\n"
        );
    }

    #[test]
    fn samples_of_a_family_stand_together() {
        let family = |name: &str| MetricFamily { help: "It.".to_owned(), ..family(name, &[("db", 1.0)]) };
        let pages = || {
            vec![
                ("a", Page::Metrics(vec![family("z"), family("c")])),
                ("b", Page::Metrics(vec![family("z")])),
            ]
        };
        let text = "# TYPE z unknown\n# HELP z It.\nz{node=\"a\",service=\"db\"} 1\nz{node=\"b\",service=\"db\"} 1\n\
                    # TYPE c unknown\n# HELP c It.\nc{node=\"a\",service=\"db\"} 1\n";
        assert_eq!(shown(pages()), format!("{text}# EOF\n"));
        assert_eq!(merged(pages(), 1, false, &Terminal::plain()), text, "not whole, and it shows");
    }
}
