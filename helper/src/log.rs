//! The log of a helper that runs as a service: its standard output.

use std::fmt::Display;
use std::io::Write as _;

/// Writes a line. Without a reader it is lost: there is nobody to report to, and the work goes on.
pub fn line(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
