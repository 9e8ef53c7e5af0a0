//! Why a piece of work failed, in sentences for the operator.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use kelson_containerd::CallError;
use kelson_image::ReferenceError;
use thiserror::Error;

use crate::account::AccountError;
use crate::archive::{ArchiveError, LayerError};
use crate::native::ExtractError;
use crate::trust::TrustError;

#[derive(Debug, Error)]
pub enum UnpackError {
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// `whole`: every archive could be read.
    #[error("{text}")]
    NoArchive { text: String, whole: bool },
    #[error("image {image}: {error}")]
    Archive { image: String, error: ArchiveError },
    #[error("{at}: {error}")]
    Layer { at: Box<LayerOf>, error: Box<LayerError> },
    #[error("{at} is not the one that its config names: it unpacks to {found}, {expected} would be right")]
    DiffId { at: Box<LayerOf>, expected: String, found: String },
    #[error("{at}: {error}")]
    InLayer { at: Box<LayerOf>, error: CallError },
    #[error("{at}: its files could not be written to the disk: {error}")]
    Sync { at: Box<LayerOf>, error: io::Error },
    #[error("image {image}: {error}")]
    InImage { image: String, error: CallError },
    #[error(transparent)]
    Containerd(#[from] CallError),
    #[error("image {image} in containerd is damaged: {text}")]
    Damaged { image: String, text: String },
    #[error("parts of it are missing in containerd")]
    Incomplete,
    #[error("image {image}: {error}")]
    Account { image: String, error: AccountError },
    #[error("image {image}: its files cannot be looked into for its users: {error}")]
    Rootfs { image: String, error: io::Error },
    #[error("image {image}: its stop signal {signal:?} is not known")]
    StopSignal { image: String, signal: String },
    #[error("{} cannot be locked: {error}", path.display())]
    Lock { path: PathBuf, error: io::Error },
    #[error("{at}: {error}")]
    Extract { at: Box<LayerOf>, error: ExtractError },
    #[error("{}: {error}", path.display())]
    Store { path: PathBuf, error: io::Error },
    #[error("image {image} may not run: {error}")]
    Untrusted { image: String, error: TrustError },
    #[error("archive {} changes while it is read; try again", .0.display())]
    Changing(PathBuf),
    #[error("a thread ended before its work was done")]
    Thread,
}

/// Which layer of which image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerOf {
    pub image: String,
    /// From 1.
    pub layer: usize,
    pub layers: usize,
    /// Where its archive has to do with it.
    pub archive: Option<PathBuf>,
}

impl fmt::Display for LayerOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "image {}, layer {} of {}", self.image, self.layer, self.layers)?;
        match &self.archive {
            Some(archive) => write!(f, " in archive {}", archive.display()),
            None => Ok(()),
        }
    }
}

impl UnpackError {
    /// Whether containerd went away meanwhile: when it is back, the same can be tried again.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Containerd(error) | Self::InLayer { error, .. } | Self::InImage { error, .. } => {
                error.is_away()
            }
            _ => false,
        }
    }

    /// Whether another try fails as well, until an archive changes.
    pub fn lasts(&self) -> bool {
        match self {
            Self::Archive { error, .. } => error.trouble.lasts(),
            Self::Untrusted { error, .. } => error.lasts(),
            Self::Layer { error, .. } => !matches!(**error, LayerError::Space { .. }),
            Self::Reference(_) | Self::DiffId { .. } | Self::Account { .. } | Self::StopSignal { .. } => true,
            _ => false,
        }
    }

    pub fn lock(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Lock { path: path.to_owned(), error: error.into() }
    }
}
