//! Domain names that a server gives: only what is a name goes into a file.

/// The longest name, in bytes.
const LONGEST: usize = 253;
/// As many domains as the C library searches.
const DOMAINS: usize = 6;

/// A name of letters, digits, hyphens and underscores with dots between; without the dot at its end.
pub fn sound(bytes: &[u8]) -> Option<String> {
    // Some servers end a text with a zero byte.
    let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\0');
    let text = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    (text.len() <= LONGEST && text.split('.').all(label)).then(|| text.to_owned())
}

/// The domains of option 119 (RFC 3397), which are compressed like those of DNS. Ends at the first that is wrong.
pub fn search_list(bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    while names.len() < DOMAINS
        && let Some((name, next)) = name(bytes, at)
    {
        names.extend(sound(name.as_bytes()));
        at = next;
    }
    names
}

/// The name at this place, and where the next one begins.
fn name(bytes: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut next = None;
    loop {
        let length = usize::from(*bytes.get(at)?);
        let after = at.checked_add(1)?;
        match length >> 6 {
            0 if length == 0 => return Some((name, next.unwrap_or(after))),
            0 => {
                let end = after.checked_add(length)?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(std::str::from_utf8(bytes.get(after..end)?).ok()?);
                // It bounds the walk: each step but a reference adds to the name.
                (name.len() <= LONGEST).then_some(())?;
                at = end;
            }
            3 => {
                let to = (length & 0x3f) << 8 | usize::from(*bytes.get(after)?);
                next = next.or(after.checked_add(1));
                // Only to what came before, so that references make no circle.
                (to < at).then_some(())?;
                at = to;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_taken() {
        assert_eq!(sound(b"edge-1.example.com.").as_deref(), Some("edge-1.example.com"));
        assert_eq!(sound(b"edge\0").as_deref(), Some("edge"));
        for bad in ["", ".", "a..b", "-a", "a b", "a\nnameserver 1.1.1.1", "$(x)", "\u{fc}"] {
            assert_eq!(sound(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(sound(&[b'a'; 64]), None);
    }

    #[test]
    fn a_list_refers_to_the_ends_of_earlier_names() {
        // The example of RFC 3397.
        let list = b"\x03eng\x05apple\x03com\x00\x09marketing\xc0\x04";
        assert_eq!(search_list(list), ["eng.apple.com", "marketing.apple.com"]);
        assert!(search_list(b"\xc0\x00").is_empty(), "a circle");
        assert!(search_list(b"\x01a\xc0\x00").is_empty(), "a longer circle");
        assert!(search_list(b"\x03en").is_empty());
        assert_eq!(search_list(b"\x01a\x00\x01b"), ["a"]);
        assert_eq!(search_list(&b"\x01a\x00".repeat(20)).len(), DOMAINS);
    }
}
