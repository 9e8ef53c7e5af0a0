//! Variables in the words of a command, as systemd expands them: `${NAME}` within a word is replaced by the value, `$NAME`
//! as a whole word by the words of the value, and `$$` by `$`. An unset variable is empty.

use std::borrow::Cow;

/// The word, or the words that stand in its place.
pub(crate) fn expand<'w>(word: &'w str, value: impl Fn(&str) -> Option<Cow<'w, [u8]>>) -> Vec<Cow<'w, [u8]>> {
    let Some(first) = word.find('$') else { return vec![Cow::Borrowed(word.as_bytes())] };
    if let Some(name) = word.strip_prefix('$').filter(|name| is_name(name)) {
        return value(name).map(|value| words(&value)).unwrap_or_default();
    }
    let (before, mut rest) = word.split_at(first);
    let mut text = before.as_bytes().to_vec();
    while let Some(after) = rest.strip_prefix('$') {
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        rest = match braced.filter(|(name, _)| is_name(name)) {
            Some((name, rest)) => {
                text.extend_from_slice(&value(name).unwrap_or_default());
                rest
            }
            None => {
                text.push(b'$');
                after.strip_prefix('$').unwrap_or(after)
            }
        };
        let (plain, more) = rest.split_at(rest.find('$').unwrap_or(rest.len()));
        text.extend_from_slice(plain.as_bytes());
        rest = more;
    }
    vec![Cow::Owned(text)]
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The words of a value: parted by blanks; quotes and a backslash keep blanks, as in a shell.
fn words(value: &[u8]) -> Vec<Cow<'static, [u8]>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', None | Some(b'"')) => {
                // At the end it stands for itself.
                word.get_or_insert_default().push(bytes.next().unwrap_or(byte));
            }
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (_, Some(open)) if byte == open => quote = None,
            (_, None) if byte.is_ascii_whitespace() => words.extend(word.take().map(Cow::Owned)),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(Cow::Owned));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words, with `|` between them.
    fn expanded(word: &str) -> String {
        let value = |name: &str| match name {
            "A" => Some(Cow::Borrowed(b"one  two".as_slice())),
            "QUOTED" => Some(Cow::Borrowed(br#"-a "b c" 'd "e' f\ g "h\"i" '' "#.as_slice())),
            "OPEN" => Some(Cow::Borrowed(br#"a "b c\"#.as_slice())),
            "EMPTY" => Some(Cow::Borrowed(b"".as_slice())),
            _ => None,
        };
        let words = expand(word, value);
        words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn a_word_is_replaced_as_systemd_does_it() {
        for (word, expected) in [
            ("plain", "plain"),
            ("$A", "one|two"),
            ("${A}", "one  two"),
            ("--x=${A},${A}!", "--x=one  two,one  two!"),
            ("--x=$A", "--x=$A"),
            ("${UNSET}", ""),
            ("a${UNSET}b", "ab"),
            ("$$A", "$A"),
            ("$${A}", "${A}"),
            ("a$$b$", "a$b$"),
            ("${A", "${A"),
            ("${A-b}", "${A-b}"),
            ("${1}$1", "${1}$1"),
            ("$QUOTED", "-a|b c|d \"e|f g|h\"i|"),
            ("$OPEN", "a|b c\\"),
        ] {
            assert_eq!(expanded(word), expected, "{word}");
        }
        assert_eq!(expand("$EMPTY", |_| Some(Cow::Borrowed(b" "))), Vec::<Cow<'_, [u8]>>::new());
        assert_eq!(expand("$UNSET", |_| None), Vec::<Cow<'_, [u8]>>::new());
        assert_eq!(expand("${UNSET}", |_| None).len(), 1, "a word in braces stays a word");
    }
}
