//! Text that others wrote, as it may be shown: a service, a container runtime, a file, a peer.
//!
//! An escape sequence could move the cursor of a terminal, change its title or fake other lines.

/// Whether the character must not reach a terminal: a control character, or one that ends a line or turns the
/// direction of writing.
pub fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The characters of a text, with `instead` in the place of each harmful one, or nothing.
pub fn harmless(text: &str, instead: Option<char>) -> impl DoubleEndedIterator<Item = char> {
    text.chars().filter_map(move |c| if is_harmful(c) { instead } else { Some(c) })
}

/// The words of the system for an error: "connection refused".
pub fn of_error(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_lowercase(),
        None => error.to_string(),
    }
}

/// The first bytes of a text, at most `most`, cut where a character ends.
pub fn start_of(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default()
}

/// The last bytes of a text, at most `most`, cut where a character begins.
pub fn end_of(text: &str, most: usize) -> &str {
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from = from.saturating_add(1);
    }
    text.get(from..).unwrap_or_default()
}

/// How many parts the text of many has.
const NAMED: usize = 8;

/// `a, b, c`; of more than eight parts the first ones, `a, b, 9998 more`. A host may have ten thousand services.
pub fn first_of_many<T: std::fmt::Display>(
    parts: impl ExactSizeIterator<Item = T>,
    separator: &str,
) -> String {
    let more = parts.len().saturating_sub(NAMED);
    let mut texts: Vec<String> = parts.take(NAMED).map(|part| part.to_string()).collect();
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    texts.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_words_of_the_system() {
        let text = |number| of_error(&std::io::Error::from_raw_os_error(number));
        assert_eq!(text(111), "connection refused");
        assert_eq!(text(2), "no such file or directory");
    }

    #[test]
    fn of_many_the_first_are_named() {
        let of = |count: usize| first_of_many(0..count, ", ");
        assert_eq!([of(0), of(1), of(8)], ["", "0", "0, 1, 2, 3, 4, 5, 6, 7"]);
        assert_eq!(
            [of(9), of(10_000)],
            ["0, 1, 2, 3, 4, 5, 6, 7, 1 more", "0, 1, 2, 3, 4, 5, 6, 7, 9992 more"]
        );
        assert_eq!(first_of_many(["a", "b"].iter(), " or "), "a or b");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let starts = [0, 1, 2, 3, 4, 9].map(|most| start_of("aé世", most));
        assert_eq!(starts, ["", "a", "a", "aé", "aé", "aé世"]);
        let ends = [0, 2, 3, 4, 5, 9].map(|most| end_of("aé世", most));
        assert_eq!(ends, ["", "", "世", "世", "é世", "aé世"]);
    }

    #[test]
    fn nothing_acts_on_a_terminal() {
        let all: String = (0_u32..0x3000).filter_map(char::from_u32).collect();
        assert!(!harmless(&all, None).any(char::is_control));
        let of = |text, instead| harmless(text, instead).collect::<String>();
        assert_eq!(of("a\x1b[2Jb\r\nc\u{202e}\u{9b}", Some(' ')), "a [2Jb  c  ");
        assert_eq!(of("a\x1b[2Jb\r\nc\u{202e}", None), "a[2Jbc");
        assert_eq!(of("Grüße, 世界", None), "Grüße, 世界");
    }
}
