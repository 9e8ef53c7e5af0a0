//! How a service reports that it is ready.

use std::path::PathBuf;

use super::at::At;
use super::codec::{Codec, either, part};
use super::mapping::{Mapping, keys};
use super::values::{boolean, choice, number, path};
use crate::schema::Kind;
use crate::tree::Value;
use kelson_spec::features::Feature;
use kelson_spec::service::Readiness;

/// The highest descriptor for readiness: below the usual soft limit of 1024.
const HIGHEST_DESCRIPTOR: i32 = 1023;

/// How it reports that it is ready, and the file that names its main process if it forks.
pub type Ready = (Readiness, Option<PathBuf>);

/// `readiness`.
pub fn readiness() -> Codec<Ready> {
    let words = choice([("none", (Readiness::None, None)), ("notify", (Readiness::Notify, None))]);
    let number = number(3..=u64::from(HIGHEST_DESCRIPTOR.unsigned_abs())).around(|d, node, inner| {
        if ["0", "1", "2"].iter().any(|low| node.is(low)) {
            return d.refuse(node, "descriptors 0 to 2 are input and output; write a number from 3 on");
        }
        inner(d, node)
    });
    let described = Mapping::codec(move || {
        let fd_at = At::new(
            |ready: &Ready| match ready.0 {
                Readiness::Descriptor(number) => Some(u64::from(number.unsigned_abs())),
                _ => None,
            },
            |ready, number: u64| {
                ready.0 = i32::try_from(number).map_or(Readiness::None, Readiness::Descriptor);
            },
        );
        let forks_at = At::new(
            |ready: &Ready| (*ready == (Readiness::Forks, None)).then_some(true),
            |ready, _| ready.0 = Readiness::Forks,
        );
        let file_at =
            At::new(|ready: &Ready| ready.1.clone(), |ready, path| *ready = (Readiness::Forks, Some(path)));
        let forks = || {
            boolean()
                .but(|forks| (!forks).then_some("write true, or leave readiness out"))
                .of_kind(|| Kind::Choice(vec!["true"]))
        };
        keys! {
            Mapping::new("readiness", || (Readiness::None, None));
            alternative "fd" (fd_at) = number.clone(),
                "the descriptor to which it writes a newline once it is ready; not for a container";
            alternative "forks" (forks_at) = part(Feature::Units, forks),
                "its command ends with status 0 once it is ready, and leaves [processes behind](#readiness)";
            alternative "pidFile" (file_at) = part(Feature::Units, path),
                "the same; this file names the main process";
        }
        .one_of(&["fd", "forks", "pidFile"])
    });
    let (kind, shown, mapping) = (either(&words, &described), words.clone(), described.clone());
    Codec::new(
        kind,
        move |d, node| match node.value {
            Value::Mapping(_) => described.decode(d, node),
            Value::Scalar(_) => words.decode(d, node),
            _ => d.expected(node, "none, notify, {fd: NUMBER}, {forks: true} or {pidFile: PATH}"),
        },
        move |ready, extent| match ready.0 {
            Readiness::Descriptor(_) | Readiness::Forks => mapping.encode(ready, extent),
            Readiness::None | Readiness::Notify => shown.encode(ready, extent),
        },
    )
}
