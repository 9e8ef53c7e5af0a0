//! Whether a secret is set: its sealed value is a file of the state folder, which is followed as any path is. Nobody reads it
//! here.

use std::path::Path;
use std::sync::Arc;

use super::path::{PathCondition, Paths};
use crate::condition::{BoxFuture, Condition, Level};
use crate::missing::{Missing, Reason, Subject};

/// Holds while a secret is set.
pub struct SecretCondition {
    name: String,
    file: PathCondition,
}

impl SecretCondition {
    /// `folder` holds the sealed values.
    pub fn new(paths: &Paths, folder: &Path, name: &str) -> SecretCondition {
        SecretCondition { name: name.to_owned(), file: paths.condition(folder.join(name)) }
    }
}

impl Condition for SecretCondition {
    fn level(&self) -> Level {
        self.file.level()
    }

    fn missing(&self) -> Vec<Missing> {
        let subject = |missing: Missing| {
            let unset = || Reason::Unset(Arc::from(self.name.as_str()));
            let is_known = self.file.level() == Level::DoesNotHold;
            let reason = missing.reason.or_else(|| is_known.then(unset));
            Missing { subject: Subject::Secret(self.name.clone()), reason }
        };
        self.file.missing().into_iter().map(subject).collect()
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        self.file.changed()
    }
}
