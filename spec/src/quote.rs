//! Showing a text out of a file in a message: never long, never with bytes that a terminal would obey.

use std::borrow::Cow;
use std::io;
use std::path::Path;

/// The longest text that is shown whole, in characters.
const LONGEST: usize = 60;

/// A text in quotes, cut where it is long.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

/// A key, path or number as it is where that is harmless, else in quotes.
pub fn shown(text: &str) -> String {
    let plain = !text.is_empty() && text.len() <= 2 * LONGEST && text.bytes().all(|b| b.is_ascii_graphic());
    if plain { text.to_owned() } else { quoted(text) }
}

/// A path whole; in quotes where a terminal would obey a byte of it.
pub fn path(path: &Path) -> Cow<'_, str> {
    let text = path.to_string_lossy();
    if text.contains(char::is_control) { Cow::Owned(format!("{text:?}")) } else { text }
}

/// An error of the system in the system's words, without Rust's `(os error 2)`.
pub fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_whole_and_tame() {
        assert_eq!(path(Path::new("/etc/my services/web.yaml")), "/etc/my services/web.yaml");
        assert_eq!(path(Path::new("/etc/a\u{1b}[2J.yaml")), r#""/etc/a\u{1b}[2J.yaml""#);
    }

    #[test]
    fn long_and_strange_texts_are_tamed() {
        assert_eq!(shown("/etc/web.env"), "/etc/web.env");
        assert_eq!(shown("a b\u{1b}[31m"), r#""a b\u{1b}[31m""#);
        assert_eq!(shown(""), r#""""#);
        assert_eq!(quoted(&"ü".repeat(61)), format!("\"{}\"…", "ü".repeat(60)));
        assert!(shown(&"9".repeat(1000)).len() < 80);
    }
}
