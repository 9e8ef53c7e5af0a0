//! The numbers of signals as images name them.

use kelson_spec::kernel;

/// Names that images use for signals which service files call otherwise.
const ALIASES: [(&str, &str); 3] = [("CLD", "CHLD"), ("IOT", "ABRT"), ("POLL", "IO")];

/// `SIGTERM`, `term`, `15`, `SIGRTMIN+3`, `RTMAX-1`.
pub fn number(text: &str) -> Option<i32> {
    let text = text.trim().to_ascii_uppercase();
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    let known = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(text.as_str(), |(_, known)| known);
    kernel::parse_signal(known).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named_in_many_ways() {
        for (text, is) in [
            ("SIGTERM", Some(15)),
            ("TERM", Some(15)),
            ("sigquit", Some(3)),
            ("15", Some(15)),
            (" SIGWINCH ", Some(28)),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+3", Some(37)),
            ("RTMAX-1", Some(63)),
            ("SIGRTMAX", Some(64)),
            ("SIGXFSZ", Some(25)),
            ("SIGCLD", Some(17)),
            ("iot", Some(6)),
            ("POLL", Some(29)),
            ("SIGRTMIN+31", None),
            ("SIGRTMIN-1", None),
            ("SIGRTMIN+-1", None),
            ("RTMAX-31", None),
            ("0", None),
            ("65", None),
            ("-1", None),
            ("", None),
            ("SIG", None),
            ("SIGNONE", None),
        ] {
            assert_eq!(number(text), is, "{text:?}");
        }
    }
}
