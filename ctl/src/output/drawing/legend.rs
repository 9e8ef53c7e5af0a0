//! What the colours of a drawing mean: chips with a word each, in as many rows as it takes.

use super::Drawing;
use super::measure::{Font, text_width};

const CHIP: f64 = 14.0;
const ROW: f64 = 20.0;

/// Draws the legend from this corner on; the height that it took. An entry is the class of its chip and what it means.
pub fn legend(drawing: &mut Drawing, at: (f64, f64), width: f64, entries: &[(&str, &str)]) -> f64 {
    let (mut x, mut y) = at;
    for (class, words) in entries {
        let wide = CHIP + 6.0 + text_width(words, Font::Small) + 16.0;
        if x > at.0 && x + wide > at.0 + width {
            (x, y) = (at.0, y + ROW);
        }
        let round = if class.starts_with("box") { 4.0 } else { 2.5 };
        drawing.rect((x, y), (CHIP, 12.0), round, class, "");
        drawing.text(x + CHIP + 6.0, y + 10.0, "small mute", words);
        x += wide;
    }
    y + ROW - at.1
}
