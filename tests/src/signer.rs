//! Signs images as cosign does with a key.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};

use crate::image::hex_digest;

/// A key of ECDSA P-256.
pub struct Signer(KeyPair);

/// A statement about an image, and its signature in base64.
#[derive(Debug, Clone)]
pub struct Signed {
    pub statement: Vec<u8>,
    pub signature: String,
}

impl Default for Signer {
    fn default() -> Signer {
        Signer(KeyPair::generate().expect("a key"))
    }
}

impl Signer {
    /// The file that verifies its signatures.
    pub fn public(&self) -> String {
        self.0.public_key_pem()
    }

    /// Signs the image of a repository that has this digest.
    pub fn sign(&self, repository: &str, digest: &str) -> Signed {
        let statement = format!(
            "{{\"critical\":{{\"identity\":{{\"docker-reference\":\"{repository}\"}},\"image\":{{\"docker-manifest-digest\":\
             \"{digest}\"}},\"type\":\"cosign container image signature\"}},\"optional\":null}}"
        );
        let signature = STANDARD.encode(self.0.sign(statement.as_bytes()).expect("a signature"));
        Signed { statement: statement.into_bytes(), signature }
    }
}

/// The tag of the signatures of an image.
pub fn tag(digest: &str) -> String {
    format!("{}.sig", digest.replace(':', "-"))
}

/// The manifest that lists these, and the blobs by their digests.
pub fn parts(signatures: &[Signed]) -> (Vec<u8>, BTreeMap<String, Vec<u8>>) {
    let mut blobs = BTreeMap::new();
    let mut keep = |media_type: &str, bytes: &[u8]| {
        let digest = format!("sha256:{}", hex_digest(bytes));
        blobs.insert(digest.clone(), bytes.to_vec());
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    };
    let config = br#"{"architecture":"","os":"","config":{},"rootfs":{"type":"layers","diff_ids":[]}}"#;
    let config = keep("application/vnd.oci.image.config.v1+json", config);
    let layer = |signed: &Signed| {
        let mut layer = keep("application/vnd.dev.cosign.simplesigning.v1+json", &signed.statement);
        layer["annotations"] = json!({"dev.cosignproject.cosign/signature": signed.signature});
        layer
    };
    let layers: Vec<Value> = signatures.iter().map(layer).collect();
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers});
    (manifest.to_string().into_bytes(), blobs)
}
