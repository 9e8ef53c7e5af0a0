//! The known facts about a service in a group, whether its file is sound or not.

use std::path::{Path, PathBuf};

use crate::tree::Position;
use kelson_spec::names::is_name;
use kelson_spec::service::{Lifecycle, LifecycleHook, ServiceEvent};

/// The part of a member in relation to the mains of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Main,
    /// Ends before they start.
    Prestart,
    /// Runs before they start.
    Sidecar,
    /// Once they are up.
    Poststart,
    /// Once they are down.
    Poststop,
    /// Its lifecycle cannot be read. The mains wait for it: it may be what they must not start without.
    Unknown,
}

impl Part {
    pub fn of(lifecycle: &Lifecycle) -> Self {
        match (lifecycle.hook, lifecycle.sidecar) {
            (None, false) => Part::Main,
            (None | Some(LifecycleHook::Prestart), true) => Part::Sidecar,
            (Some(LifecycleHook::Prestart), false) => Part::Prestart,
            (Some(LifecycleHook::Poststart), _) => Part::Poststart,
            (Some(LifecycleHook::Poststop), _) => Part::Poststop,
        }
    }

    /// The event of this member that a main waits for before it starts.
    pub fn before_mains(self) -> Option<ServiceEvent> {
        match self {
            Part::Prestart => Some(ServiceEvent::Finished),
            Part::Sidecar | Part::Unknown => Some(ServiceEvent::Up),
            Part::Main | Part::Poststart | Part::Poststop => None,
        }
    }
}

/// A service that is in a group, whether its file is sound or not.
#[derive(Debug)]
pub struct Member {
    pub service: String,
    pub group: String,
    pub part: Part,
    pub file: PathBuf,
    /// Where the group is named.
    pub at: Position,
}

/// The facts about a service that others need even if its file has a mistake.
#[derive(Debug, Default)]
pub struct Ties {
    pub member: Option<Member>,
    /// `None`: nothing that can be read.
    pub required: Option<bool>,
}

impl Ties {
    /// The ties of a file that is not YAML, from the lines that look like them: services must not start without what may go
    /// before them because of a tab in its file.
    pub fn guessed(service: &str, file: &Path, text: &str) -> Self {
        let value = |key: &str| {
            text.lines().zip(1_u32..).find_map(|(line, number)| {
                let value = line.strip_prefix(key)?.strip_prefix(':')?;
                let value = value.split(" #").next()?.trim().trim_matches(['"', '\'']);
                Some((value, number))
            })
        };
        let member = value("group").filter(|(group, _)| is_name(group)).map(|(group, line)| Member {
            service: service.to_owned(),
            group: group.to_owned(),
            part: Part::Unknown,
            file: file.to_owned(),
            at: Position { line, column: 1 },
        });
        let required = value("required").and_then(|(value, _)| value.parse().ok());
        Ties { member, required }
    }
}
