//! The names of images that lead to a registry: `registry.example/app:1.4`, `docker.io/library/redis@sha256:…`.
//!
//! A name leads to a registry if it begins with a host: a part with a dot or a port. A name such as `redis:7` or
//! `demo/nginx` has none, and Kelson does not guess one: it means an image of an archive alone.

use std::fmt;

use crate::digest::Digest;
use crate::reference::Reference;

/// Where an image is in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// `HOST` or `HOST:PORT`, as the name has it.
    pub registry: String,
    /// Such as `library/redis`.
    pub repository: String,
    pub version: Version,
}

/// What is asked for of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    Tag(String),
    Digest(Digest),
}

impl Remote {
    /// The name that Docker's registry goes by.
    pub const DOCKER: &'static str = "docker.io";

    /// Reads the name of an image. `None`: it is none, or it leads to no registry.
    pub fn parse(text: &str) -> Option<Remote> {
        // Its form, digest and tag included.
        let reference = Reference::parse(text).ok()?;
        let (registry, rest) = text.split_once('/')?;
        let registry = match registry {
            "index.docker.io" => Self::DOCKER,
            host if host.contains(['.', ':']) => host,
            _ => return None,
        };
        let name = rest.split_once('@').map_or(rest, |(name, _)| name);
        let (repository, tag) = name.rsplit_once(':').unwrap_or((name, "latest"));
        let repository = match registry {
            Self::DOCKER if !repository.contains('/') => format!("library/{repository}"),
            _ => repository.to_owned(),
        };
        let version = match reference.digest() {
            Some(digest) => Version::Digest(digest),
            None => Version::Tag(tag.to_owned()),
        };
        Some(Remote { registry: registry.to_owned(), repository, version })
    }
}

/// As the path of a manifest ends.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Tag(tag) => f.write_str(tag),
            Version::Digest(digest) => digest.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn of(text: &str) -> Option<(String, String, String)> {
        Remote::parse(text).map(|remote| (remote.registry, remote.repository, remote.version.to_string()))
    }

    #[test]
    fn a_name_with_a_host_leads_to_a_registry() {
        let digest = format!("quay.io/a/b:1@{DIGEST}");
        for (text, registry, repository, version) in [
            ("registry.example/app:1.4", "registry.example", "app", "1.4"),
            ("registry.example:5000/a/b/c", "registry.example:5000", "a/b/c", "latest"),
            ("localhost:5000/x:1", "localhost:5000", "x", "1"),
            ("10.0.0.1/x", "10.0.0.1", "x", "latest"),
            ("docker.io/redis:7", "docker.io", "library/redis", "7"),
            ("index.docker.io/demo/nginx:1", "docker.io", "demo/nginx", "1"),
            (&digest, "quay.io", "a/b", DIGEST),
        ] {
            let expected = (registry.to_owned(), repository.to_owned(), version.to_owned());
            assert_eq!(of(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_name_without_a_host_leads_nowhere() {
        for text in [
            "redis:7",
            "demo/nginx:1",
            "localhost/x",
            "library/redis",
            "",
            "a.b",
            "quay.io/",
            "quay.io/A",
            "x.y/a@sha256:0",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
