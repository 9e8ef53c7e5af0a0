//! The log of the service: its standard output.

use std::fmt::Arguments;
use std::io::Write as _;

/// Writes a line. What cannot be written is lost: the addresses matter more.
pub fn line(text: Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
