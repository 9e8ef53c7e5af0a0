//! The forms that secrets have within a line.

/// The text in place of a secret.
pub const GONE: &str = "(removed)";

/// The parts of a name that mark a secret, wherever one stands in it.
const SECRET: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
];

/// The parts of an argument's name that mark a secret where one is a word by itself.
const ARGUMENT: &[&str] = &["key", "pass", "pwd", "auth"];

/// Called with the kind of each one that is removed.
type Count<'a> = &'a mut dyn FnMut(&'static str);

/// The name of a variable, or of a field, that holds a secret.
pub fn names_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).collect();
    let plain = plain.to_ascii_lowercase();
    SECRET.iter().any(|word| plain.contains(word))
}

/// The name of an argument whose value is a secret.
pub fn names_argument(name: &str) -> bool {
    let is_word = |part: &str| ARGUMENT.iter().any(|word| part.eq_ignore_ascii_case(word));
    names_secret(name) || name.split(['-', '_', '.']).any(is_word)
}

/// Without what stands behind `Authorization:` and `Bearer`.
pub fn authorization(line: &str, count: Count<'_>) -> String {
    let line = replaced(
        line,
        "authorization",
        |before, rest| {
            // In JSON the name has quotes, within a string of JSON such as have a `\\` before them; in a command line the
            // whole header may have them.
            let behind = rest.trim_start_matches('\\');
            let quote = behind.chars().next().filter(|c| matches!(c, '"' | '\''));
            let behind = behind.get(quote.map_or(0, char::len_utf8)..)?;
            let value = behind.trim_start().strip_prefix([':', '='])?.trim_start_matches([' ', '\t', '\\']);
            let opening = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            let value = value.get(opening.map_or(0, char::len_utf8)..)?;
            let closing = opening.or(before.filter(|c| quote.is_none() && matches!(c, '"' | '\'')));
            let end = closing.and_then(|quote| value.find(quote)).unwrap_or(value.len());
            let end = value.get(..end)?.trim_end_matches('\\').len();
            let start = rest.len() - value.len();
            (end > 0).then_some((start, start + end))
        },
        &mut || count("authorization"),
    );
    replaced(
        &line,
        "bearer",
        |before, rest| {
            let value = rest.trim_start_matches(' ');
            let start = rest.len() - value.len();
            let end = value.find(|c: char| c.is_whitespace() || "\"',;".contains(c)).unwrap_or(value.len());
            let is_word = before.is_none_or(|c| !c.is_alphanumeric()) && start > 0;
            (is_word && end > 0 && !value.starts_with(GONE)).then_some((start, start + end))
        },
        &mut || count("authorization"),
    )
}

/// Without the password of `https://user:password@host`, or what stands in its place alone.
pub fn urls(line: &str, count: Count<'_>) -> String {
    let mut found = |scheme: &str, rest: &str| {
        let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'<>`\\".contains(c)).unwrap_or(rest.len());
        let user = rest.get(..rest.get(..end)?.rfind('@')?)?;
        let alone = scheme.ends_with("http") || scheme.ends_with("https");
        let start = match user.find(':') {
            Some(colon) => colon + 1,
            None if alone => 0,
            None => return None,
        };
        (start < user.len()).then(|| {
            count("urls");
            (start, user.len())
        })
    };
    let (mut out, mut rest) = (String::with_capacity(line.len()), line);
    while let Some((scheme, behind)) = rest.split_once("://") {
        out = out + scheme + "://";
        rest = behind;
        if let Some((start, end)) = found(scheme, behind) {
            out = out + behind.get(..start).unwrap_or_default() + GONE;
            rest = behind.get(end..).unwrap_or_default();
        }
    }
    out + rest
}

/// Without the value of `--password …` and `--key=…`, wherever a command line stands in a text.
pub fn options(line: &str, count: Count<'_>) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    replaced(
        line,
        "--",
        |before, rest| {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            let value = behind.strip_prefix('=').unwrap_or_else(|| behind.trim_start_matches(' '));
            let start = rest.len() - value.len();
            let length =
                value.find(|c: char| c.is_whitespace() || "\"'`;,)".contains(c)).unwrap_or(value.len());
            let is_option = before.is_none_or(|c| !is_name(c)) && start > end && names_argument(name);
            let is_value = length > 0 && !value.starts_with('-') && !value.starts_with(GONE);
            (is_option && is_value).then_some((start, start + length))
        },
        &mut || count("arguments"),
    )
}

/// Without the value of `password=…`, `"token": "…"` and their like.
pub fn assignments(line: &str, count: Count<'_>) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let (mut out, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(at) = rest.find(['=', ':']) {
        let (front, behind) = rest.split_at(at + 1);
        out += front;
        rest = behind;
        let name = front.get(..at).unwrap_or_default().trim_end_matches(['"', '\'', '\\', ' ']);
        let other = name.char_indices().rev().find(|(_, c)| !is_name(*c));
        let start = other.map_or(0, |(at, c)| at + c.len_utf8());
        let name = name.get(start..).unwrap_or_default();
        if !names_secret(name) || behind.starts_with("//") {
            continue;
        }
        let value = behind.trim_start_matches([' ', '\\']);
        let opening = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let start = behind.len() - value.len() + opening.map_or(0, char::len_utf8);
        let value = behind.get(start..).unwrap_or_default();
        let end = match opening {
            Some(quote) => value.find(quote),
            None => value.find(|c: char| c.is_whitespace() || ",;&\"')]}".contains(c)),
        };
        let end = end.unwrap_or(value.len());
        if end > 0 && !value.starts_with(GONE) {
            count("assignments");
            out = out + behind.get(..start).unwrap_or_default() + GONE;
            rest = value.get(end..).unwrap_or_default();
        }
    }
    out + rest
}

/// The line with what `find` says replaced, behind each place where the word stands in capitals or not. `find` is given
/// what stands before and behind it.
fn replaced(
    line: &str,
    word: &str,
    find: impl Fn(Option<char>, &str) -> Option<(usize, usize)>,
    count: &mut dyn FnMut(),
) -> String {
    // Of the same length as the line, byte for byte.
    let lower = line.to_ascii_lowercase();
    let (mut out, mut done) = (String::with_capacity(line.len()), 0);
    while let Some(at) = lower.get(done..).and_then(|rest| rest.find(word)) {
        let behind = done + at + word.len();
        let front = line.get(done..behind).unwrap_or_default();
        let before = line.get(..done + at).and_then(|front| front.chars().next_back());
        out += front;
        done = behind;
        let rest = line.get(behind..).unwrap_or_default();
        if let Some((start, end)) = find(before, rest) {
            count();
            out = out + rest.get(..start).unwrap_or_default() + GONE;
            done = behind + end;
        }
    }
    out + line.get(done..).unwrap_or_default()
}
