//! The reports of `kelson-unpack` and `kelson-pull` to PID 1 over a pipe.

use kelson_spec::image::ImageConfig;
use serde::{Deserialize, Serialize};

/// One message of a `kelson-unpack` or a `kelson-pull`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// At most one a second.
    Progress(Progress),
    /// Something an operator should know that stops nothing: an archive that cannot be read.
    Note(String),
    /// The end of `unpack`: the image is complete in containerd and its layers are unpacked.
    Unpacked(Box<Unpacked>),
    /// A row of `list`; all of them come before `Done`.
    Image(ImageRow),
    /// An image that `prune` removed.
    Pruned(Pruned),
    /// The end of `list` and `prune`.
    Done,
    /// The end of `look`: a number that stands for the archives as they are.
    Archives(u32),
    /// The end of a pull: the image is whole in the folder of pulled images.
    Pulled(Pulled),
    /// The end of `unpack`: no archive has the image, and it was not unpacked before. `archives`: as of `Refused`, where
    /// another try fails as well.
    Absent { text: String, archives: Option<u32> },
    /// The end of `unpack`: a sentence that says what, where and what would be right. Another try fails as well, until the
    /// archives are no longer those for which the number stands.
    Refused { text: String, archives: u32 },
    /// The end of whatever was asked: a sentence that says what, where and what would be right.
    Failed(String),
}

/// How far an unpack has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes of blobs that are where they belong, compressed as they are in the archive.
    pub bytes_done: u64,
    pub bytes_total: u64,
    /// The layer that is being unpacked, from 1; 0 before the first.
    pub layer: u32,
    pub layers: u32,
}

/// An image that is ready to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    pub config: ImageConfig,
    /// Digest of its manifest.
    pub digest: String,
    /// Nothing had to be done: it was complete before.
    pub was_there: bool,
    /// Stands for the archives as they were.
    pub archives: u32,
}

/// An image that was pulled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulled {
    /// What its name leads to now: the digest of its index, or of its manifest where it has none.
    pub digest: String,
    /// What its name led to before, where it was pulled before.
    pub before: Option<String>,
    /// Bytes that came over the network, or would come.
    pub bytes: u64,
    /// Bytes of all its blobs, and of those of the image before.
    pub size: u64,
    pub size_before: u64,
    /// The name of the key whose signature it needs and has.
    pub signer: Option<String>,
}

/// One image, of an archive or of containerd.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRow {
    pub reference: String,
    /// Of the manifest for this host's platform.
    pub digest: String,
    /// The archive that holds it; `None`: only containerd has it.
    pub archive: Option<String>,
    /// `linux/amd64`.
    pub platform: String,
    /// Bytes of its blobs.
    pub size: u64,
    /// All of it is in containerd, and its layers are unpacked.
    pub unpacked: bool,
    /// Why it cannot be used: another platform, a broken archive, no signature.
    pub trouble: Option<String>,
    /// The name of the key whose signature it needs and has.
    pub signer: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    pub reference: String,
    /// Bytes of its blobs.
    pub size: u64,
}
