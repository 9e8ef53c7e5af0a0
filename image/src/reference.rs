//! The names of images, as operators, registries and tools write them, brought to one form.
//!
//! Kelson pulls nothing, so the registry that is the default elsewhere adds nothing: `docker.io/library/`,
//! `docker.io/` and `localhost/` in front of a name do not count, and neither does `:latest` behind it. An archive
//! and a service file mean the same image when what is left is the same. A name with a digest means the image whose
//! manifest or index has that digest, whatever its tag.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::digest::Digest;

/// As long as registries take; what is longer is hostile.
const MAX_LENGTH: usize = 512;

/// The name of an image in its shortest form: `demo/nginx:1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    repository: String,
    tag: String,
    digest: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not the name of an image, such as demo/nginx:1 or demo/nginx@sha256:…")]
pub struct ReferenceError(String);

impl Reference {
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        Self::read(text).ok_or_else(|| ReferenceError(text.chars().take(100).collect()))
    }

    fn read(text: &str) -> Option<Self> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(Digest::parse(digest).ok()?)),
            None => (text, None),
        };
        // A colon before the last slash belongs to a registry's port.
        let (repository, tag) = match name.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, tag),
            _ => (name, "latest"),
        };
        let repository = shortest(repository);
        (is_repository(repository) && is_tag(tag)).then(|| Self {
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            digest,
        })
    }

    /// The name of an image that has only a tag, or none: its archive's file name says what it is, so `redis.tar` with
    /// the tag `7` is `redis:7`, and without a tag `redis:latest`.
    pub fn of_archive(file_name: &str, tag: Option<&str>) -> Option<Self> {
        let lower = file_name.to_lowercase();
        let stem = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"]
            .iter()
            .find_map(|end| lower.strip_suffix(end))
            .unwrap_or(&lower);
        let tag = tag.unwrap_or("latest");
        (is_repository(stem) && !stem.contains(['/', ':']) && is_tag(tag)).then(|| Self {
            repository: stem.to_owned(),
            tag: tag.to_owned(),
            digest: None,
        })
    }

    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The same repository, by this digest instead of a tag.
    #[must_use]
    pub fn by_digest(&self, digest: Digest) -> Self {
        Self { repository: self.repository.clone(), tag: "latest".to_owned(), digest: Some(digest) }
    }

    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Whether a service that says `self` means an image that an archive holds under `name`, with `digests`: its
    /// manifest's, and that of the index that it was found in.
    pub fn means(&self, name: &Reference, digests: &[Digest]) -> bool {
        self.repository == name.repository
            && match &self.digest {
                Some(digest) => digests.contains(digest),
                None => self.tag == name.tag,
            }
    }
}

/// Whether `text` can be a tag alone.
pub fn is_tag(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

/// Without the registries that do not count.
fn shortest(repository: &str) -> &str {
    let docker = ["docker.io/", "index.docker.io/"].iter().find_map(|prefix| repository.strip_prefix(prefix));
    if let Some(local) = repository.strip_prefix("localhost/") {
        return local;
    }
    let name = docker.unwrap_or(repository);
    match name.strip_prefix("library/") {
        Some(official) if !official.contains('/') => official,
        _ => name,
    }
}

/// Parts of small letters and digits with `.`, `_` and `-` inside; the first may be a registry with a port and
/// capitals. It becomes a path, so it contains no `..`.
fn is_repository(text: &str) -> bool {
    let ends_well = |part: &str, capitals: bool| {
        let sound =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || capitals && b.is_ascii_uppercase();
        part.bytes().next().is_some_and(sound)
            && part.bytes().next_back().is_some_and(sound)
            && part.bytes().all(|b| sound(b) || b"._-".contains(&b))
            && !part.contains("..")
    };
    let (first, rest) = match text.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (text, None),
    };
    let first = match (first.split_once(':'), rest) {
        (Some((host, port)), Some(_)) => {
            ends_well(host, true) && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
        }
        (None, Some(_)) => ends_well(first, first.contains('.')),
        _ => ends_well(first, false),
    };
    first && rest.is_none_or(|rest| rest.split('/').all(|part| ends_well(part, false)))
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.digest {
            Some(digest) => write!(f, "{}@{digest}", self.repository),
            None => write!(f, "{}:{}", self.repository, self.tag),
        }
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_to_one_form() {
        for (written, short) in [
            ("demo/nginx:1", "demo/nginx:1"),
            ("docker.io/demo/nginx:1", "demo/nginx:1"),
            ("index.docker.io/demo/nginx:1", "demo/nginx:1"),
            ("docker.io/library/redis:7", "redis:7"),
            ("library/redis:7", "redis:7"),
            ("library/a/b", "library/a/b:latest"),
            ("localhost/x:1", "x:1"),
            ("redis", "redis:latest"),
            ("localhost:5000/x", "localhost:5000/x:latest"),
            ("Registry.example.com:5000/a/b_c:V1", "Registry.example.com:5000/a/b_c:V1"),
            ("quay.io/x/y:latest", "quay.io/x/y:latest"),
        ] {
            let reference = Reference::parse(written).unwrap();
            assert_eq!(reference.to_string(), short);
            assert_eq!(Reference::parse(short).unwrap(), reference, "{short} read again");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(MAX_LENGTH + 1);
        for wrong in [
            "",
            ":",
            ":1",
            "a:",
            "a b",
            "A",
            "a/B",
            "a//b",
            "a..b",
            "a.example/b..c",
            "/a",
            "a/",
            "../a",
            "a/..",
            "-a",
            "a-",
            "a:b:c",
            "a:.b",
            "a@",
            "a@sha256:00",
            "a@sha512:00",
            "docker.io/",
            "localhost/",
            "é",
            "a\n",
            &long,
        ] {
            assert!(Reference::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_image_without_a_name_has_its_archives() {
        for (file, tag, name) in [
            ("redis.tar", Some("7"), Some("redis:7")),
            ("redis.tar.gz", None, Some("redis:latest")),
            ("web.TGZ", Some("a"), Some("web:a")),
            ("layout", Some("1"), Some("layout:1")),
            ("web.tar.zst", None, Some("web:latest")),
            ("My App.tar", None, None),
            (".tar", None, None),
            ("redis.tar", Some("a/b"), None),
        ] {
            assert_eq!(
                Reference::of_archive(file, tag).map(|r| r.to_string()).as_deref(),
                name,
                "{file} {tag:?}"
            );
        }
    }

    #[test]
    fn a_service_means_what_an_archive_holds() {
        let (manifest, index, other) = (Digest::new([1; 32]), Digest::new([2; 32]), Digest::new([3; 32]));
        for (service, archive, means) in [
            ("demo/nginx:1", "docker.io/demo/nginx:1", true),
            ("docker.io/demo/nginx:1", "localhost/demo/nginx:1", true),
            ("demo/nginx:1", "demo/nginx:2", false),
            ("demo/nginx", "demo/nginx:latest", true),
            ("nginx:1", "demo/nginx:1", false),
            ("nginx:1", "quay.io/nginx:1", false),
            (&format!("demo/nginx@{manifest}"), "demo/nginx:9", true),
            (&format!("demo/nginx:1@{index}"), "docker.io/demo/nginx:9", true),
            (&format!("demo/nginx@{other}"), "demo/nginx:1", false),
            (&format!("demo/apache@{manifest}"), "demo/nginx:1", false),
        ] {
            let (service, archive) = (Reference::parse(service).unwrap(), Reference::parse(archive).unwrap());
            assert_eq!(service.means(&archive, &[manifest, index]), means, "{service} and {archive}");
        }
    }
}
