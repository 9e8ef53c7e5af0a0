//! How the terminal wants it.

use crate::output::Palette;

/// The abilities of the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Looks {
    pub palette: Palette,
    /// Lines may be drawn with more than ASCII.
    pub unicode: bool,
}
