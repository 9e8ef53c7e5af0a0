//! Whether an image of an archive may run, by the rules and the keys as they are now.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use kelson_image::{Digest, Reference, Report};
use kelson_spec::registries::RegistriesSpec;
use kelson_spec::verify::VerifyRule;

use crate::Context;
use crate::archive::{Archive, ArchiveError, Found, Scan};
use crate::blocking::blocking;
use crate::error::UnpackError;
use crate::trust::{self, Needed, TrustError};

/// Judges an image for a service that means `wanted`, before anything is done for it. What was unpacked of it before proves
/// nothing: the signature is read again. Returns the archive in which it was proved, from which alone it may be unpacked.
pub async fn judge(
    context: &Context,
    wanted: &Reference,
    scan: &Scan,
    opened: Option<Archive>,
    missing: impl Fn() -> UnpackError,
) -> Result<Option<Archive>, UnpackError> {
    let name = wanted.to_string();
    let untrusted = {
        let name = name.clone();
        move |error| UnpackError::Untrusted { image: name.clone(), error }
    };
    let needed = {
        let (rules, wanted) = (context.verify.clone(), wanted.clone());
        blocking(move || trust::needed(&rules, &wanted)).await?.map_err(&untrusted)?
    };
    if matches!(needed, Needed::Nothing) {
        return Ok(opened);
    }
    let found = scan.find(wanted).ok_or_else(&missing)?.clone();
    let (pulled, host) = (context.state_dir.join(RegistriesSpec::FOLDER), context.host.clone());
    let wanted = wanted.clone();
    let is_pulled = found.archive.starts_with(&pulled);
    let work = move || {
        let in_image = |error: ArchiveError| UnpackError::Archive { image: wanted.to_string(), error };
        let archive = match opened {
            Some(archive) => archive,
            None => Archive::open(&found.archive).map_err(in_image)?,
        };
        let image = archive.image(&wanted, &host).map_err(in_image)?;
        // What was unpacked before is compared with what was found.
        if image.manifest.digest != found.manifest {
            return Err(UnpackError::Changing(found.archive));
        }
        let digests: Vec<Digest> = image.index.into_iter().chain([image.manifest.digest]).collect();
        prove(&needed, &archive, is_pulled, &digests).map_err(|error| match error {
            Refusal::Trust(error) => untrusted(error),
            Refusal::Archive(error) => in_image(error),
        })?;
        Ok(archive)
    };
    match blocking(work).await? {
        // It was pulled before there was the rule: a pull brings its signature.
        Err(UnpackError::Untrusted { error: error @ TrustError::Unsigned(_), .. }) if is_pulled => {
            let text = format!("image {name} was pulled without its signature: {error}");
            context.reporter.send(&Report::Note(text.clone()));
            Err(UnpackError::NoArchive { text, whole: scan.whole })
        }
        judged => judged.map(Some),
    }
}

fn is_unsigned(error: &TrustError) -> bool {
    matches!(error, TrustError::Unsigned(_))
}

/// Why an image is not proved.
enum Refusal {
    Trust(TrustError),
    Archive(ArchiveError),
}

/// Proves one of these digests, or the archive as a whole. Returns the name of the key.
fn prove(
    needed: &Needed,
    archive: &Archive,
    is_pulled: bool,
    digests: &[Digest],
) -> Result<Option<String>, Refusal> {
    match needed {
        Needed::Nothing => Ok(None),
        Needed::Minisign(key) if !is_pulled => {
            let path = archive.path();
            let file = archive.file().ok_or_else(|| TrustError::Folder(path.to_owned()));
            file.and_then(|file| key.prove(path, file)).map_err(Refusal::Trust)?;
            Ok(Some(key.name()))
        }
        Needed::Minisign(_) => Err(Refusal::Trust(TrustError::NoArchive)),
        Needed::Cosign(key, signed_as) => {
            let mut refused = None;
            for digest in digests {
                let signatures = archive.signatures(*digest).map_err(Refusal::Archive)?;
                match key.prove(*digest, signed_as, &signatures) {
                    Ok(()) => return Ok(Some(key.name())),
                    // The manifest for this host has mostly none of its own, which tells nothing.
                    Err(error) if refused.as_ref().is_none_or(is_unsigned) => refused = Some(error),
                    Err(_) => {}
                }
            }
            let unsigned = || TrustError::Unsigned(key.name());
            Err(Refusal::Trust(match refused.unwrap_or_else(unsigned) {
                TrustError::Unsigned(_) if !is_pulled => TrustError::NoRegistry(archive.path().to_owned()),
                error => error,
            }))
        }
    }
}

/// Judges the images of a list, whose archives are opened once where they follow one another.
#[derive(Default)]
pub struct Judge {
    rules: Vec<VerifyRule>,
    pulled: PathBuf,
    opened: Option<Archive>,
    /// What was found of whole archives: the archive, the key, and what is wrong.
    archives: Vec<(PathBuf, String, Option<String>)>,
}

impl Judge {
    pub fn new(context: &Context) -> Judge {
        let pulled = context.state_dir.join(RegistriesSpec::FOLDER);
        Judge { rules: context.verify.clone(), pulled, opened: None, archives: Vec::new() }
    }

    /// The name of the key that proves an image. The error: why it may not run.
    pub fn signer(&mut self, name: &Reference, found: Option<&Found>) -> Result<Option<String>, String> {
        let needed = trust::needed(&self.rules, name).map_err(|error| error.to_string())?;
        let (key, whole) = match &needed {
            Needed::Nothing => return Ok(None),
            Needed::Cosign(key, _) => (key.name(), false),
            Needed::Minisign(key) => (key.name(), true),
        };
        let Some(found) = found else {
            return Err(format!("no archive holds it any more, so {key} cannot verify it"));
        };
        let known = self.archives.iter().find(|(path, by, _)| *path == found.archive && *by == key);
        if let Some((_, _, trouble)) = known.filter(|_| whole) {
            return trouble.clone().map_or(Ok(Some(key)), Err);
        }
        if self.opened.as_ref().is_none_or(|archive| archive.path() != found.archive) {
            self.opened = Some(Archive::open(&found.archive).map_err(|error| error.to_string())?);
        }
        let Some(archive) = &self.opened else { return Ok(None) };
        let digests: Vec<Digest> = found.index.into_iter().chain([found.manifest]).collect();
        let is_pulled = found.archive.starts_with(&self.pulled);
        let proved = prove(&needed, archive, is_pulled, &digests).map_err(|refusal| match refusal {
            Refusal::Trust(error) => error.to_string(),
            Refusal::Archive(error) => error.to_string(),
        });
        self.archives.push((found.archive.clone(), key, proved.clone().err()));
        proved
    }
}

/// The number of the archives, mixed with one of the keys: what was rejected with other keys is judged again.
pub fn with_keys(archives: u32, rules: &[VerifyRule]) -> u32 {
    if rules.is_empty() {
        return archives;
    }
    let mut hasher = DefaultHasher::new();
    archives.hash(&mut hasher);
    for key in rules.iter().filter_map(|rule| rule.demand.key()) {
        let stamp = std::fs::metadata(key).ok();
        let stamp =
            stamp.map(|file| (file.ino(), file.size(), file.mtime(), file.mtime_nsec(), file.ctime_nsec()));
        (key, stamp).hash(&mut hasher);
    }
    u32::try_from(hasher.finish() >> 32).unwrap_or_default()
}
