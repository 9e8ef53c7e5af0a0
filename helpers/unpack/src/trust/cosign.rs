//! Signatures by cosign with a key: small statements about the digest of an image, beside it in the registry.
//!
//! The signatures of an image with the digest `sha256:HEX` are the layers of the image with the tag `sha256-HEX.sig`. Each
//! layer is a statement in JSON, and an annotation of the layer has the signature over its bytes. What cosign makes without a
//! key, its log of signatures and its newer bundles are not read.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kelson_image::Digest;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;

use super::error::TrustError;
use super::{SignedAs, key_file, key_name};
use crate::archive::{List, Trouble, parse};

/// The media type of a statement.
const STATEMENT: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// What a statement says of itself.
const TYPE: &str = "cosign container image signature";
/// Statements beside one image, and bytes of each and of the document that lists them.
const MOST: usize = 64;
pub const LONGEST: u64 = 64 << 10;
/// What is in front of the point of a key of ECDSA P-256 in its DER, and the bytes of that point.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const POINT: usize = 65;

/// A public key, ECDSA P-256.
#[derive(Debug, Clone)]
pub struct CosignKey {
    path: PathBuf,
    point: Vec<u8>,
}

/// A statement, and what stands for it as its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub statement: Vec<u8>,
    pub signature: Vec<u8>,
}

/// Where a statement is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub digest: Digest,
    pub size: u64,
    pub signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: List<Layer, MOST>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    #[serde(default)]
    media_type: String,
    digest: Digest,
    size: u64,
    #[serde(default)]
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "dev.cosignproject.cosign/signature")]
    signature: Option<String>,
}

#[derive(Deserialize)]
struct Statement {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    identity: Identity,
    image: Image,
    r#type: String,
}

#[derive(Deserialize)]
struct Identity {
    #[serde(rename = "docker-reference")]
    name: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: Digest,
}

/// The tag that the signatures of an image have.
pub fn tag(signed: Digest) -> String {
    format!("sha256-{}.sig", signed.hex())
}

/// The statements that a document lists. Those of another kind, or longer than any is, are passed over.
///
/// # Errors
/// It is no such document.
pub fn list(file: &str, bytes: &[u8]) -> Result<Vec<Listed>, TrustError> {
    let wrong = |text: String| TrustError::Document { file: file.to_owned(), text };
    if bytes.len() as u64 > LONGEST {
        return Err(wrong(format!("it has more than {LONGEST} bytes")));
    }
    let manifest: Manifest = parse(file, bytes).map_err(|trouble| wrong(reason(trouble)))?;
    let listed = |layer: Layer| {
        let signature = STANDARD.decode(layer.annotations?.signature?).ok()?;
        let small = layer.media_type == STATEMENT && layer.size <= LONGEST;
        small.then_some(Listed { digest: layer.digest, size: layer.size, signature })
    };
    Ok(manifest.layers.0.into_iter().filter_map(listed).collect())
}

fn reason(trouble: Trouble) -> String {
    match trouble {
        Trouble::Json { text, .. } => text,
        other => other.to_string(),
    }
}

impl CosignKey {
    /// # Errors
    /// There is none of ECDSA P-256 in the file.
    pub fn read(path: &Path) -> Result<CosignKey, TrustError> {
        let bytes =
            key_file::read(path).map_err(|error| TrustError::KeyFile { path: path.to_owned(), error })?;
        let wrong = |what| TrustError::Key { path: path.to_owned(), kind: "ECDSA P-256", what };
        let pem = "a PEM file with -----BEGIN PUBLIC KEY----- would be right";
        let der = SubjectPublicKeyInfoDer::from_pem_slice(&bytes).map_err(|_| wrong(pem))?;
        let point = der.strip_prefix(P256.as_slice()).filter(|point| point.len() == POINT);
        let point = point.ok_or_else(|| wrong("it is a key of another kind"))?;
        Ok(CosignKey { path: path.to_owned(), point: point.to_vec() })
    }

    /// The name of its file.
    pub fn name(&self) -> String {
        key_name(&self.path)
    }

    /// Proves that one of the signatures is by this key and about this image.
    ///
    /// # Errors
    /// None is; why the nearest one is not.
    pub fn prove(
        &self,
        signed: Digest,
        signed_as: &SignedAs,
        signatures: &[Signature],
    ) -> Result<(), TrustError> {
        let mut nearest = None;
        for signature in signatures {
            match self.prove_one(signed, signed_as, signature) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let nearer = |known: &TrustError| known.nearness() < error.nearness();
                    if nearest.as_ref().is_none_or(nearer) {
                        nearest = Some(error);
                    }
                }
            }
        }
        Err(nearest.unwrap_or_else(|| TrustError::Unsigned(self.name())))
    }

    fn prove_one(
        &self,
        signed: Digest,
        signed_as: &SignedAs,
        Signature { statement, signature }: &Signature,
    ) -> Result<(), TrustError> {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point);
        key.verify(statement, signature).map_err(|_| TrustError::OtherKey { key: self.name() })?;
        let untrue = |text: String| TrustError::Statement { key: self.name(), text };
        let Statement { critical } =
            parse("the statement", statement).map_err(|trouble| untrue(reason(trouble)))?;
        let Critical { identity: Identity { name }, image: Image { digest }, r#type } = critical;
        let shown = |text: &str| kelson_sys::text::harmless(text, None).take(200).collect::<String>();
        if r#type != TYPE {
            return Err(untrue(format!("its type is {:?}, {TYPE:?} would be right", shown(&r#type))));
        }
        if digest != signed {
            return Err(TrustError::OtherDigest { key: self.name(), found: digest, expected: signed });
        }
        if !signed_as.accepts(&name) {
            return Err(TrustError::OtherName { key: self.name(), found: shown(&name) });
        }
        Ok(())
    }
}
