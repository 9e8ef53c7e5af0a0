//! Drawings in SVG, made here without another program; readable on light and on dark ground.

pub mod axis;
pub mod graph;
pub mod layout;
pub mod legend;
pub mod measure;
pub mod plot;
pub mod timeline;

use super::text::escape;

/// The colours by class: each once for light ground, once for dark. They are no variables of CSS, which viewers other than
/// browsers do not know: those show the light ones.
const STYLE: &str = include_str!("drawing/style.css");

/// An SVG document that grows element by element.
#[derive(Debug, Default)]
pub struct Drawing {
    body: String,
}

impl Drawing {
    /// Adds an element as it is; text from outside has passed [`xml`].
    pub fn add(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// Adds a text that begins at `x` (or ends or is centred there, by its class), its base line at `y`. The
    /// class `halo`, which stands last, keeps lines behind it away from it.
    pub fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        if let Some(class) = class.strip_suffix(" halo") {
            // A copy below it, not `paint-order`: viewers other than browsers do not know that.
            self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class} halo\">{}</text>", xml(text)));
            return self.text(x, y, class, text);
        }
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", xml(text)));
    }

    /// Adds a rectangle with round corners; `title` is shown where it is pointed at.
    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), round: f64, class: &str, title: &str) {
        let ((x, y), (width, height)) = (at, size);
        let front = format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{round}\" class=\"{class}\""
        );
        if title.is_empty() {
            self.add(&format!("{front}/>"));
        } else {
            self.add(&format!("{front}><title>{}</title></rect>", xml(title)));
        }
    }

    /// Adds a straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.add(&format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// The whole document. `about` says in a sentence what is to be seen, for who cannot see it.
    pub fn finish(self, width: f64, height: f64, title: &str, about: &str) -> String {
        let (width, height) = (width.ceil(), height.ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title about\">\n<title id=\"title\">{}</title>\n\
             <desc id=\"about\">{}</desc>\n<style>\n{STYLE}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" class=\"ground\"/>\n{}</svg>\n",
            xml(title),
            xml(about),
            self.body
        )
    }
}

/// Text within XML: markup is quoted, control characters (which XML forbids) are shown.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
pub mod check;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_element() {
        let mut drawing = Drawing::default();
        drawing.text(1.0, 2.0, "small", "</text><script>alert('1' & \"2\")</script>\x1b[0m");
        let svg = drawing.finish(10.2, 20.0, "a<b", "c>d");
        assert_eq!(check::elements(&svg), ["svg", "title", "desc", "style", "rect", "text"]);
        assert!(svg.contains("&lt;script&gt;alert(&#39;1&#39; &amp; &quot;2&quot;)"));
        assert!(svg.contains("\\x1b[0m"));
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"11\" height=\"20\""));
        assert!(svg.contains("prefers-color-scheme:dark"));
    }
}
