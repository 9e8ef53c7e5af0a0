//! A table of keys, and how a mapping is read by it.

use crate::container::Draft;
use crate::finding::{Fate, Outcome};
use crate::format::Format;
use crate::key::Neutral;
use crate::yaml::Value;

/// Reads the value of a key into the service.
pub type Read<F> = fn(&mut Draft<'_, F>, &Value) -> Outcome;

pub type Key<F> = crate::key::Key<Read<F>>;

/// The keys of one kind of mapping.
#[derive(Debug)]
pub struct Part<F: Format> {
    /// Of the documents.
    pub title: &'static str,
    pub keys: &'static [Key<F>],
}

impl<F: Format> Part<F> {
    /// Reads each key of a mapping by its row.
    pub fn read(&self, draft: &mut Draft<'_, F>, value: &Value) -> Outcome {
        if value.entries().is_empty() && !value.is_empty() {
            return Outcome::rejected("this is no mapping of keys to values");
        }
        for (name, value) in value.entries() {
            draft.at(name, |draft| {
                let judged = self.judged(draft, name, value);
                draft.judge(value.line, judged);
            });
        }
        Outcome::as_table()
    }

    fn judged(&self, draft: &mut Draft<'_, F>, name: &str, value: &Value) -> (Fate, String) {
        if F::OF_OTHERS.is_some_and(|prefix| name.starts_with(prefix)) {
            return (Fate::Kept, "for other programs: Docker does not read it either".to_owned());
        }
        let Some(key) = self.keys.iter().find(|key| key.name == name) else {
            let names = self.keys.iter().map(|key| key.name);
            let near = kelson_spec::near::near(name, names);
            let hint = near.map(|near| format!("; did its author mean {near}?")).unwrap_or_default();
            return (Fate::Rejected, format!("{} have no key {name} here{hint}", F::FILES));
        };
        match key.read {
            Some(read) => read(draft, value).summary(key.fate, key.sentence),
            None if key.fate == Fate::Rejected && is_neutral(key, value) => {
                (Fate::Kept, "with this value nothing is lost".to_owned())
            }
            None => (key.fate, key.sentence.to_owned()),
        }
    }
}

fn is_neutral<F: Format>(key: &Key<F>, value: &Value) -> bool {
    match key.neutral {
        Neutral::Empty => value.is_empty(),
        Neutral::No => value.is_empty() || value.text() == Some("false"),
        Neutral::Words(words) => value.text().is_some_and(|text| words.contains(&text)),
    }
}
