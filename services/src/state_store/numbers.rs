//! The numbers under which the state knows what is no message of its own.

use std::time::Duration;

use kelson_proto::state::v1 as stored;
use kelson_runner::Exit;

pub use crate::model::Numbered;

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
    use std::fmt::Debug;

    use kelson_proto::v1;

    use super::*;
    use crate::model::{RestartReason, Standing, State};
    use crate::node_health::HealthState;

    /// A word has the number that `named` has under the same name: in the state, and in the API.
    fn same<T: Numbered + Debug, N: TryFrom<i32> + Debug>() {
        assert!(T::ALL.len() > 2);
        for word in T::ALL {
            let named = N::try_from(word.number()).ok();
            assert_eq!(named.map(|named| format!("{named:?}")), Some(format!("{word:?}")));
            assert_eq!(T::of_number(word.number()), Some(*word));
        }
        assert_eq!((T::of_number(0), T::of_number(-1), T::of_number(99)), (None, None, None));
    }

    #[test]
    fn a_word_has_one_number_and_others_have_none() {
        same::<State, stored::State>();
        same::<State, v1::State>();
        same::<RestartReason, stored::RestartReason>();
        same::<Standing, stored::Standing>();
        same::<Standing, v1::check::Standing>();
        same::<HealthState, stored::HealthState>();
        same::<HealthState, v1::health_report::State>();
        for exit in [Exit::Status(0), Exit::Status(3), Exit::Signal { signal: 11, core: true }, Exit::Lost] {
            assert_eq!(exit_of_stored(&exit_to_stored(exit)), exit);
        }
    }
}
