//! Words of a value: quotes and escapes, as systemd's `extract_first_word` reads them with `UNQUOTE` and `CUNESCAPE`.

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Why a value has no words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    #[error("a quote has no end")]
    Quote,
    #[error("a backslash has nothing after it")]
    Backslash,
    #[error("\\{0} is no escape that systemd knows")]
    Escape(String),
}

/// The words of a value, one after the other.
#[derive(Debug, Clone)]
pub struct Words<'t> {
    /// What was not read yet, without blanks before it.
    rest: &'t str,
}

impl<'t> Words<'t> {
    pub fn new(text: &'t str) -> Words<'t> {
        Words { rest: text.trim_start_matches(BLANKS) }
    }

    /// Takes the next word if it is this one, bare.
    pub fn takes(&mut self, word: &str) -> bool {
        match self.rest.strip_prefix(word) {
            Some(rest) if rest.is_empty() || rest.starts_with(BLANKS) => {
                self.rest = rest.trim_start_matches(BLANKS);
                true
            }
            _ => false,
        }
    }

    fn word(&mut self) -> Result<String, WordError> {
        let mut word = String::new();
        let mut quote: Option<char> = None;
        let mut letters = self.rest.chars();
        loop {
            let Some(letter) = letters.next() else {
                self.rest = "";
                return if quote.is_some() { Err(WordError::Quote) } else { Ok(word) };
            };
            match (quote, letter) {
                (_, '\\') => word.push(escape(&mut letters)?),
                (Some(open), letter) if letter == open => quote = None,
                (None, '\'' | '"') => quote = Some(letter),
                (None, letter) if BLANKS.contains(&letter) => {
                    self.rest = letters.as_str().trim_start_matches(BLANKS);
                    return Ok(word);
                }
                (_, letter) => word.push(letter),
            }
        }
    }
}

impl Iterator for Words<'_> {
    type Item = Result<String, WordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let word = self.word();
        if word.is_err() {
            self.rest = "";
        }
        Some(word)
    }
}

/// All words.
pub fn words(text: &str) -> Result<Vec<String>, WordError> {
    Words::new(text).collect()
}

/// A text with its escapes read, and all else as it is.
pub fn unescaped(text: &str) -> Result<String, WordError> {
    let (mut whole, mut letters) = (String::with_capacity(text.len()), text.chars());
    while let Some(letter) = letters.next() {
        whole.push(if letter == '\\' { escape(&mut letters)? } else { letter });
    }
    Ok(whole)
}

/// The letter that stands for what comes after a backslash.
fn escape(letters: &mut std::str::Chars<'_>) -> Result<char, WordError> {
    let Some(letter) = letters.next() else { return Err(WordError::Backslash) };
    let (digits, radix) = match letter {
        'a' => return Ok('\u{7}'),
        'b' => return Ok('\u{8}'),
        'f' => return Ok('\u{c}'),
        'n' => return Ok('\n'),
        'r' => return Ok('\r'),
        't' => return Ok('\t'),
        'v' => return Ok('\u{b}'),
        's' => return Ok(' '),
        '\\' | '"' | '\'' => return Ok(letter),
        'x' => (2_usize, 16),
        'u' => (4, 16),
        'U' => (8, 16),
        '0'..='7' => (3, 8),
        other => return Err(WordError::Escape(other.to_string())),
    };
    let all = letters.as_str();
    // The first digit of an octal number is the letter itself.
    let (own, count) = if radix == 8 { (letter.to_string(), 2) } else { (String::new(), digits) };
    let wrong = || WordError::Escape(letter.to_string());
    let (taken, rest) = all.split_at_checked(count).ok_or_else(wrong)?;
    let sound = taken.bytes().all(|digit| char::from(digit).is_digit(radix));
    let number = u32::from_str_radix(&(own + taken), radix).ok().filter(|_| sound);
    // A byte above 127 would be half of a letter.
    let least = if matches!(letter, 'u' | 'U') { u32::MAX } else { 0x7f };
    let found = number.filter(|number| (1..=least).contains(number)).and_then(char::from_u32);
    let found = found.ok_or_else(wrong)?;
    *letters = rest.chars();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_escaped_as_in_systemd() {
        for (text, expected) in [
            ("a b\tc ", vec!["a", "b", "c"]),
            ("\"a b\" 'c d'", vec!["a b", "c d"]),
            ("a\"b c\"d", vec!["ab cd"]),
            ("'' x \"\"", vec!["", "x", ""]),
            (r"\x41\u00e4\101\s\n'\t'", vec!["A\u{e4}A \n\t"]),
            (r#""it's" 'say "x"' \"x\'"#, vec!["it's", "say \"x\"", "\"x'"]),
            ("", vec![]),
            ("   ", vec![]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_systemd_refuses_is_refused() {
        for (text, expected) in [
            ("\"a", WordError::Quote),
            ("a \\", WordError::Backslash),
            (r"\d", WordError::Escape("d".to_owned())),
            (r"\x4", WordError::Escape("x".to_owned())),
            (r"\x00", WordError::Escape("x".to_owned())),
            (r"\xff", WordError::Escape("x".to_owned())),
            (r"\ud800", WordError::Escape("u".to_owned())),
            (r"\u+123", WordError::Escape("u".to_owned())),
        ] {
            assert_eq!(words(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn a_bare_word_can_be_taken() {
        let mut words = Words::new(" ; a;");
        assert!(words.takes(";") && !words.takes(";"));
        assert_eq!(words.next(), Some(Ok("a;".to_owned())));
        assert_eq!(words.next(), None);
    }
}
