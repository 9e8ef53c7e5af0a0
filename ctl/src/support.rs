//! One archive with all that helps to understand a host, for somebody who cannot look at it.
//!
//! A part that cannot be collected is left out, and the bundle says so: a host to be understood is seldom well. Nothing
//! leaves it as it is: [`redact`] goes through every word first.

mod ask;
mod pack;
pub mod redact;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use kelson_api::client::Client;

use crate::failure::Failure;
use crate::output::{Progress, object, views};
pub use ask::Extent;
use ask::{Asker, name};
use pack::{Missing, Pack};

/// The result.
#[derive(Debug, Clone)]
pub struct Made {
    pub file: String,
    pub bytes: u64,
    pub files: usize,
    pub missing: Vec<Missing>,
    /// How often something was taken out, by its kind.
    pub removed: BTreeMap<&'static str, u64>,
}

views! {
    Made: made { file, bytes, files, missing, removed }
}

const ABOUT: &str = "What kelsonctl support could have of a host. `missing` is what it could not have, and why. Of what \
                     looks like a secret `(removed)` stands in its place; `removed` counts that by kind: values of \
                     environment variables, arguments and values with such names, passwords of URLs, Authorization \
                     headers and Bearer tokens, private keys. Not every secret looks like one: read it before it goes on.";

/// Makes the archive. Without `file` it is in this folder, under the host's name and the time.
///
/// # Errors
/// The host did not answer at all, or the archive cannot be written; then there is none.
pub async fn make(
    client: &Client,
    endpoint: &str,
    time: &str,
    file: Option<PathBuf>,
    extent: Extent,
    progress: Progress,
) -> Result<Made, Failure> {
    let mut asker = Asker::new(client, extent.timeout, progress);
    let host = asker.version().await;
    let stem = format!("kelson-support-{}-{}", name(host.as_deref().unwrap_or("host")), compact(time));
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{stem}.tar.gz")));
    let mut pack = Pack::new(&file, &stem).map_err(|error| cannot(&file, &error))?;
    asker.all(&mut pack, extent).await.map_err(|error| cannot(&file, &error))?;
    let Asker { redactor, missing, first, .. } = asker;
    if let Some(failure) = first.filter(|_| pack.files.is_empty()) {
        return Err(failure);
    }
    let manifest = object!(
        about: ABOUT,
        kelsonctl: env!("CARGO_PKG_VERSION"),
        endpoint: endpoint,
        time: time,
        files: pack.files,
        missing: missing,
        removed: redactor.removed,
    );
    let manifest = crate::output::Format::Json.document(&manifest)?;
    let files = pack.files.len();
    let bytes = pack.finish(&manifest).map_err(|error| cannot(&file, &error))?;
    Ok(Made { file: file.display().to_string(), bytes, files, missing, removed: redactor.removed })
}

fn cannot(file: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::Failed(format!(
            "{} is there already and is not overwritten; --out names another",
            file.display()
        )),
        _ => Failure::Failed(format!("cannot write {}: {error}", file.display())),
    }
}

/// `20261121T094805Z`, of a time in RFC 3339.
fn compact(time: &str) -> String {
    let (seconds, _) = time.split_once('.').unwrap_or((time, ""));
    seconds.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>() + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_lead_nowhere() {
        for (word, safe) in [
            ("edge-1.lan", "edge-1.lan"),
            ("../../etc/x", "_._.._etc_x"),
            ("", "_"),
            ("a b\n\u{1f511}", "a_b__"),
        ] {
            assert_eq!(name(word), safe);
        }
        assert_eq!(name(&"x".repeat(500)).len(), 64);
        assert_eq!(compact("2026-11-21T09:48:05.123Z"), "20261121T094805Z");
    }
}
