//! Pieces of text with a meaning, and rows of them that fit.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthChar as _;

use crate::output::{Palette, Tone, escape, width};

/// A row, or more than a row, in pieces. All of it is safe to show.
pub type Text = Vec<(Tone, String)>;

/// A piece that comes from a service or the host: what could steer the terminal is shown.
pub fn external(tone: Tone, text: &str) -> (Tone, String) {
    (tone, escape(text).into_owned())
}

/// The palette with which others paint what [`unpainted`] takes apart again.
pub const MARKS: Palette = Palette::Full;

/// Splits a painted text into its pieces. All escape sequences in it are those of the paint.
pub fn unpainted(text: &str) -> Text {
    const TONES: [Tone; 6] = [Tone::Strong, Tone::Good, Tone::Busy, Tone::Waiting, Tone::Bad, Tone::Quiet];
    let (mut pieces, mut tone) = (Text::new(), Tone::Plain);
    for (place, part) in text.split("\x1b[").enumerate() {
        let mut part = part;
        if place > 0 {
            let Some((_, rest)) = part.split_once('m') else { continue };
            let code = &part[..part.len() - rest.len()];
            let is_of = |tone: &Tone| MARKS.paint(*tone, "x").starts_with(&format!("\x1b[{code}x"));
            (tone, part) = (TONES.into_iter().find(is_of).unwrap_or_default(), rest);
        }
        if !part.is_empty() {
            pieces.push((tone, part.to_owned()));
        }
    }
    pieces
}

/// The text in rows of `width` columns; at least one row.
pub fn wrapped(text: Text, columns: usize) -> Vec<Text> {
    let mut rows = vec![Text::new()];
    let mut room = columns;
    for (tone, piece) in text {
        let mut rest = piece.as_str();
        loop {
            let (mut taken, mut end) = (0, 0);
            for letter in rest.chars() {
                let wide = letter.width().unwrap_or(0);
                if taken + wide > room {
                    break;
                }
                taken += wide;
                end += letter.len_utf8();
            }
            // Between words, where there are some.
            if end < rest.len()
                && let Some(space) = rest[..end].rfind(' ')
            {
                end = space + 1;
            }
            // A letter that has no room anywhere.
            if end == 0 && room == columns && !rest.is_empty() {
                break;
            }
            if end > 0
                && let Some(row) = rows.last_mut()
            {
                row.push((tone, rest[..end].to_owned()));
            }
            rest = &rest[end..];
            if rest.is_empty() {
                room -= taken;
                break;
            }
            rows.push(Text::new());
            room = columns;
        }
    }
    rows
}

/// How many columns it takes.
pub fn wide(text: &Text) -> usize {
    text.iter().map(|(_, piece)| width(piece)).sum()
}

/// The row as it is drawn.
pub fn line(text: Text, palette: Palette) -> Line<'static> {
    let spans = text.into_iter().map(|(tone, piece)| Span::styled(piece, style(tone, palette)));
    Line::from(spans.collect::<Vec<_>>())
}

/// As [`Palette::paint`] has it.
pub fn style(tone: Tone, palette: Palette) -> Style {
    match palette.colour(tone) {
        Some(colour) => Style::new().fg(Color::Indexed(colour)),
        None if tone == Tone::Strong && palette != Palette::None => Style::new().add_modifier(Modifier::BOLD),
        None => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::canvas::Canvas;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    const ALL: [Tone; 7] =
        [Tone::Plain, Tone::Strong, Tone::Good, Tone::Busy, Tone::Waiting, Tone::Bad, Tone::Quiet];

    #[test]
    fn what_was_painted_is_known_again() {
        let painted: String = ALL.iter().map(|tone| MARKS.paint(*tone, "ab")).collect();
        let pieces: Text = ALL.iter().map(|tone| (*tone, "ab".to_owned())).collect();
        assert_eq!(unpainted(&painted), pieces);
        assert_eq!(
            unpainted("a m\x1b[1mb\x1b[0mc"),
            [(Tone::Plain, "a m".to_owned()), (Tone::Strong, "b".to_owned()), (Tone::Plain, "c".to_owned())]
        );
        assert!(unpainted("").is_empty());
    }

    #[test]
    fn a_tone_looks_here_as_everywhere() {
        for palette in [Palette::None, Palette::Sixteen, Palette::Full] {
            for tone in ALL {
                let (mut canvas, mut buffer) = (Canvas::default(), Buffer::empty(Rect::new(0, 0, 5, 1)));
                canvas.show(buffer.clone());
                buffer.set_line(0, 0, &line(vec![(tone, "x".to_owned())], palette), 5);
                let drawn = String::from_utf8(canvas.show(buffer)).unwrap();
                let painted = palette.paint(tone, "x").replace("\x1b[0m", "").replace("\x1b[", "\x1b[0;");
                assert_eq!(drawn, format!("\x1b[1;1H{painted}"), "{palette:?} {tone:?}");
            }
        }
    }

    #[test]
    fn rows_are_as_wide_as_they_may() {
        let rows = |text: &[&str], columns| {
            let text = text.iter().map(|piece| (Tone::Plain, (*piece).to_owned())).collect();
            let joined = |row: Text| row.into_iter().map(|(_, piece)| piece).collect::<String>();
            wrapped(text, columns).into_iter().map(joined).collect::<Vec<_>>()
        };
        assert_eq!(rows(&["abc", "def"], 4), ["abcd", "ef"]);
        assert_eq!(rows(&["abcd"], 4), ["abcd"]);
        assert_eq!(rows(&["ab cd ef"], 7), ["ab cd ", "ef"]);
        assert_eq!(rows(&["a", "b cde"], 4), ["ab ", "cde"]);
        assert_eq!(rows(&["漢漢漢"], 5), ["漢漢", "漢"]);
        assert_eq!(rows(&[], 4), [""]);
        assert_eq!(rows(&["漢a"], 1), [""], "there is no room for it");
    }
}
