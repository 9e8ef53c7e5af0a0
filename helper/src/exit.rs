//! The exit status of a helper, and what a person who started one by hand is shown.

use std::io::{self, Write as _};

/// Writes a line to standard error, which may lead nowhere.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The exit status of the helper of this name: 0, or 1 after an error, which is shown.
pub fn status(name: &str, ended: io::Result<()>) -> i32 {
    match ended {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("{name}: {error}"));
            1
        }
    }
}
