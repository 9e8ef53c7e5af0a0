//! Why PID 1 could not do something: a sentence for the operator.

use std::fmt::Display;
use std::io;

use kelson_api::ApiError;
use kelson_runner::{RunnerError, SpawnError};
use nix::errno::Errno;

use crate::task::TaskError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `what` names the file, or what was to be done.
    #[error("{what}: {error}")]
    Io { what: String, error: io::Error },
    #[error("{what}: {}", .errno.desc())]
    Call { what: String, errno: Errno },
    #[error("{what}: {why}")]
    Step { what: String, why: Box<Error> },
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(transparent)]
    Processes(#[from] RunnerError),
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A message of a helper, or the finding of a look at the machine.
    #[error("{0}")]
    Told(String),
}

impl From<String> for Error {
    fn from(text: String) -> Error {
        Error::Told(text)
    }
}

/// Names what failed.
pub trait At<T> {
    /// # Errors
    /// The error, after what it happened to.
    fn at(self, what: impl Display) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Error::Io { what: what.to_string(), error })
    }
}

impl<T> At<T> for nix::Result<T> {
    fn at(self, what: impl Display) -> Result<T> {
        self.map_err(|errno| Error::Call { what: what.to_string(), errno })
    }
}

impl<T> At<T> for Result<T> {
    fn at(self, what: impl Display) -> Result<T> {
        self.map_err(|why| Error::Step { what: what.to_string(), why: Box::new(why) })
    }
}
