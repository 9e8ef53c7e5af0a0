//! The paths that start a service.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What starts a service with `start: onDemand`, besides what comes in on its sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTrigger {
    pub event: PathEvent,
    /// Absolute. With [`PathEvent::Exists`] its last part may be a pattern as in a shell.
    pub path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathEvent {
    /// It is there.
    Exists,
    /// The folder has an entry that is neither hidden nor a backup (`x~`).
    NotEmpty,
    /// It came, went, or was closed after writing; of a folder, one of its entries was.
    Changed,
    /// The same, and each write.
    Modified,
}

impl PathEvent {
    pub const ALL: [PathEvent; 4] =
        [PathEvent::Exists, PathEvent::NotEmpty, PathEvent::Changed, PathEvent::Modified];

    /// The key of the service file.
    pub fn name(self) -> &'static str {
        match self {
            PathEvent::Exists => "exists",
            PathEvent::NotEmpty => "notEmpty",
            PathEvent::Changed => "changed",
            PathEvent::Modified => "modified",
        }
    }

    /// Whether it happens at a time, and is not a state that lasts.
    pub fn is_change(self) -> bool {
        matches!(self, PathEvent::Changed | PathEvent::Modified)
    }
}

impl PathTrigger {
    /// The most that a service has.
    pub const MOST: usize = 64;

    /// The folder and the names in it, if the path stands for several.
    pub fn pattern(&self) -> Option<(&str, &str)> {
        let (folder, name) = self.path.rsplit_once('/')?;
        let folder = if folder.is_empty() { "/" } else { folder };
        is_pattern(name).then_some((folder, name))
    }
}

/// Whether a shell takes this for more than one name.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// As the service file has it.
impl fmt::Display for PathTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.event.name(), self.path)
    }
}
