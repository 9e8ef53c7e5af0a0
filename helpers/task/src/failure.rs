//! Failures as PID 1 shows them.

use std::fmt::Display;
use std::path::Path;

/// Describes a failure at this path.
pub fn at(path: &Path, why: impl Display) -> String {
    format!("{}: {why}", path.display())
}
