//! Texts for people.

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;

pub fn description(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    // A specifier that only the host knows stays as it is: nothing reads the text.
    let text = draft.expanded(setting.last()).unwrap_or_else(|_| setting.last().to_owned());
    draft.spec.description = text.replace('\0', "");
    Outcome::as_table()
}
