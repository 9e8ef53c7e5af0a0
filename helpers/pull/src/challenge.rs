//! How a registry wants to be shown who asks: the header `WWW-Authenticate` (RFC 9110).

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// The name and the password themselves.
    Basic,
    /// A token, which the server of `realm` gives.
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

impl Challenge {
    /// The first challenge of a header that is known here; a token goes before a password. `None`: there is none.
    pub fn parse(text: &str) -> Option<Challenge> {
        let mut found = None;
        let mut rest = text;
        while let Some((scheme, after)) = word(rest) {
            let (parameters, after) = parameters(after);
            rest = after.trim_start_matches([',', ' ', '\t']);
            let get = |wanted: &str| {
                let mut found = parameters.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
                found.next().map(|(_, value)| value.clone())
            };
            if scheme.eq_ignore_ascii_case("bearer") {
                if let Some(realm) = get("realm") {
                    return Some(Challenge::Bearer { realm, service: get("service"), scope: get("scope") });
                }
            } else if scheme.eq_ignore_ascii_case("basic") {
                found = Some(Challenge::Basic);
            }
        }
        found
    }
}

/// The token (RFC 9110, 5.6.2) at the beginning, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t']);
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    (!word.is_empty()).then_some((word, rest))
}

/// The parameters `name=value, name="value"` at the beginning, and what follows them.
fn parameters(text: &str) -> (Vec<(String, String)>, &str) {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        let begin = rest.trim_start_matches([',', ' ', '\t']);
        let Some((name, after)) = word(begin) else { return (found, rest) };
        // A word without a value is the scheme of the next challenge.
        let Some(after) = after.trim_start_matches([' ', '\t']).strip_prefix('=') else {
            return (found, rest);
        };
        let after = after.trim_start_matches([' ', '\t']);
        let Some((value, after)) = after
            .strip_prefix('"')
            .map_or_else(|| word(after).map(|(value, after)| (value.to_owned(), after)), quoted)
        else {
            return (found, rest);
        };
        found.push((name.to_owned(), value));
        rest = after;
    }
}

/// The value up to the closing quote, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, text.get(at.saturating_add(1)..)?)),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Option<Challenge> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Some(Challenge::Bearer { realm: realm.to_owned(), service: own(service), scope: own(scope) })
    }

    #[test]
    fn challenges_are_read_in_all_forms() {
        for (text, challenge) in [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            ("Bearer realm=\"https://a/t\"", bearer("https://a/t", None, None)),
            (
                "Bearer realm=\"https://a/t\",service=\"r, of a\",scope=\"repository:app:pull\"",
                bearer("https://a/t", Some("r, of a"), Some("repository:app:pull")),
            ),
            ("bearer  Realm = https , SERVICE=x", bearer("https", Some("x"), None)),
            ("Bearer realm=\"a\\\"b\"", bearer("a\"b", None, None)),
            ("Basic realm=\"x\", Bearer realm=\"y\"", bearer("y", None, None)),
            ("Negotiate, Basic realm=x", Some(Challenge::Basic)),
            ("Bearer service=\"x\"", None),
            ("Bearer realm=\"x", None),
            ("Digest realm=\"x\"", None),
            ("", None),
            ("=", None),
        ] {
            assert_eq!(Challenge::parse(text), challenge, "{text}");
        }
    }
}
