//! Whether a secret is set: its sealed value is a file of the state folder, which is followed as any path is, or a source of the
//! configuration gave it for this boot. Nobody reads it here.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use kelson_spec::secrets::given;

use super::path::{PathCondition, Paths};
use crate::condition::{BoxFuture, Condition, Level};
use crate::missing::{Missing, Reason, Subject};

/// Holds while a secret is set.
pub struct SecretCondition {
    name: String,
    /// `None`: a source gave it.
    file: Option<PathCondition>,
}

impl SecretCondition {
    /// `folder` holds the sealed values.
    pub fn new(paths: &Paths, folder: &Path, runtime: &Path, name: &str) -> SecretCondition {
        let file = || paths.condition(folder.join(name));
        let is_given = given(runtime, name).is_some();
        SecretCondition { name: name.to_owned(), file: (!is_given).then(file) }
    }
}

impl Condition for SecretCondition {
    fn level(&self) -> Level {
        self.file.as_ref().map_or(Level::Holds, Condition::level)
    }

    fn missing(&self) -> Vec<Missing> {
        let subject = |missing: Missing| {
            let unset = || Reason::Unset(Arc::from(self.name.as_str()));
            let is_known = self.level() == Level::DoesNotHold;
            let reason = missing.reason.or_else(|| is_known.then(unset));
            Missing { subject: Subject::Secret(self.name.clone()), reason }
        };
        let missing = self.file.as_ref().map(Condition::missing);
        missing.into_iter().flatten().map(subject).collect()
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        match &mut self.file {
            Some(file) => file.changed(),
            None => Box::pin(pending()),
        }
    }
}
