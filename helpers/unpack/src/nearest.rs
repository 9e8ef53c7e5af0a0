//! Guesses which name an operator may have meant.

use kelson_spec::near;
use kelson_sys::ordered;

/// Names that are shown at most.
const SHOWN: usize = 8;
/// Letters that are compared; where two names differ later they are near anyhow.
const COMPARED: usize = 64;

/// `demo/nginx:1, demo/redis:7`: the names that are nearest to `wanted`, nearest first, and how many others there are.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<(usize, &str)> = names.map(|name| (distance(wanted, name), name)).collect();
    ordered::sort(&mut names);
    names.dedup();
    let shown: Vec<&str> = names.iter().take(SHOWN).map(|(_, name)| *name).collect();
    match names.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.chars().take(COMPARED).collect::<Vec<_>>();
    near::distance(&letters(a), &letters(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_comes_first() {
        let names = ["demo/redis:7", "demo/wec:1", "demo/web:2"];
        assert_eq!(nearest("demo/web:2", names.into_iter()), "demo/web:2, demo/wec:1, demo/redis:7");
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
    }

    #[test]
    fn a_crowd_is_counted() {
        let names: Vec<String> = (0..12).map(|n| format!("image-{n:02}")).collect();
        let text = nearest("image-00", names.iter().map(String::as_str));
        assert!(text.starts_with("image-00, ") && text.ends_with(" and 4 more"), "{text}");
    }
}
