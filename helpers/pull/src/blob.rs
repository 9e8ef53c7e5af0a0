//! One blob from a registry into the store, resumed where it was cut off.

use hyper::Response;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::CONTENT_RANGE;
use kelson_image::Digest;
use kelson_unpack::reporter::Reporter;

use crate::body::Body;
use crate::error::PullError;
use crate::registry::{Asked, Registry};
use crate::retry::Retry;
use crate::store::{Partial, Store};

/// So much has to arrive before failures are forgiven.
const PROGRESS: u64 = 64 << 10;

/// A blob that a manifest names.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub digest: Digest,
    pub size: u64,
    /// In a message: `layer 2 of 3`.
    pub what: String,
}

/// Fetches a blob and proves its length and digest. Returns how many bytes came over the network.
///
/// # Errors
/// Why this registry does not give it.
pub async fn fetch(
    registry: &Registry<'_>,
    store: &Store,
    reporter: &Reporter,
    wanted: &Wanted,
    mut retry: Retry,
) -> Result<u64, PullError> {
    let mut transfer =
        Transfer { registry, reporter, wanted, partial: store.partial(wanted.digest)?, came: 0 };
    if transfer.partial.length > wanted.size {
        transfer.partial.reset()?;
    }
    reporter.add_bytes(transfer.partial.length);
    // What was there before may be damaged, by a power cut say: then all of it is fetched once more.
    let mut resumed = transfer.partial.length > 0;
    // Bytes that are fetched again are no progress.
    let mut reached = transfer.partial.length;
    loop {
        match transfer.go_on().await {
            Ok(()) => {}
            Err(error) => {
                if transfer.partial.length.saturating_sub(reached) >= PROGRESS {
                    reached = transfer.partial.length;
                    retry.progress();
                }
                retry.after(error).await?;
                continue;
            }
        }
        match transfer.prove() {
            Ok(()) => break,
            Err(_) if resumed => {
                resumed = false;
                transfer.begin_again()?;
            }
            Err(error) => {
                transfer.begin_again()?;
                return Err(error);
            }
        }
    }
    let came = transfer.came;
    store.publish(transfer.partial, wanted.digest)?;
    Ok(came)
}

struct Transfer<'a> {
    registry: &'a Registry<'a>,
    reporter: &'a Reporter,
    wanted: &'a Wanted,
    partial: Partial,
    came: u64,
}

impl Transfer<'_> {
    /// Fetches what is missing.
    async fn go_on(&mut self) -> Result<(), PullError> {
        let Wanted { digest, size, what } = self.wanted;
        if self.partial.length == *size {
            return Ok(());
        }
        let asked = Asked {
            path: format!("blobs/{digest}"),
            what: what.clone(),
            from: self.partial.length,
            ..Asked::default()
        };
        let answer = self.registry.get(&asked).await?;
        let is_part = answer.status() == StatusCode::PARTIAL_CONTENT;
        if !is_part || begins_at(&answer) != Some(self.partial.length) {
            self.begin_again()?;
            // A registry that does not know ranges sends all of it, which is as good. Another part is of no use.
            if is_part {
                let (host, what) = (self.registry.host.clone(), what.clone());
                return Err(PullError::Cut { host, what, text: "it sent another part".to_owned() });
            }
        }
        let mut body = Body::of(answer, &self.registry.host, what);
        while let Some(bytes) = body.next().await? {
            let length = bytes.len() as u64;
            if self.partial.length.saturating_add(length) > *size {
                let found = self.partial.length.saturating_add(length);
                self.begin_again()?;
                return Err(self.length(found));
            }
            self.partial.add(&bytes)?;
            self.came = self.came.saturating_add(length);
            self.reporter.add_bytes(length);
        }
        match self.partial.length {
            length if length == *size => Ok(()),
            found => {
                let error = self.length(found);
                self.begin_again()?;
                Err(error)
            }
        }
    }

    fn begin_again(&mut self) -> Result<(), PullError> {
        self.reporter.add_bytes(0_u64.wrapping_sub(self.partial.length));
        Ok(self.partial.reset()?)
    }

    fn length(&self, found: u64) -> PullError {
        let (host, what) = (self.registry.host.clone(), self.wanted.what.clone());
        PullError::Length { host, what, expected: self.wanted.size, found }
    }

    fn prove(&self) -> Result<(), PullError> {
        let (expected, found) = (self.wanted.digest, self.partial.digest());
        let (host, what) = (self.registry.host.clone(), self.wanted.what.clone());
        if expected == found { Ok(()) } else { Err(PullError::Digest { host, what, expected, found }) }
    }
}

/// The first byte of a part.
fn begins_at(answer: &Response<Incoming>) -> Option<u64> {
    from_of(answer.headers().get(CONTENT_RANGE)?.to_str().ok()?)
}

/// The first byte of `bytes FROM-TO/SIZE`.
fn from_of(text: &str) -> Option<u64> {
    let (from, _) = text.trim().strip_prefix("bytes ")?.trim_start().split_once('-')?;
    from.bytes().all(|b| b.is_ascii_digit()).then_some(from)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_says_where_it_begins() {
        for (text, from) in [
            ("bytes 10-19/20", Some(10)),
            ("bytes 0-0/*", Some(0)),
            ("bytes */20", None),
            ("bytes +1-2/3", None),
            ("bytes -2/3", None),
            ("10-19/20", None),
            ("", None),
        ] {
            assert_eq!(from_of(text), from, "{text}");
        }
    }
}
