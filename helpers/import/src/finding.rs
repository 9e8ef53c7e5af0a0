//! What became of one key of a unit.

/// Whether the service file does what the key asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Fate {
    /// It does, or the key asked for nothing that a service could miss.
    #[default]
    Kept,
    /// It does, with a difference that the sentence names.
    Approximated,
    /// It does not: something is lost.
    Rejected,
}

impl Fate {
    pub const ALL: [Fate; 3] = [Fate::Kept, Fate::Approximated, Fate::Rejected];

    pub fn name(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Approximated => "approximated",
            Fate::Rejected => "rejected",
        }
    }
}

/// One key of a unit, with all its assignments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Without brackets.
    pub section: String,
    pub key: String,
    /// The file of its last assignment.
    pub file: String,
    /// The line of that, counted from 1; 0: the file as a whole.
    pub line: u32,
    pub fate: Fate,
    pub sentence: String,
}

/// What a function of the table says of the values of a key. Empty: what the table says of the key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome(Vec<(Fate, String)>);

impl Outcome {
    /// What the table says.
    pub fn as_table() -> Outcome {
        Outcome::default()
    }

    pub fn kept(sentence: impl Into<String>) -> Outcome {
        Outcome(vec![(Fate::Kept, sentence.into())])
    }

    pub fn approximated(sentence: impl Into<String>) -> Outcome {
        Outcome(vec![(Fate::Approximated, sentence.into())])
    }

    pub fn rejected(sentence: impl Into<String>) -> Outcome {
        Outcome(vec![(Fate::Rejected, sentence.into())])
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Outcome) -> Outcome {
        for one in other.0 {
            if !self.0.contains(&one) {
                self.0.push(one);
            }
        }
        self
    }

    /// The worst of it, and the sentences about all that was not kept; of a key that was kept, all.
    pub fn summary(self, fate: Fate, sentence: &str) -> (Fate, String) {
        let Some(worst) = self.0.iter().map(|(fate, _)| *fate).max() else {
            return (fate, sentence.to_owned());
        };
        let least = if worst == Fate::Kept { Fate::Kept } else { Fate::Approximated };
        let told = self.0.into_iter().filter(|(fate, _)| *fate >= least).map(|(_, sentence)| sentence);
        (worst, told.collect::<Vec<_>>().join("; "))
    }
}

impl FromIterator<Outcome> for Outcome {
    fn from_iter<I: IntoIterator<Item = Outcome>>(outcomes: I) -> Outcome {
        outcomes.into_iter().fold(Outcome::default(), Outcome::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counts_and_what_was_kept_is_not_repeated_beside_it() {
        let both = Outcome::kept("a").and(Outcome::rejected("b")).and(Outcome::approximated("c"));
        assert_eq!(both.summary(Fate::Kept, "d"), (Fate::Rejected, "b; c".to_owned()));
        assert_eq!(
            Outcome::as_table().summary(Fate::Approximated, "d"),
            (Fate::Approximated, "d".to_owned())
        );
        let twice: Outcome = [Outcome::kept("a"), Outcome::kept("a")].into_iter().collect();
        assert_eq!(twice.summary(Fate::Rejected, ""), (Fate::Kept, "a".to_owned()));
    }
}
