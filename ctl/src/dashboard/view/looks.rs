//! How the terminal wants it.

use crate::output::Palette;

/// What the terminal can show.
#[derive(Debug, Clone, Copy)]
pub struct Looks {
    pub palette: Palette,
    /// Lines may be drawn with more than ASCII.
    pub unicode: bool,
}
