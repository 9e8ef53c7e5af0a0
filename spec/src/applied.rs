//! Configurations that are applied from outside: the questions of PID 1 to `kelson-load`, which keeps them, and its
//! answers.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::loaded::Loaded;

/// The folder in the state folder that holds them.
pub const FOLDER: &str = "config";
/// The link in it to the one in force; without it, that is the configuration folder of the host itself.
pub const CURRENT: &str = "current";

/// The longest question, in bytes: the longest request of the API, and what is around it.
pub const QUESTION_MAX: usize = 2 << 20;

/// The number of a configuration. 0 is the configuration folder of the host itself.
pub type Generation = u64;

/// A file of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFile {
    /// `machine.yaml`, `services/NAME.yaml` or `groups/NAME.yaml`.
    pub name: String,
    pub content: Vec<u8>,
}

/// The files that are to be in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    Files(Vec<TreeFile>),
    Generation(Generation),
}

/// A configuration that is to be in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub source: Source,
    /// The generation that the caller has changed; `None`: whichever is in force.
    pub base: Option<Generation>,
    pub dry_run: bool,
    /// The next boot returns to the one before, unless it is confirmed until then.
    pub on_trial: bool,
    pub about: About,
}

/// Who has applied a configuration, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub author: String,
    pub message: String,
    pub time: SystemTime,
}

/// A question of PID 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    Apply(Change),
    /// Keep the one that is on trial.
    Confirm,
    /// Return to the one before that on trial.
    Revert,
    /// The files of a generation; `None`: of the one in force. With `sources`, also those that the sources of the machine
    /// file gave, each below `sources/` and the name of its source.
    Get {
        generation: Option<Generation>,
        sources: bool,
    },
    History,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Of `Apply` and `Revert`. `now` is in force; where `loaded` has mistakes, or only an answer was asked for, it is the
    /// one from before.
    Applied {
        before: Generation,
        now: Generation,
        loaded: Box<Loaded>,
    },
    /// No configuration is on trial (any more).
    Settled,
    Files {
        generation: Generation,
        files: Vec<TreeFile>,
    },
    /// The newest first. `trial`: the one on trial, and the one to which the host returns.
    History {
        kept: Vec<Kept>,
        trial: Option<(Generation, Generation)>,
    },
    /// Why nothing has changed: a sentence.
    Refused(String),
}

/// A configuration of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub generation: Generation,
    pub current: bool,
    /// It was not confirmed in time.
    pub reverted: bool,
    /// `None`: it is the configuration folder of the host itself.
    pub about: Option<About>,
}
