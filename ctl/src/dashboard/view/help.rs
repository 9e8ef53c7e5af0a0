//! The list of keys.

use super::text::Text;
use crate::output::Tone;

const KEYS: &[(&str, &str)] = &[
    ("Up Down, k j", "the service above or below; in the pane: a line"),
    ("PgUp PgDn", "a page"),
    ("Home End", "the first or last; in the pane: the newest at End"),
    ("/", "only services with this in their names"),
    ("1 l", "logs of the service"),
    ("2 e", "events of the host and all services"),
    ("3 g", "what it waits for, and what waits for it"),
    ("4 d", "details: state, checks, events, spec"),
    ("Tab", "to the pane and back"),
    ("Enter", "the pane alone, and back"),
    ("s x r", "start, stop, restart it; asked about first"),
    ("Esc", "back; shows all services again"),
    ("Ctrl-L", "redraw"),
    ("q, Ctrl-C", "quit"),
    ("", ""),
    ("RST, CPU", "restarts that counted; percent of one CPU"),
];

pub fn rows() -> Vec<Text> {
    let row = |(key, what): &(&str, &str)| {
        vec![(Tone::Strong, format!("  {key:<13}")), (Tone::Plain, (*what).to_owned())]
    };
    std::iter::once(Text::new()).chain(KEYS.iter().map(row)).collect()
}
