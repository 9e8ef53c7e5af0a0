//! The regular expressions of service files: bounded, so that nobody who runs one has to wait for it or run out of memory.

use regex_lite::{Regex, RegexBuilder};

/// The longest pattern, in bytes.
pub const LONGEST: usize = 1024;
/// The most that a pattern may come to once it is compiled, in bytes: `(a{99}){99}` is short too, and searched 64 KiB for
/// half a minute. With this bound the worst that was found takes 2 s; about 500 letters fit.
const LARGEST: usize = 16 << 10;

/// Why a text is not such a pattern; follows the text itself in a message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    #[error("is longer than {LONGEST} bytes")]
    TooLong,
    #[error("is so large a pattern that to search with it takes too long; repeat less, or look for less")]
    TooLarge,
    #[error("is not a regular expression: {0}")]
    Syntax(String),
}

/// Compiles a pattern as a check does, who searches with it in time that is linear in what it reads.
///
/// # Errors
/// When it is too long, too large, or not a pattern.
pub fn compile(text: &str) -> Result<Regex, Mistake> {
    if text.len() > LONGEST {
        return Err(Mistake::TooLong);
    }
    let built = RegexBuilder::new(text).size_limit(LARGEST).build();
    built.map_err(|error| {
        // The crate tells its errors by their text alone.
        let text = error.to_string();
        if text.contains("size limit") { Mistake::TooLarge } else { Mistake::Syntax(text) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_anywhere() {
        let pattern = compile("\"status\": *\"(ok|degraded)\"").unwrap();
        assert!(pattern.is_match("{\"a\": 1, \"status\":  \"ok\"}\n"));
        assert!(!pattern.is_match("{\"status\": \"bad\"}"));
    }

    #[test]
    fn what_is_too_much_or_none_is_refused() {
        assert_eq!(compile(&"a".repeat(500)).map(|_| ()), Ok(()));
        assert_eq!(compile(&"a".repeat(LONGEST)).map(|_| ()), Err(Mistake::TooLarge));
        assert_eq!(compile("(a{99}){99}").map(|_| ()), Err(Mistake::TooLarge));
        assert_eq!(compile(&"a".repeat(LONGEST + 1)).map(|_| ()), Err(Mistake::TooLong));
        for wrong in ["(", "[z-a]", "*a", "\\p{Greek}", &"(".repeat(LONGEST)] {
            let error = compile(wrong).unwrap_err().to_string();
            assert!(error.starts_with("is not a regular expression: "), "{wrong}: {error}");
            assert!(error.len() < 200, "{error}");
        }
    }
}
