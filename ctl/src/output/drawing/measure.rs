//! How wide a text comes out, without asking a font.
//!
//! The reader's fonts are not known here. Counted is with DejaVu Sans, the widest of those that the style sheet names, so that a
//! text never is wider than its box.

use unicode_width::UnicodeWidthChar as _;

use crate::output::text::escape;

/// The size of a text: that of the style sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Font {
    Text,
    /// Semi-bold, as names are.
    Name,
    Small,
}

impl Font {
    fn pixels(self) -> f64 {
        match self {
            Font::Text => 13.0,
            // Bold letters are about an eighth wider.
            Font::Name => 13.0 * 1.13,
            Font::Small => 11.0,
        }
    }
}

/// Widths of the characters from the space to the tilde, in hundredths of the size.
const ADVANCE: [u8; 95] = [
    32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79, 60, 79, 69, 63,
    61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97,
    63, 61, 63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
];

fn advance(c: char) -> f64 {
    let known = (c as usize).checked_sub(' ' as usize).and_then(|place| ADVANCE.get(place));
    match known {
        Some(hundredths) => f64::from(*hundredths) / 100.0,
        // As wide as the widest letter of its kind; what takes two columns of a terminal is a square and a little.
        None => c.width().unwrap_or(0) as f64 * if c.width() == Some(2) { 0.6 } else { 0.85 },
    }
}

/// Pixels that the text takes, with control characters shown.
pub fn text_width(text: &str, font: Font) -> f64 {
    escape(text).chars().map(advance).sum::<f64>() * font.pixels()
}

/// The text, with control characters shown, cut to at most this many pixels.
pub fn fit_width(text: &str, font: Font, pixels: f64) -> String {
    let text = escape(text);
    if text_width(&text, font) <= pixels {
        return text.into_owned();
    }
    let room = pixels / font.pixels() - advance('…');
    let mut used = 0.0;
    let mut kept: String = text
        .chars()
        .take_while(|c| {
            used += advance(*c);
            used <= room
        })
        .collect();
    kept.truncate(kept.trim_end().len());
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_letters_are_narrow() {
        assert!(text_width("illi", Font::Text) * 2.0 < text_width("wmwm", Font::Text));
        assert!((text_width("web", Font::Text) - 26.9).abs() < 0.1, "{}", text_width("web", Font::Text));
        assert!(text_width("世界", Font::Text) > 26.0);
        assert_eq!(text_width("\x1b", Font::Small), text_width("\\x1b", Font::Small));
    }

    #[test]
    fn what_is_cut_fits() {
        let long = "service \"db\" to be up, path \"/run/x\" to exist";
        for pixels in [10.0, 50.0, 51.0, 120.0, 1000.0] {
            let kept = fit_width(long, Font::Small, pixels);
            assert!(text_width(&kept, Font::Small) <= pixels || kept == "…", "{kept}");
        }
        assert_eq!(fit_width(long, Font::Small, 1000.0), long);
        assert_eq!(fit_width("service db", Font::Small, 52.0), "service…", "no space before the ellipsis");
    }
}
