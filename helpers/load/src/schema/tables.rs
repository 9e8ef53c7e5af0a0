//! The tables of the documents: what stands between `<!-- keys: NAME -->` and `<!-- /keys -->`.

use super::{Absent, Key, Kind, Mapping};
use kelson_spec::units::{duration_text, size_text};

const BEGIN: &str = "<!-- keys: ";
const END: &str = "<!-- /keys -->";

/// `document` with each of its tables made again from the mappings within `roots`. Several names in one mark
/// make one table, with a column that says whose a key is.
///
/// # Errors
/// A sentence, where a mark names a mapping that there is not, or has no end.
pub fn renew(document: &str, roots: &[Mapping]) -> Result<String, String> {
    let mut known = Vec::new();
    for root in roots {
        collect(root, &mut known);
    }
    let mut parts = document.split(BEGIN);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (names, rest) = part.split_once(" -->").ok_or("a mark of a table has no end -->")?;
        let (_, rest) = rest.split_once(END).ok_or_else(|| format!("the table of {names} has no {END}"))?;
        let mut mappings = Vec::new();
        for name in names.split(", ") {
            let found = known.iter().find(|mapping| mapping.name == name);
            mappings.push(found.ok_or_else(|| format!("there is no mapping {name}"))?);
        }
        out += &format!("{BEGIN}{names} -->\n{}{END}{rest}", table(&mappings, document));
    }
    Ok(out)
}

/// All mappings within `mapping`, itself first, each once.
pub fn collect(mapping: &Mapping, found: &mut Vec<Mapping>) {
    if found.iter().any(|other| other.name == mapping.name) {
        return;
    }
    found.push(mapping.clone());
    for key in &mapping.keys {
        within(&key.kind, found);
    }
}

fn within(kind: &Kind, found: &mut Vec<Mapping>) {
    match kind {
        Kind::Mapping(mapping) => collect(&mapping(), found),
        Kind::List(of, _) | Kind::Map(_, of, _) => within(of, found),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| within(kind, found)),
        _ => {}
    }
}

fn table(mappings: &[&Mapping], document: &str) -> String {
    let several = mappings.len() > 1;
    let of = if several { " of |" } else { "" };
    let mut out = format!(
        "| key |{of} value | default | what |\n|---|{}---|---|---|\n",
        if several { "---|" } else { "" }
    );
    let mut told: Vec<&str> = Vec::new();
    for key in mappings.iter().flat_map(|mapping| &mapping.keys) {
        if told.contains(&key.name) {
            continue;
        }
        told.push(key.name);
        let holds = |mapping: &&&Mapping| mapping.keys.iter().any(|other| other.name == key.name);
        let owners: Vec<String> =
            mappings.iter().filter(holds).map(|mapping| format!("`{}`", mapping.name)).collect();
        let of = if several { format!(" {} |", owners.join(", ")) } else { String::new() };
        // Only the keys of a whole file have chapters of their own.
        let whole = matches!(mappings, [one] if matches!(one.name, "service" | "machine"));
        let name = match anchor(document, key.name).filter(|_| whole) {
            Some(anchor) => format!("[`{}`](#{anchor})", key.name),
            None => format!("`{}`", key.name),
        };
        let alternative = mappings.iter().any(|mapping| mapping.one_of.contains(&key.name));
        let default = if alternative { "one of these".to_owned() } else { absent(key) };
        let value = words(&key.kind);
        let needs = key
            .feature
            .map(|feature| format!(" ([feature](howto/small.md) `{}`)", feature.name()))
            .unwrap_or_default();
        let about = format!("{}{needs}", key.about);
        out += &format!("| {name} |{of} {} | {} | {} |\n", cell(&value), cell(&default), cell(&about));
    }
    out
}

/// The anchor of the chapter that is named for a key, if there is one.
fn anchor(document: &str, key: &str) -> Option<String> {
    let headings = document.lines().filter_map(|line| line.strip_prefix("### "));
    let mut own = headings.filter(|heading| heading.split(", ").any(|word| word == key));
    own.next().map(|heading| heading.to_lowercase().replace(", ", "-"))
}

