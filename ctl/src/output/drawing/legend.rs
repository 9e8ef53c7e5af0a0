//! The head of a drawing: what it shows, and what its colours mean; and the bands behind the rows of a chart.

use super::Drawing;
use super::measure::{Font, text_width};

const CHIP: f64 = 14.0;
const ROW: f64 = 20.0;

/// The margin at the left.
pub const LEFT: f64 = 24.0;

/// Draws the heading, a line below it, and the legend; the height that it took.
pub fn head(drawing: &mut Drawing, width: f64, heading: &str, about: &str, entries: &[(&str, &str)]) -> f64 {
    drawing.text(LEFT, 34.0, "head", heading);
    drawing.text(LEFT, 54.0, "small mute", about);
    68.0 + legend(drawing, (LEFT, 68.0), width - 2.0 * LEFT, entries)
}

/// Draws a band behind every other row.
pub fn bands(drawing: &mut Drawing, top: f64, rows: usize, height: f64, width: f64) {
    for place in (0..rows).step_by(2) {
        let y = top + place as f64 * height;
        drawing.rect((LEFT - 8.0, y), (width - 2.0 * LEFT + 16.0, height), 3.0, "band", "");
    }
}

/// Draws the legend from this corner on: chips with a word each, in as many rows as it takes; the height that it took. An entry is the class of its chip and what it means.
fn legend(drawing: &mut Drawing, at: (f64, f64), width: f64, entries: &[(&str, &str)]) -> f64 {
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
