//! Signatures that `openssl dgst -sha256 -sign` made, and others that are made here.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kelson_image::Digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

use super::super::SignedAs;
use super::{CosignKey, P256, Signature, list, tag};

const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE+IxTTz9+qa8+MVYomPXBq4DOReKx\n\
    vZcpix5W7+bDgiZmRV/Ire8M1LjbmQSuNkTd1WpP6vXoVHNd9zOHNASGmQ==\n\
    -----END PUBLIC KEY-----\n";
const P384: &str = "-----BEGIN PUBLIC KEY-----\n\
    MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEA8XY9RDhCDMqPJkHs64IpYPyQlsUT2fE\n\
    KWExYZAcz9h3YH5niys8c72YpIZLCMlgwNDKrcmmgXaL3+kUfhGO8szQIppZ1Vfk\n\
    288Lb2hOOJeOXtaMzqJYSHvSL/d7ErgU\n\
    -----END PUBLIC KEY-----\n";
const STATEMENT: &str = "{\"critical\":{\"identity\":{\"docker-reference\":\"registry.example/app\"},\
    \"image\":{\"docker-manifest-digest\":\"sha256:1111111111111111111111111111111111111111111111111111111111111111\"},\
    \"type\":\"cosign container image signature\"},\"optional\":null}";
const SIGNATURE: &str =
    "MEUCIQDrV+qeZSkEii60MMJBsg5nzz+Dexont0wWN7TmB1OWxwIgPLtx3o5Vt6fEMReUMnAE0Rpc96j77+bB9dgnQGM0DYk=";

fn read(text: &str) -> Result<CosignKey, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("release.pem");
    fs::write(&path, text).unwrap();
    CosignKey::read(&path).map_err(|error| error.to_string())
}

fn signed() -> Digest {
    Digest::new([0x11; 32])
}

fn own() -> SignedAs {
    SignedAs::Repository("registry.example/app".to_owned())
}

fn prove(key: &CosignKey, signed_as: &SignedAs, signatures: &[Signature]) -> Result<(), String> {
    key.prove(signed(), signed_as, signatures).map_err(|error| error.to_string())
}

#[test]
fn what_openssl_has_signed_is_proved() {
    let key = read(KEY).unwrap();
    let signature = STANDARD.decode(SIGNATURE).unwrap();
    let of = |statement: &str, signature: &[u8]| {
        let signature = Signature { statement: statement.as_bytes().to_vec(), signature: signature.to_vec() };
        prove(&key, &own(), &[signature])
    };
    assert_eq!(of(STATEMENT, &signature), Ok(()));
    let why = "release.pem verifies none of its signatures: another key made them, or they were changed";
    assert_eq!(of(&STATEMENT.replace("null", "{}"), &signature), Err(why.to_owned()));
    for at in 0..signature.len() {
        let mut broken = signature.clone();
        broken[at] ^= 1;
        assert_eq!(of(STATEMENT, &broken), Err(why.to_owned()), "byte {at}");
    }
    assert_eq!(of(STATEMENT, b""), Err(why.to_owned()));
}

/// A key of the test's own.
struct Own {
    pair: EcdsaKeyPair,
    key: CosignKey,
}

impl Own {
    fn new() -> Own {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let der = [P256.as_slice(), pair.public_key().as_ref()].concat();
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der));
        Own { pair, key: read(&pem).unwrap() }
    }

    fn sign(&self, statement: &str) -> Signature {
        let signature = self.pair.sign(&SystemRandom::new(), statement.as_bytes()).unwrap();
        Signature { statement: statement.as_bytes().to_vec(), signature: signature.as_ref().to_vec() }
    }
}

#[test]
fn one_good_signature_is_enough_and_the_nearest_is_told() {
    let (own_key, other) = (Own::new(), Own::new());
    let good = own_key.sign(STATEMENT);
    let by_other = other.sign(STATEMENT);
    let of_other = own_key.sign(&STATEMENT.replace("1111", "2222"));
    let renamed = own_key.sign(&STATEMENT.replace("registry.example/app", "registry.example/tool"));
    let untyped = own_key.sign(&STATEMENT.replace("cosign container", "atomic container"));
    let nonsense = own_key.sign("{}");
    let all = [by_other.clone(), nonsense.clone(), untyped.clone(), of_other.clone(), renamed.clone()];
    let prove = |signatures: &[Signature]| prove(&own_key.key, &own(), signatures);
    assert_eq!(prove(&[all.as_slice(), &[good]].concat()), Ok(()));
    for (signatures, why) in [
        (&all[..], "is for \"registry.example/tool\", another repository"),
        (&all[..4], "is that of another image, sha256:2222"),
        (&all[..3], "is no statement of cosign about an image"),
        (&all[2..3], "its type is \"atomic container image signature\""),
        (&all[..1], "another key made them"),
        (&[], "it has no signature by cosign, and release.pem has to verify one"),
    ] {
        let error = prove(signatures).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let pattern = SignedAs::Pattern("registry.example/t*".to_owned());
    assert_eq!(own_key.key.prove(signed(), &pattern, &[renamed]).map_err(|error| error.to_string()), Ok(()));
}

#[test]
fn only_a_key_of_p256_is_one() {
    for (text, why) in [
        (P384, "it is a key of another kind"),
        ("", "-----BEGIN PUBLIC KEY-----"),
        (&KEY.replace("PUBLIC", "PRIVATE"), "-----BEGIN PUBLIC KEY-----"),
        (&KEY.replace("vZcp", ""), "it is a key of another kind"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains("release.pem is none of ECDSA P-256") && error.contains(why), "{error}");
    }
    // What else there is in the file does not count.
    assert!(read(&format!("a comment\n{KEY}")).is_ok());
}

#[test]
fn a_document_lists_statements() {
    let digest = Digest::new([7; 32]);
    assert_eq!(tag(digest), format!("sha256-{}.sig", "07".repeat(32)));
    let layer = |media_type: &str, size: u64, annotations: &str| {
        format!(
            r#"{{"mediaType":"{media_type}","digest":"{digest}","size":{size},"annotations":{annotations}}}"#
        )
    };
    let signature = r#"{"dev.cosignproject.cosign/signature":"AQI=","other":"x"}"#;
    let right = layer(super::STATEMENT, 9, signature);
    let passed = [
        layer("application/vnd.oci.image.layer.v1.tar", 9, signature),
        layer(super::STATEMENT, super::LONGEST + 1, signature),
        layer(super::STATEMENT, 9, "{}"),
        layer(super::STATEMENT, 9, "null"),
        layer(super::STATEMENT, 9, r#"{"dev.cosignproject.cosign/signature":"!"}"#),
    ];
    let document = |layers: &[String]| format!(r#"{{"schemaVersion":2,"layers":[{}]}}"#, layers.join(","));
    let listed =
        list("x", document(&[&passed[..], std::slice::from_ref(&right)].concat()).as_bytes()).unwrap();
    assert_eq!(listed, [super::Listed { digest, size: 9, signature: vec![1, 2] }]);
    assert_eq!(list("x", b"{}").unwrap(), []);
    for wrong in ["", "7", "{\"layers\":1}", &document(&vec![right; super::MOST + 1]), &" ".repeat(70_000)] {
        let error = list("sha256-07.sig", wrong.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("sha256-07.sig is not the document of a signature: "), "{error}");
    }
}
