//! The answers of the table.

use std::time::Duration;

use super::input::Rules;

/// The one piece of work under way. A new one cancels the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    None,
    When,
    Open,
    Pre,
    Spawn,
    /// Find the main process, which the command has left behind.
    FindMain,
    PreStop,
    /// Signal, timeout, kill.
    Stop,
    /// Kill what is left of the run.
    Clear,
    Post,
    /// Prepare again what a one-shot that has finished ran in, and run its `undo` hooks there.
    Undo,
    /// Kill a `post` hook that is under way: there is no time for it.
    EndPost,
    Close,
    /// Wait until the archives of images have changed.
    AwaitArchives,
}

/// An effect that the task performs, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Record and publish the state, and tell it as an event.
    Tell,
    /// Record and publish what changed, without an event.
    Publish,
    /// Record what changed: a deadline was moved.
    Record,
    /// An event that changes nothing.
    Note(String),
    Work(Work),
    /// Look whether the gate holds, and watch it from now on.
    AskGate,
    /// Stop watching the gate.
    DropGate,
    /// An operator demands its next run.
    Demand,
    /// Take up the new spec: nothing of the old one is open.
    Adopt,
    /// At rest.
    Rested,
    /// Its whole group is to be restarted, and rest at least this long in between; the text says why.
    AskGroup {
        text: String,
        after: Duration,
    },
}

/// The outcome of a request, at the moment it was taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    NothingToDo(String),
    Refused(String),
}

/// The result of an input.
#[derive(Debug, Default)]
pub struct Step {
    pub effects: Vec<Effect>,
    /// Only for requests.
    pub answer: Option<Answer>,
}

/// A step while it is taken: by which rules, when, and what has come of it so far.
pub(super) struct Moment<'a> {
    pub rules: &'a Rules,
    pub now: Duration,
    /// Any number, for jitter.
    pub chance: u32,
    pub effects: Vec<Effect>,
}

impl Moment<'_> {
    pub fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub fn work(&mut self, work: Work) {
        self.push(Effect::Work(work));
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.push(Effect::Note(text.into()));
    }

    pub fn notes(&mut self, texts: Vec<String>) {
        self.effects.extend(texts.into_iter().map(Effect::Note));
    }

    /// The time this much later.
    pub fn after(&self, time: Duration) -> Duration {
        self.now.saturating_add(time)
    }
}
