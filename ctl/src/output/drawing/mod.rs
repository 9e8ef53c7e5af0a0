//! Drawings in SVG, made here without another program; readable on light and on dark ground.

pub mod graph;
pub mod plot;

use std::fmt::Write as _;

use super::text::{escape, width};

/// The colours by class: each once for light ground, once for dark.
const STYLE: &str = "\
svg{background:#ffffff;font:13px ui-sans-serif,system-ui,'Segoe UI','DejaVu Sans',sans-serif}
text{fill:#1f2328}
.small{font-size:11px}
.head{font-size:15px;font-weight:600}
.mute{fill:#59636e}
.end{text-anchor:end}
.middle{text-anchor:middle}
.grid{stroke:#d1d9e0;stroke-width:1}
.halo{stroke:#ffffff;stroke-width:4px;stroke-linejoin:round}
.box{stroke-width:1.5}
.plain{fill:#f6f8fa;stroke:#818b98}
.quiet{fill:#f6f8fa;stroke:#afb8c1}
.good{fill:#dafbe1;stroke:#1a7f37}
.busy{fill:#ddf4ff;stroke:#0969da}
.waiting{fill:#fff8c5;stroke:#9a6700}
.bad{fill:#ffebe9;stroke:#cf222e}
.phase{fill:#818b98}
.edge{fill:none;stroke:#818b98;stroke-width:1.4}
.open{stroke:#9a6700;stroke-dasharray:6 4}
.tip{fill:#818b98}
.opentip{fill:#9a6700}
@media (prefers-color-scheme:dark){
svg{background:#0d1117}
text{fill:#e6edf3}
.mute{fill:#9198a1}
.grid{stroke:#30363d}
.halo{stroke:#0d1117}
.plain{fill:#151b23;stroke:#818b98}
.quiet{fill:#151b23;stroke:#3d444d}
.good{fill:#12261e;stroke:#3fb950}
.busy{fill:#121d2f;stroke:#4493f8}
.waiting{fill:#272115;stroke:#d29922}
.bad{fill:#25171c;stroke:#f85149}
.phase{fill:#656c76}
.edge{stroke:#818b98}
.open{stroke:#d29922}
.tip{fill:#818b98}
.opentip{fill:#d29922}
}
";

/// An SVG document that grows element by element.
#[derive(Debug, Default)]
pub struct Drawing {
    body: String,
}

impl Drawing {
    /// Adds an element as it is; what it holds of foreign text has passed [`xml`].
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

    /// The whole document.
    pub fn finish(self, width: f64, height: f64, title: &str) -> String {
        let (width, height) = (width.ceil(), height.ceil());
        let mut out = String::with_capacity(self.body.len() + STYLE.len() + 256);
        let written = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n{}</svg>\n",
            xml(title),
            self.body
        );
        debug_assert!(written.is_ok(), "writing into a String does not fail");
        out
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

/// About how wide a text of 13 px comes out.
pub fn text_width(text: &str) -> f64 {
    width(&escape(text)) as f64 * 7.3
}

#[cfg(test)]
pub mod check {
    //! A reader that is just strict enough to find a drawing that is not well-formed.

    /// The names of all elements in order; panics at the first mistake.
    pub fn elements(svg: &str) -> Vec<String> {
        let (mut open, mut all, mut rest) = (Vec::new(), Vec::new(), svg);
        while let Some(start) = rest.find('<') {
            let before = &rest[..start];
            assert!(
                !before.contains('>') || open.last().is_some_and(|name| name == "style"),
                "stray >: {before}"
            );
            for entity in before.split('&').skip(1) {
                assert!(
                    ["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|known| entity.starts_with(known)),
                    "stray &: {entity}"
                );
            }
            let end = start + rest[start..].find('>').expect("a tag ends");
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "tags close in order");
                continue;
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes are closed: {tag}");
            let name: String = tag.chars().take_while(|c| c.is_alphanumeric()).collect();
            assert!(!tag.contains("NaN") && !tag.contains("inf"), "numbers are numbers: {tag}");
            all.push(name.clone());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "left open: {open:?}");
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_element() {
        let mut drawing = Drawing::default();
        drawing.text(1.0, 2.0, "small", "</text><script>alert('1' & \"2\")</script>\x1b[0m");
        let svg = drawing.finish(10.2, 20.0, "a<b");
        assert_eq!(check::elements(&svg), ["svg", "title", "style", "text"]);
        assert!(svg.contains("&lt;script&gt;alert(&#39;1&#39; &amp; &quot;2&quot;)"));
        assert!(svg.contains("\\x1b[0m"));
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"11\" height=\"20\""));
        assert!(svg.contains("prefers-color-scheme:dark"));
    }
}
