//! The numbers under which the state knows the words of the host, and what stands for a number that a later release has
//! added.

use std::time::Duration;

use kelson_proto::state::v1 as stored;
use kelson_runner::Exit;

use crate::model::{RestartReason, Standing, State};
use crate::node_health::HealthState;

/// A word that has a number in the state.
pub trait Numbered: Sized {
    fn number(self) -> i32;

    /// `None`: this version does not know it.
    fn of_number(number: i32) -> Option<Self>;
}

/// Both directions of a word with the same variants on both sides.
macro_rules! numbered {
    ($word:ident: $($variant:ident),+) => {
        impl Numbered for $word {
            fn number(self) -> i32 {
                match self {
                    $($word::$variant => stored::$word::$variant.into(),)+
                }
            }

            fn of_number(number: i32) -> Option<Self> {
                match stored::$word::try_from(number).ok()? {
                    stored::$word::Unspecified => None,
                    $(stored::$word::$variant => Some($word::$variant),)+
                }
            }
        }
    };
}

numbered!(
    State: Initialized, Waiting, Preparing, Starting, Running, Stopping, Finished, Failed, Skipped, Backoff, Stopped
);
numbered!(
    RestartReason: Exit, Signal, OutOfMemory, Lost, NotStarted, NotReady, Check, Watchdog, Dependency, Group, Operator
);
numbered!(Standing: Pending, Passing, Failing);
numbered!(HealthState: Pending, Healthy, Unhealthy, Failed);

/// Nanoseconds.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub fn exit_to_stored(exit: Exit) -> stored::Exit {
    use stored::exit::How;
    match exit {
        Exit::Status(status) => stored::Exit { how: Some(How::Status(status)), core_dumped: false },
        Exit::Signal { signal, core } => stored::Exit { how: Some(How::Signal(signal)), core_dumped: core },
        Exit::Lost => stored::Exit::default(),
    }
}

pub fn exit_of_stored(exit: &stored::Exit) -> Exit {
    use stored::exit::How;
    match exit.how {
        Some(How::Status(status)) => Exit::Status(status),
        Some(How::Signal(signal)) => Exit::Signal { signal, core: exit.core_dumped },
        None => Exit::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each_comes_back<T: Numbered + PartialEq + std::fmt::Debug + Copy>(all: impl Iterator<Item = i32>) {
        let words: Vec<T> = all.filter_map(T::of_number).collect();
        assert!(words.len() > 2);
        for word in words {
            assert_eq!(T::of_number(word.number()), Some(word));
        }
        assert_eq!(T::of_number(0), None);
        assert_eq!(T::of_number(99), None);
    }

    #[test]
    fn a_word_has_one_number_and_others_have_none() {
        each_comes_back::<State>(0..100);
        each_comes_back::<RestartReason>(0..100);
        each_comes_back::<Standing>(0..100);
        each_comes_back::<HealthState>(0..100);
        for exit in [Exit::Status(0), Exit::Status(3), Exit::Signal { signal: 11, core: true }, Exit::Lost] {
            assert_eq!(exit_of_stored(&exit_to_stored(exit)), exit);
        }
    }
}
