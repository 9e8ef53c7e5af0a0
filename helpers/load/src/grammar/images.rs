//! `images` of the machine file: where archives are, and which images may run.

use std::path::PathBuf;

use super::at::At;
use super::codec::{Codec, either};
use super::devices::pattern;
use super::mapping::{Mapping, keys};
use super::values::{boolean, path};
use crate::schema::Kind;
use crate::tree::Value;
use kelson_spec::verify::{Demand, VerifyRule};

/// The value of the key: folders alone, or a mapping.
#[derive(Clone)]
pub struct Images {
    pub folders: Vec<PathBuf>,
    pub verify: Vec<VerifyRule>,
}

/// `defaults`: what holds where the file says nothing.
pub fn images(defaults: &Images) -> Codec<Images> {
    let (initial, kept) = (defaults.clone(), defaults.verify.clone());
    let folders = || path().list("a list of directories");
    let whole = Mapping::codec(move || {
        let initial = initial.clone();
        keys! {
            Mapping::new("images", move || initial.clone());
            key "folders" folders = folders(), "folders of archives, read at the boot";
            means "verify" verify = rules(), "all images may run",
                "[rules](howto/registry.md#trust) about which images may run. The first one counts whose `match` is the \
                 name of the image. Once there is a rule, an image for which none holds may not run";
        }
    });
    let (list, mapping) = (folders(), whole.clone());
    Codec::new(
        either(&list, &mapping),
        move |d, node| match &node.value {
            Value::Mapping(_) => {
                let before = d.diagnostics.len();
                let images = whole.decode(d, node)?;
                // A rule that cannot be read must not open what it was to close.
                let closed = || vec![VerifyRule { pattern: None, demand: Demand::Reject, signed_as: None }];
                Some(if d.diagnostics.len() == before {
                    images
                } else {
                    Images { verify: closed(), ..images }
                })
            }
            _ => Some(Images { folders: list.decode(d, node)?, verify: kept.clone() }),
        },
        move |images, extent| match images.verify.as_slice() {
            [] => folders().encode(&images.folders, extent),
            _ => mapping.encode(images, extent),
        },
    )
}

fn rules() -> Codec<Vec<VerifyRule>> {
    Mapping::codec(rule).list("a list of rules").but(|rules| {
        let (_, others) = rules.split_last()?;
        let all = others.iter().position(|rule| rule.pattern.is_none())?;
        Some(format!(
            "rule {} has no match and holds for all images, so none after it counts; make it the last",
            all.saturating_add(1)
        ))
    })
}

fn rule() -> Mapping<VerifyRule> {
    keys! {
        Mapping::new("verify", || VerifyRule { pattern: None, demand: Demand::Reject, signed_as: None });
        means "match" pattern = pattern("registry.example/*").optional(), "all images",
            "the names for which the rule holds, as a pattern: `*` is any text, also with `/`. It is compared with the name \
             with and without its tag or digest";
        alternative "cosignKey" (key(|demand| matches!(demand, Demand::CosignKey(_)), Demand::CosignKey)) = path(),
            "a PEM file with a public key (ECDSA P-256). It must verify a signature by [cosign](howto/registry.md#trust) in the \
             registry";
        alternative "minisignKey" (key(|demand| matches!(demand, Demand::MinisignKey(_)), Demand::MinisignKey)) = path(),
            "a public key of minisign. It must verify [the signature](howto/registry.md#signed-archives) of the archive, `FILE.minisig` beside it";
        alternative "digestOnly" (alone(Demand::DigestOnly)) = yes(), "`true`: service files must name the image by its digest";
        alternative "reject" (reject()) = yes(), "`true`: the image may not run";
        alternative "accept" (alone(Demand::Accept)) = yes(), "`true`: the image may run without a signature";
        means "signedAs" signed_as = pattern("registry.example/*").optional(), "the repository of the image",
            "with `cosignKey`: the repository that the signature must name, as a pattern. An image that was copied from another \
             repository is signed for that one";
    }
    .one_of(&["cosignKey", "minisignKey", "digestOnly", "reject", "accept"])
    .strict()
    .check(|d, seen, rule| {
        if rule.signed_as.is_some() && !matches!(rule.demand, Demand::CosignKey(_)) {
            seen.wrong_key(d, "signedAs", "signedAs belongs to cosignKey; leave it out");
        }
    })
}

/// The file of a key.
fn key(is: fn(&Demand) -> bool, of: fn(PathBuf) -> Demand) -> At<VerifyRule, PathBuf> {
    At::new(
        move |rule: &VerifyRule| rule.demand.key().filter(|_| is(&rule.demand)).cloned(),
        move |rule: &mut VerifyRule, path| rule.demand = of(path),
    )
}

/// A demand without more to it.
fn alone(demand: Demand) -> At<VerifyRule, bool> {
    let own = demand.clone();
    At::new(
        move |rule: &VerifyRule| (rule.demand == own).then_some(true),
        move |rule: &mut VerifyRule, _| rule.demand = demand.clone(),
    )
}

/// As [`alone`]. Rules that could not be read are written as the one that has their effect.
fn reject() -> At<VerifyRule, bool> {
    At::new(
        |rule: &VerifyRule| matches!(rule.demand, Demand::Reject | Demand::Unread).then_some(true),
        |rule: &mut VerifyRule, _| rule.demand = Demand::Reject,
    )
}

fn yes() -> Codec<bool> {
    let refuse = |yes: &bool| (!yes).then_some("false means nothing here; write true or leave the key out");
    boolean().but(refuse).of_kind(|| Kind::True)
}
