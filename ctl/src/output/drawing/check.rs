//! A reader that is just strict enough to find a drawing that is not well-formed, and says where its parts are.

/// An element with what stands in its tag, and the text right behind it.
#[derive(Debug, Clone)]
pub struct Element {
    pub name: String,
    attributes: Vec<(String, String)>,
    pub text: String,
}

impl Element {
    /// Empty where it has none of this name.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub fn number(&self, name: &str) -> f64 {
        self.attribute(name).parse().unwrap_or_else(|_| panic!("{name} of {self:?} is a number"))
    }
}

/// The names of all elements in order; panics at the first mistake.
pub fn elements(svg: &str) -> Vec<String> {
    read(svg).into_iter().map(|element| element.name).collect()
}

/// All elements in order; panics at the first mistake.
pub fn read(svg: &str) -> Vec<Element> {
    let (mut open, mut all, mut rest): (Vec<String>, Vec<Element>, _) = (Vec::new(), Vec::new(), svg);
    while let Some(start) = rest.find('<') {
        let before = &rest[..start];
        assert!(
            !before.contains('>') || open.last().is_some_and(|name| name == "style"),
            "stray >: {before}"
        );
        for entity in before.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            assert!(known.iter().any(|known| entity.starts_with(known)), "stray &: {entity}");
        }
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "tags close in order");
            continue;
        }
        assert!(!tag.contains("NaN") && !tag.contains("inf"), "numbers are numbers: {tag}");
        let name: String = tag.chars().take_while(|c| c.is_alphanumeric()).collect();
        let mut attributes = Vec::new();
        let mut inner = tag[name.len()..].trim_end_matches('/').trim();
        while !inner.is_empty() {
            let (key, value) = inner.split_once("=\"").unwrap_or_else(|| panic!("a value in quotes: {tag}"));
            let (value, after) = value.split_once('"').unwrap_or_else(|| panic!("quotes are closed: {tag}"));
            assert!(attributes.iter().all(|(known, _)| known != key), "once each: {tag}");
            attributes.push((key.to_owned(), value.to_owned()));
            inner = after.trim_start();
        }
        let text = rest.split('<').next().unwrap_or_default();
        all.push(Element { name: name.clone(), attributes, text: plain(text) });
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    all
}

fn plain(text: &str) -> String {
    let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    signs.iter().fold(text.to_owned(), |text, (quoted, sign)| text.replace(quoted, sign))
}
