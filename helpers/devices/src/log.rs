//! The log of the service.

use std::io::{self, Write as _};

/// Writes a line.
pub fn log(line: &str) {
    // Without a reader there is nobody to report to.
    let _ = writeln!(io::stdout(), "{line}");
}