fn absent(key: &Key) -> String {
    match &key.default {
        Absent::Mistake => "–".to_owned(),
        Absent::Is(value) if value.is_empty() => "none".to_owned(),
        Absent::Is(value) => format!("`{value}`"),
        Absent::Means(words) => (*words).to_owned(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Describes the values of a kind, as Markdown.
pub fn words(kind: &Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Form(form) => form.name.to_owned(),
        Kind::Boolean => "`true`, `false`".to_owned(),
        Kind::True => "`true`".to_owned(),
        Kind::Number(range) => format!("{} to {}", range.start(), range.end()),
        Kind::Integer(range) => format!("{} to {}", range.start(), range.end()),
        Kind::Duration(range) => {
            let (least, most) = (duration_text(*range.start()), duration_text(*range.end()));
            match (least.as_str(), most.as_str()) {
                ("0s", "365d") => "duration".to_owned(),
                (least, "365d") => format!("duration, at least {least}"),
                (least, most) => format!("duration from {least} to {most}"),
            }
        }
        Kind::Size(0) => "size".to_owned(),
        Kind::Size(least) => format!("size, at least {}", size_text(*least)),
        Kind::Cpus => "CPUs".to_owned(),
        Kind::Choice(words) => match words.as_slice() {
            [first, second, third, _, _, ..] => format!("`{first}`, `{second}`, `{third}`, …"),
            words => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        },
        Kind::List(of, count) => {
            let bound = match (*count.start(), *count.end()) {
                (0, usize::MAX) => String::new(),
                (0, most) => format!(", at most {most}"),
                _ => ", not empty".to_owned(),
            };
            match many(of) {
                Some(many) => format!("list of {many}{bound}"),
                None => format!("list{bound}, each: {}", words(of)),
            }
        }
        Kind::Map(form, of, _) => format!("mapping of {}s to {}", form.name, many(of).unwrap_or("values")),
        Kind::Mapping(_) => "mapping".to_owned(),
        Kind::Either(kinds) => kinds.iter().map(words).collect::<Vec<_>>().join(" or "),
    }
}

/// The word for several of a kind, where there is one.
fn many(kind: &Kind) -> Option<&'static str> {
    match kind {
        Kind::Text => Some("texts"),
        Kind::Mapping(_) => Some("mappings"),
        Kind::Form(form) if form.name == "path" => Some("paths"),
        _ => None,
    }
}

/// Markdown without its links, for a reader who does not see the document.
pub fn plain(markdown: &str) -> String {
    let mut out = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        let parts = link.split_once("](").and_then(|(text, target)| Some((text, target.split_once(')')?.1)));
        match parts.filter(|(text, _)| !text.contains([']', '['])) {
            Some((text, after)) => {
                out += &format!("{before}{text}");
                rest = after;
            }
            None => {
                out += &format!("{before}[");
                rest = link;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_made_anew_and_all_else_stays() {
        let text = "# A\n<!-- keys: shutdown -->\nold\n<!-- /keys -->\nafter\n";
        let made = renew(text, &[crate::files::machine()]).unwrap();
        assert!(
            made.starts_with("# A\n<!-- keys: shutdown -->\n| key | value | default | what |\n"),
            "{made}"
        );
        assert!(made.contains("| `timeout` | duration, at least 1s | `1m` | the total deadline"), "{made}");
        assert!(made.ends_with("|\n<!-- /keys -->\nafter\n") && !made.contains("old"), "{made}");
        assert_eq!(renew(&made, &[crate::files::machine()]).unwrap(), made);
        let wrong = renew("<!-- keys: shutdwn -->\n<!-- /keys -->", &[crate::files::machine()]);
        assert_eq!(wrong.unwrap_err(), "there is no mapping shutdwn");
    }

    #[test]
    fn keys_of_several_say_whose_they_are() {
        let made = renew("<!-- keys: tcp, grpc -->\n<!-- /keys -->", &[crate::files::service()]).unwrap();
        assert!(made.contains("| `port` | `tcp`, `grpc` | 1 to 65535 | – |"), "{made}");
        assert!(made.contains("| `service` | `grpc` | text | the server as a whole |"), "{made}");
    }

    #[test]
    fn links_are_left_out_and_brackets_stay() {
        assert_eq!(plain("a [check](#health) of `[sh, -c]` or [b](c.md)"), "a check of `[sh, -c]` or b");
    }
}
