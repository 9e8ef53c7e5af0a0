//! Signatures by cosign: an image without a good one costs no layer and leaves nothing.

use kelson_spec::verify::{Demand, VerifyRule};
use kelson_tests::Signer;
use kelson_tests::registry::Registry;

use crate::site::{Site, big, image};

/// The paths that were asked for, without what is in front of them.
fn asked(site: &Site) -> Vec<String> {
    let paths = site.registry.asked().into_iter().map(|asked| asked.path);
    paths.map(|path| path.trim_start_matches("/v2/app/").to_owned()).collect()
}

#[test]
fn a_signed_image_is_pulled_with_its_signature() {
    let (mut site, signer) = (Site::new(), Signer::default());
    let digest = site.registry.push(&[image("app:1")]);
    // It was pulled before there was the rule.
    assert_eq!(site.pull("app:1").unwrap().signer, None);
    site.registry.attach(
        "app",
        &digest,
        &[site.signed(&Signer::default(), &digest), site.signed(&signer, &digest)],
    );
    site.wants(&signer);
    let pulled = site.pull("app:1").unwrap();
    assert_eq!((pulled.signer.as_deref(), pulled.bytes), (Some("release.pem"), 0));
    assert_eq!(site.signatures(&digest), 2);
    assert_eq!(site.names().len(), 1, "it is no image of its own");
    site.nothing_left_over();
    // Without the rule it stays beside the image, and with the image it goes.
    site.verify.clear();
    site.pull("app:1").unwrap();
    assert_eq!(site.signatures(&digest), 2);
    site.registry.push(&[image("app:1").set("User", "7".into())]);
    site.pull("app:1").unwrap();
    assert_eq!(site.signatures(&digest), 2, "what the tag led to before keeps it");
    site.keep = Some(Vec::new());
    assert_eq!(site.prune(false).len(), 2);
    assert_eq!(site.blobs(), 0);
}

#[test]
fn an_image_without_a_good_signature_costs_no_layer() {
    let (mut site, signer) = (Site::new(), Signer::default());
    let digest = site.registry.push(&[big("app:1")]);
    let other = site.registry.push(&[image("app:2")]);
    site.wants(&signer);
    let refused = |site: &Site, why: &str| {
        let sent = site.registry.sent();
        for error in [site.pull("app:1").unwrap_err(), site.look("app:1").unwrap_err()] {
            assert!(error.contains(why), "{error}");
        }
        assert!(site.registry.sent() < sent + 1000, "its statements are small");
        assert_eq!((site.blobs(), site.names().len()), (0, 0));
    };
    refused(&site, "it has no signature by cosign, and release.pem has to verify one");
    let attach = |signed| site.registry.attach("app", &digest, &[signed]);
    attach(site.signed(&Signer::default(), &digest));
    refused(&site, "another key made them, or they were changed");
    attach(site.signed(&signer, &other));
    refused(&site, &format!("that of another image, {other}"));
    attach(signer.sign("registry.example/app", &digest));
    refused(&site, "for \"registry.example/app\", another repository");
    let mut changed = site.signed(&signer, &digest);
    changed.statement.push(b' ');
    attach(changed);
    refused(&site, "another key made them, or they were changed");
    attach(site.signed(&signer, &digest));
    site.pull("app:1").unwrap();
}

#[test]
fn an_index_is_signed_as_a_whole() {
    let (mut site, signer) = (Site::new(), Signer::default());
    let digest = site.registry.push(&[image("app:1"), image("app:1").architecture("s390x")]);
    site.registry.attach("app", &digest, &[site.signed(&signer, &digest)]);
    site.wants(&signer);
    assert_eq!(site.pull("app:1").unwrap().digest, digest);
    assert_eq!(site.signatures(&digest), 1);
    // A mirror that lacks the signature is passed over.
    site.forget();
    let mirror = Registry::start(Some(&site.authority));
    assert_eq!(mirror.push(&[image("app:1"), image("app:1").architecture("s390x")]), digest);
    site.registries.mirrors = vec![(site.registry.host.clone(), vec![mirror.host.clone()])];
    site.pull("app:1").unwrap();
    assert!(
        site.notes().iter().any(|note| note.contains("it has no signature by cosign")),
        "{:?}",
        site.notes()
    );
}

#[test]
fn what_the_name_alone_refuses_asks_nobody() {
    let mut site = Site::new();
    let digest = site.registry.push(&[image("app:1")]);
    for (demand, why) in [
        (Demand::Reject, "images.verify rejects all images"),
        (Demand::DigestOnly, "images.verify wants it by its digest; "),
        (Demand::MinisignKey("/nowhere".into()), "the key /nowhere cannot be read"),
        (Demand::CosignKey("/nowhere".into()), "the key /nowhere cannot be read"),
    ] {
        site.verify = vec![VerifyRule { pattern: None, demand, signed_as: None }];
        let error = site.pull("app:1").unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    site.verify = vec![VerifyRule { pattern: Some("x".to_owned()), demand: Demand::Accept, signed_as: None }];
    let error = site.pull("app:1").unwrap_err();
    assert!(error.contains("no rule of images.verify holds for it"), "{error}");
    assert_eq!(asked(&site), [""; 0]);
    site.verify = vec![VerifyRule { pattern: None, demand: Demand::DigestOnly, signed_as: None }];
    site.pull(&format!("app@{digest}")).unwrap();
}
