//! Text of services as it may be shown: nothing in it can steer the terminal, and its width is known.
//!
//! Texts of a service about itself (status, messages, log lines) are not trusted: an escape sequence in one
//! could move the cursor, change the title or fake other lines. So control characters are shown, never sent.

use std::borrow::Cow;

use kelson_sys::text::is_harmful;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

fn push_escaped(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if (c as u32) < 0x100 => *out += &format!("\\x{:02x}", c as u32),
        c => *out += &format!("\\u{{{:x}}}", c as u32),
    }
}

/// One line of text with all control characters shown as `\n`, `\x1b`, `\u{202e}`.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmful(c) { push_escaped(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Like [`escape`] for text of several lines: the line breaks stay.
pub fn escape_lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

/// A log line for a terminal: bytes that are not UTF-8 are shown as `\xff`; tabs stay, they do no harm.
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c != '\t' && is_harmful(c) { push_escaped(&mut out, c) } else { out.push(c) }
        }
        for byte in chunk.invalid() {
            out += &format!("\\x{byte:02x}");
        }
    }
    out
}

/// Bytes as programs read them: what is not UTF-8 is replaced.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Columns that the text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text cut to at most `columns` columns, with an ellipsis where something is missing.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    if columns == 0 {
        return Cow::Borrowed("");
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        used += wide;
        out.push(c);
    }
    out.push('…');
    Cow::Owned(out)
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// The candidate that was most likely meant by `wrong`, if one is near enough. A beginning that was typed right counts
/// as near, however long the rest is.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    kelson_spec::near(wrong, candidates.iter().copied())
        .or_else(|| candidates.iter().copied().find(|name| wrong.len() >= 2 && name.starts_with(wrong)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_survives() {
        let all: String = (0u32..0x300).filter_map(char::from_u32).collect();
        assert!(!escape(&all).chars().any(|c| c.is_control()));
        assert_eq!(escape("a\x1b[31mred\x07\u{9b}2J"), "a\\x1b[31mred\\x07\\x9b2J");
        assert_eq!(escape("two\nlines\ttab\r"), "two\\nlines\\ttab\\r");
        assert_eq!(escape("safe \u{202e}txt.exe"), "safe \\u{202e}txt.exe");
        assert!(matches!(escape("Grüße, 世界"), Cow::Borrowed("Grüße, 世界")));
    }

    #[test]
    fn bytes_that_are_no_text_are_shown() {
        assert_eq!(escape_bytes(b"ok\t\xff\xfe\x1b]0;title\x07"), "ok\t\\xff\\xfe\\x1b]0;title\\x07");
        // A C1 control in UTF-8 is as dangerous as ESC.
        assert_eq!(escape_bytes("\u{9b}31m".as_bytes()), "\\x9b31m");
    }

    #[test]
    fn line_breaks_stay_where_lines_are_meant() {
        assert_eq!(escape_lines("a\x1b\nb\r\n"), "a\\x1b\nb\\r\n");
    }

    #[test]
    fn cutting_counts_columns_not_characters() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdefg", 6), "abcde…");
        assert_eq!(fit("世界世界", 8), "世界世界");
        assert_eq!(fit("世界世界", 6), "世界…");
        assert_eq!(width(&fit("世界世界", 6)), 5);
        assert_eq!(fit("abc", 1), "…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(width("é"), 1, "a combining accent takes no column");
    }

    #[test]
    fn names_that_are_near() {
        let names = ["web", "db", "migrate", "nginx", "redis-server"];
        assert_eq!(nearest("wbe", names), Some("web"));
        assert_eq!(nearest("ngnix", names), Some("nginx"));
        assert_eq!(nearest("redis", names), Some("redis-server"));
        assert_eq!(nearest("dd", names), Some("db"));
        assert_eq!(nearest("postgres", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn lists_read_like_a_sentence() {
        let words = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(list(&words[..0]), "");
        assert_eq!(list(&words[..1]), "a");
        assert_eq!(list(&words[..2]), "a and b");
        assert_eq!(list(&words), "a, b and c");
    }
}
