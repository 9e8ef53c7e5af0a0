//! Variables of a compose file: `$NAME`, `${NAME}`, and what may stand when one is missing.

/// How deep a value may name further variables.
const MAX_DEPTH: u8 = 8;

/// The values that a file may name.
pub trait Lookup {
    /// `None`: nothing sets it.
    fn value(&self, name: &str) -> Option<&str>;
    /// It is not set, and the file does not say what is meant instead.
    fn missing(&mut self, name: &str);
}

/// Why a text has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    #[error("${0} is no variable; write $$ for a single $")]
    Name(String),
    #[error("${{{0} has no closing brace")]
    Open(String),
    #[error("variables are nested more than {MAX_DEPTH} deep")]
    Deep,
    #[error("the file needs the variable {name}{}{message}", if message.is_empty() { "" } else { ": " })]
    Needed { name: String, message: String },
}

/// The text with the values of its variables.
///
/// # Errors
/// Where Docker refuses the file, too.
pub fn replaced(text: &str, lookup: &mut dyn Lookup) -> Result<String, VariableError> {
    within(text, lookup, 0)
}

fn within(text: &str, lookup: &mut dyn Lookup, depth: u8) -> Result<String, VariableError> {
    if depth > MAX_DEPTH {
        return Err(VariableError::Deep);
    }
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        done.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            done.push('$');
            rest = after;
        } else if let Some(after) = after.strip_prefix('{') {
            let (inner, after) = braced(after)?;
            done.push_str(&chosen(inner, lookup, depth)?);
            rest = after;
        } else {
            let (name, after) = name(after).ok_or_else(|| VariableError::Name(first_word(after)))?;
            done.push_str(&set(name, lookup));
            rest = after;
        }
    }
    done.push_str(rest);
    Ok(done)
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|letter| !letter.is_whitespace()).take(20).collect()
}

/// A name at the start of a text, and what follows it.
fn name(text: &str) -> Option<(&str, &str)> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let end = text.find(|letter| !is_letter(letter)).unwrap_or(text.len());
    text.split_at_checked(end)
        .filter(|(name, _)| !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()))
}

/// Splits at the brace that closes the one before the text.
fn braced(text: &str) -> Result<(&str, &str), VariableError> {
    let mut open = 1_u32;
    let mut before = '\0';
    for (place, letter) in text.char_indices() {
        match letter {
            '{' if before == '$' => open = open.saturating_add(1),
            '}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open == 0 {
            let (inner, rest) = text.split_at_checked(place).unwrap_or((text, ""));
            return Ok((inner, rest.strip_prefix('}').unwrap_or(rest)));
        }
        before = letter;
    }
    Err(VariableError::Open(first_word(text)))
}

fn set(name: &str, lookup: &mut dyn Lookup) -> String {
    match lookup.value(name) {
        Some(value) => value.to_owned(),
        None => {
            lookup.missing(name);
            String::new()
        }
    }
}

/// The value of what stands between braces.
fn chosen(inner: &str, lookup: &mut dyn Lookup, depth: u8) -> Result<String, VariableError> {
    let (name, rest) = name(inner).ok_or_else(|| VariableError::Name(format!("{{{}", first_word(inner))))?;
    let (colon, rest) = rest.strip_prefix(':').map_or((false, rest), |rest| (true, rest));
    let mut letters = rest.chars();
    let (sign, other) = (letters.next(), letters.as_str());
    // With a colon an empty value counts as none.
    let value = lookup.value(name).filter(|value| !colon || !value.is_empty()).map(str::to_owned);
    let deeper = depth.saturating_add(1);
    match (sign, value) {
        (None, _) if !colon => Ok(set(name, lookup)),
        (Some('-' | '?'), Some(value)) => Ok(value),
        (Some('-'), None) | (Some('+'), Some(_)) => within(other, lookup, deeper),
        (Some('+'), None) => Ok(String::new()),
        (Some('?'), None) => {
            Err(VariableError::Needed { name: name.to_owned(), message: within(other, lookup, deeper)? })
        }
        _ => Err(VariableError::Name(format!("{{{}", first_word(inner)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Some3(Vec<String>);

    impl Lookup for Some3 {
        fn value(&self, name: &str) -> Option<&str> {
            match name {
                "A" => Some("a"),
                "EMPTY" => Some(""),
                _ => None,
            }
        }
        fn missing(&mut self, name: &str) {
            self.0.push(name.to_owned());
        }
    }

    #[test]
    fn variables_are_replaced_as_docker_replaces_them() {
        for (text, expected) in [
            ("$A-${A}_$$A", "a-a_$A"),
            ("${B:-x}${EMPTY:-y}${EMPTY-z}", "xy"),
            ("${B-${A}}", "a"),
            ("${A:+set}${EMPTY:+no}${EMPTY+yes}${B+no}", "setyes"),
            ("${A?needed}${A:?needed}", "aa"),
            ("${B:-a}b}", "ab}"),
            ("no variable", "no variable"),
        ] {
            let mut lookup = Some3::default();
            assert_eq!(replaced(text, &mut lookup).unwrap(), expected, "{text}");
            assert!(lookup.0.is_empty(), "{text}");
        }
        let mut lookup = Some3::default();
        assert_eq!(replaced("x$B${C}", &mut lookup).unwrap(), "x");
        assert_eq!(lookup.0, ["B", "C"]);
    }

    #[test]
    fn what_docker_refuses_is_refused() {
        let deep = format!("{}x{}", "${B:-".repeat(12), "}".repeat(12));
        for (text, told) in [
            ("cost: 5$", "$$ for a single $"),
            ("$1", "no variable"),
            ("${A", "closing brace"),
            ("${}", "no variable"),
            ("${A:}", "no variable"),
            ("${A/b/c}", "no variable"),
            ("${B:?set it}", "needs the variable B: set it"),
            ("${B?}", "needs the variable B"),
            (deep.as_str(), "nested"),
        ] {
            let error = replaced(text, &mut Some3::default()).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
