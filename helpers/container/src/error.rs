//! Why a container could not be made, in a sentence for the operator.

use std::path::PathBuf;

use nix::errno::Errno;

#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    #[error("{what}: {}", errno.desc())]
    Call { what: String, errno: Errno },
    #[error("{0} is no request for a container; init starts this program")]
    Request(String),
    #[error("mount {destination}: {option:?} is no option of a mount")]
    Option { destination: String, option: String },
    #[error("{0:?} is no capability, resource or namespace that Kelson knows")]
    Word(String),
    #[error(
        "cannot map the owners of files in {}: its file system{or_below} ({kind}, Linux {kernel}) does not support it; \
         put it on one that does, such as ext4, xfs or btrfs (tmpfs from Linux 6.3), or write userNamespace: false",
        path.display()
    )]
    Unmapped { path: PathBuf, or_below: &'static str, kind: String, kernel: String },
    #[error(transparent)]
    Terminal(#[from] kelson_runner::RunnerError),
    #[error("{path}: {}", if *errno == Errno::ENOENT { "not found in the image" } else { errno.desc() })]
    Execute { path: String, errno: Errno },
}

impl ContainerError {
    /// What the kernel says, if it was a call that failed.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            ContainerError::Call { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

/// Names what was done.
pub trait At<T> {
    fn at(self, what: impl FnOnce() -> String) -> Result<T, ContainerError>;
}

impl<T> At<T> for nix::Result<T> {
    fn at(self, what: impl FnOnce() -> String) -> Result<T, ContainerError> {
        self.map_err(|errno| ContainerError::Call { what: what(), errno })
    }
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, what: impl FnOnce() -> String) -> Result<T, ContainerError> {
        self.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))).at(what)
    }
}
