//! The encrypted disks of the machine file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::disk::Format;

/// The type of an encrypted disk, as blkid(8) calls it.
pub const LUKS: &str = "crypto_LUKS";
/// Where the device mapper shows its devices by their names.
pub const MAPPINGS: &str = "/dev/mapper";

/// An encrypted disk, and the ways to open it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EncryptionSpec {
    /// The name below [`MAPPINGS`] of what is in it.
    pub name: String,
    /// A [name of a disk](crate::disk::DiskName).
    pub source: String,
    /// The TPM has a key of it.
    pub tpm2: Option<Tpm2Spec>,
    /// The file with its key. Without one and without a TPM only an operator opens it.
    pub key_file: Option<PathBuf>,
    /// The file that gets its recovery key when it is made.
    pub recovery_file: Option<PathBuf>,
    /// How long the boot waits for the disk. One that comes later is opened then.
    pub wait: Duration,
    pub format: Format,
}

/// A key that the TPM of the machine gives only while these registers of it are as they were when the disk was encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tpm2Spec {
    pub pcrs: Vec<u8>,
}

impl Default for Tpm2Spec {
    fn default() -> Self {
        // Of Secure Boot: the certificates by which the firmware starts a kernel.
        Tpm2Spec { pcrs: vec![7] }
    }
}

impl Default for EncryptionSpec {
    fn default() -> Self {
        EncryptionSpec {
            name: String::new(),
            source: String::new(),
            tpm2: None,
            key_file: None,
            recovery_file: None,
            wait: Duration::from_secs(10),
            format: Format::default(),
        }
    }
}

impl EncryptionSpec {
    /// The node of what is in it, once it is open.
    pub fn device(&self) -> PathBuf {
        Path::new(MAPPINGS).join(&self.name)
    }

    /// The files that it is opened with.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.key_file.iter().chain(&self.recovery_file).map(PathBuf::as_path)
    }
}
