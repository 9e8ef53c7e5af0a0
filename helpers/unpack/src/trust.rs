//! Whether an image may run: the rules of `images.verify`, and signatures by cosign and by minisign.
//!
//! `kelson-pull` asks before it fetches layers, and `kelson-unpack` before each preparation of a container, with the keys as
//! they are then. Nothing here fetches anything: the caller brings the documents of a signature.

pub mod cosign;
mod error;
mod key_file;
mod minisign;

use std::path::Path;

use kelson_image::Reference;
use kelson_spec::verify::{Demand, VerifyRule};
use kelson_sys::fnmatch::matches;

pub use cosign::{CosignKey, Signature};
pub use error::TrustError;
pub use minisign::MinisignKey;

/// What an image has to show besides its name. The public keys have been read.
pub enum Needed {
    Nothing,
    Cosign(CosignKey, SignedAs),
    Minisign(MinisignKey),
}

/// The repository for which a signature by cosign must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedAs {
    /// In its shortest form.
    Repository(String),
    Pattern(String),
}

/// What the rules want of an image. Reads the key that it needs.
///
/// # Errors
/// They reject it by its name alone, or the key cannot be used.
pub fn needed(rules: &[VerifyRule], image: &Reference) -> Result<Needed, TrustError> {
    if rules.is_empty() {
        return Ok(Needed::Nothing);
    }
    let rule = rules.iter().find(|rule| holds(rule, image)).ok_or(TrustError::NoRule)?;
    match &rule.demand {
        Demand::Accept => Ok(Needed::Nothing),
        Demand::Reject => Err(TrustError::Rejected(rule.pattern.clone())),
        Demand::Unread => Err(TrustError::RulesUnread),
        Demand::DigestOnly if image.digest().is_some() => Ok(Needed::Nothing),
        Demand::DigestOnly => Err(TrustError::Tag(image.repository().to_owned())),
        Demand::CosignKey(path) => {
            let own = || SignedAs::Repository(image.repository().to_owned());
            let signed_as = rule.signed_as.clone().map_or_else(own, SignedAs::Pattern);
            Ok(Needed::Cosign(CosignKey::read(path)?, signed_as))
        }
        Demand::MinisignKey(path) => Ok(Needed::Minisign(MinisignKey::read(path)?)),
    }
}

/// Whether the pattern is that of the name: in its shortest form or with Docker's registry, with its tag or digest or without.
fn holds(rule: &VerifyRule, image: &Reference) -> bool {
    let Some(pattern) = &rule.pattern else { return true };
    let long = |text: &str| match text.split_once('/') {
        None => format!("docker.io/library/{text}"),
        Some((first, _)) if first.contains(['.', ':']) => text.to_owned(),
        Some(_) => format!("docker.io/{text}"),
    };
    let name = image.to_string();
    [name.as_str(), image.repository()]
        .iter()
        .any(|text| matches(pattern, text) || matches(pattern, &long(text)))
}

/// The name by which an operator knows a key.
fn key_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl SignedAs {
    /// Whether a signature for this name counts.
    fn accepts(&self, name: &str) -> bool {
        let repository = Reference::parse(name).map(|name| name.repository().to_owned());
        match self {
            SignedAs::Repository(own) => repository.is_ok_and(|repository| repository == *own),
            SignedAs::Pattern(pattern) => {
                matches(pattern, name) || repository.is_ok_and(|repository| matches(pattern, &repository))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: Option<&str>, demand: Demand) -> VerifyRule {
        VerifyRule { pattern: pattern.map(str::to_owned), demand, signed_as: None }
    }

    /// `None`: it needs nothing.
    fn refusal(rules: &[VerifyRule], image: &str) -> Option<String> {
        needed(rules, &Reference::parse(image).unwrap()).err().map(|error| error.to_string())
    }

    #[test]
    fn the_first_rule_for_a_name_counts() {
        let digest = format!("sha256:{}", "1".repeat(64));
        let rules = [
            rule(Some("registry.example/old/*"), Demand::Reject),
            rule(Some("registry.example/*"), Demand::Accept),
            rule(Some("docker.io/library/*"), Demand::DigestOnly),
        ];
        assert_eq!(refusal(&[], "x:1"), None);
        assert_eq!(refusal(&rules, "registry.example/app:1"), None);
        let rejected = refusal(&rules, "registry.example/old/app:1").unwrap();
        assert!(rejected.contains("registry.example/old/*"), "{rejected}");
        let tag = refusal(&rules, "redis:7").unwrap();
        assert!(tag.contains("redis@sha256:"), "{tag}");
        assert_eq!(refusal(&rules, &format!("redis@{digest}")), None);
        let none = refusal(&rules, "quay.io/a/b").unwrap();
        assert!(none.contains("accept: true"), "{none}");
        assert_eq!(refusal(&[rule(None, Demand::Accept)], "quay.io/a/b"), None);
    }

    #[test]
    fn a_pattern_is_that_of_a_name_in_any_of_its_forms() {
        for (pattern, image, right) in [
            ("registry.example/app", "registry.example/app:1", true),
            ("registry.example/app:*", "registry.example/app:1", true),
            ("registry.example/app:2", "registry.example/app:1", false),
            ("registry.example/*", "registry.example/a/b/c:1", true),
            ("registry.example/*", "registry.example.evil/a:1", false),
            ("docker.io/*", "redis:7", true),
            ("docker.io/*", "demo/nginx:1", true),
            ("docker.io/*", "localhost:5000/x", false),
            ("redis", "docker.io/library/redis:7", true),
            ("redis:*", "redis:7", true),
            ("demo/*", "docker.io/demo/nginx", true),
            (
                "registry.example/app@sha256:*",
                &format!("registry.example/app@sha256:{}", "1".repeat(64)),
                true,
            ),
        ] {
            let rule = rule(Some(pattern), Demand::Accept);
            assert_eq!(holds(&rule, &Reference::parse(image).unwrap()), right, "{pattern} {image}");
        }
    }

    #[test]
    fn a_signature_is_for_the_repository_of_the_image() {
        let own = SignedAs::Repository("redis".to_owned());
        assert!(
            own.accepts("index.docker.io/library/redis") && own.accepts("redis:7") && !own.accepts("redis/x")
        );
        let pattern = SignedAs::Pattern("dev.example/*".to_owned());
        assert!(pattern.accepts("dev.example/app:1") && !pattern.accepts("registry.example/app"));
        assert!(!own.accepts("") && !pattern.accepts("Not A Name"));
    }

    #[test]
    fn a_key_that_is_not_there_is_named() {
        let rules = [rule(None, Demand::CosignKey("/nowhere/release.pem".into()))];
        let text = refusal(&rules, "x:1").unwrap();
        assert!(text.contains("/nowhere/release.pem") && text.contains("No such file"), "{text}");
    }
}
