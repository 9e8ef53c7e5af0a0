//! The signatures of an image by cosign, fetched and judged before the image itself.

use hyper::header::HeaderValue;
use kelson_image::Digest;
use kelson_unpack::trust::{CosignKey, Signature, SignedAs, TrustError, cosign};

use crate::error::PullError;
use crate::manifest::{Document, Wanted, document};
use crate::registry::Registry;

/// Documents that list signatures are manifests.
const ACCEPT: HeaderValue = HeaderValue::from_static(
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json",
);

/// What signs an image, proved: it is kept beside the image.
pub(crate) struct Signatures {
    /// The document that lists the statements, and these.
    pub(crate) list: Document,
    pub(crate) statements: Vec<Document>,
}

impl Signatures {
    pub(crate) fn documents(&self) -> impl Iterator<Item = &Document> {
        self.statements.iter().chain([&self.list])
    }
}

/// Fetches the signatures of the image with this digest, and proves one of them.
///
/// # Errors
/// There is none that the key verifies, or the registry does not give them.
pub(crate) async fn fetch(
    registry: &Registry<'_>,
    key: &CosignKey,
    signed_as: &SignedAs,
    signed: Digest,
    tries: u32,
) -> Result<Signatures, PullError> {
    let untrusted = |error| PullError::Signature { host: registry.host.clone(), error };
    let tag = cosign::tag(signed);
    let what = format!("signature {tag}");
    let wanted = Wanted {
        accept: Some(ACCEPT),
        most: cosign::LONGEST,
        ..Wanted::new(format!("manifests/{tag}"), what)
    };
    let list = match document(registry, wanted, tries).await {
        Ok(list) => list,
        Err(PullError::Missing { .. }) => return Err(untrusted(TrustError::Unsigned(key.name()))),
        Err(error) => return Err(error),
    };
    let (mut statements, mut signatures) = (Vec::new(), Vec::new());
    for listed in cosign::list(&tag, &list.bytes).map_err(untrusted)? {
        let digest = listed.digest;
        let wanted = Wanted {
            expected: Some(digest),
            size: Some(listed.size),
            most: cosign::LONGEST,
            ..Wanted::new(format!("blobs/{digest}"), format!("statement {digest}"))
        };
        let statement = document(registry, wanted, tries).await?;
        signatures.push(Signature { statement: statement.bytes.clone(), signature: listed.signature });
        statements.push(statement);
    }
    key.prove(signed, signed_as, &signatures).map_err(untrusted)?;
    Ok(Signatures { list, statements })
}
