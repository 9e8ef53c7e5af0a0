//! The log of a helper that runs as a service: its standard output.

use std::fmt::Display;
use std::io::Write as _;

/// Writes a line. Without a reader the line is lost: a helper does not stop for its log.
pub fn line(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
