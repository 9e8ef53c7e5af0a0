//! The rules about which images may run: `images.verify` of the machine file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One rule. Of all rules the first counts whose pattern is that of the image's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyRule {
    /// As fnmatch(3) has it; `None`: the rule holds for all images.
    pub pattern: Option<String>,
    pub demand: Demand,
    /// A pattern of the name that a signature by cosign is for; `None`: it must be for the image's own repository.
    pub signed_as: Option<String>,
}

/// What an image must show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Demand {
    /// A signature by cosign, which this public key verifies.
    CosignKey(PathBuf),
    /// A signature of its archive by minisign, which this public key verifies.
    MinisignKey(PathBuf),
    /// Its name has a digest.
    DigestOnly,
    /// There is nothing that would be enough.
    Reject,
    /// Nothing.
    Accept,
    /// There is nothing that would be enough: the machine file, and with it the rules, could not be read.
    Unread,
}

impl VerifyRule {
    /// The one that stands for all others where these could not be read.
    pub fn unread() -> VerifyRule {
        VerifyRule { pattern: None, demand: Demand::Unread, signed_as: None }
    }
}

impl Demand {
    /// The key of the rule in the machine file.
    pub fn word(&self) -> &'static str {
        match self {
            Demand::CosignKey(_) => "cosignKey",
            Demand::MinisignKey(_) => "minisignKey",
            Demand::DigestOnly => "digestOnly",
            Demand::Reject => "reject",
            Demand::Accept => "accept",
            Demand::Unread => "unread",
        }
    }

    /// The file of the public key.
    pub fn key(&self) -> Option<&PathBuf> {
        match self {
            Demand::CosignKey(key) | Demand::MinisignKey(key) => Some(key),
            _ => None,
        }
    }

    /// The one with this word, which takes the file where it has one.
    pub fn of(word: &str, key: PathBuf) -> Option<Demand> {
        [
            Demand::CosignKey(key.clone()),
            Demand::MinisignKey(key),
            Demand::DigestOnly,
            Demand::Reject,
            Demand::Accept,
            Demand::Unread,
        ]
        .into_iter()
        .find(|demand| demand.word() == word)
    }
}
