//! Signatures of images and of archives.

use std::cell::OnceCell;
use std::fs::File;
use std::sync::OnceLock;

use kelson_image::{Digest, Reference};
use kelson_spec::verify::{Demand, VerifyRule};
use kelson_unpack::trust::{CosignKey, MinisignKey, Needed, Signature, SignedAs, cosign, needed};
use rcgen::{KeyPair, SigningKey as _};

use crate::place::{self, Place};

/// A key of minisign, whose other half is nowhere.
const MINISIGN: &str = "untrusted comment: a key\nRWS85RfZ3lUk1xQ+x2CqZ4sPc1mglLgqzhyj+C/hP8vLiCKA93dKsxmP\n";

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// The document that lists the signatures of an image, and after an empty line a statement, which is signed.
pub fn by_cosign(data: &[u8]) {
    let at = data.windows(2).position(|two| two == b"\n\n").unwrap_or(data.len());
    let (document, statement) = data.split_at(at);
    if let Ok(listed) = cosign::list("sha256-00.sig", document) {
        assert!(listed.iter().all(|one| one.size <= cosign::LONGEST), "{listed:?}");
    }
    let (pair, key) = keys();
    let statement = statement.get(2..).unwrap_or_default().to_vec();
    let signature = pair.sign(&statement).expect("a signature");
    let signed = Digest::new([0x11; 32]);
    let own = SignedAs::Repository("app".to_owned());
    let signature = Signature { statement: statement.clone(), signature };
    if key.prove(signed, &own, std::slice::from_ref(&signature)).is_ok() {
        let statement: serde_json::Value = serde_json::from_slice(&statement).expect("it was read");
        let critical = &statement["critical"];
        assert_eq!(critical["image"]["docker-manifest-digest"], signed.to_string());
        let name = critical["identity"]["docker-reference"].as_str().expect("a name");
        assert_eq!(Reference::parse(name).expect("it was read").repository(), "app");
    }
    let changed = Signature { statement: [signature.statement, b" ".to_vec()].concat(), ..signature };
    assert!(key.prove(signed, &own, &[changed]).is_err(), "what was changed is not proved");
}

/// A signature by minisign, or a key.
pub fn by_minisign(data: &[u8]) {
    place::with(&FOLDER, |place| {
        let archive = place.write("app.tar", b"no archive");
        place.write("app.tar.minisig", data);
        let key = MinisignKey::read(&place.write("release.pub", MINISIGN.as_bytes())).expect("a key");
        assert!(key.prove(&archive, &File::open(&archive).expect("it was written")).is_err());
        let path = place.write("other.pub", data);
        let demands = [Demand::MinisignKey(path.clone()), Demand::CosignKey(path)];
        for demand in demands {
            let rule = VerifyRule { pattern: None, demand, signed_as: None };
            let image = Reference::parse("app:1").expect("a name");
            if let Ok(Needed::Minisign(key)) = needed(&[rule], &image) {
                assert_eq!(key.name(), "other.pub");
            }
        }
    });
}

/// A key, and as `kelson-unpack` reads its public half.
fn keys() -> &'static (KeyPair, CosignKey) {
    static KEYS: OnceLock<(KeyPair, CosignKey)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let (pair, place) = (KeyPair::generate().expect("a key"), Place::new());
        let path = place.write("release.pem", pair.public_key_pem().as_bytes());
        (pair, CosignKey::read(&path).expect("a key of P-256"))
    })
}
