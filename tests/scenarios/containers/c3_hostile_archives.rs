//! C3: an archive that is damaged or made by an enemy: its service fails with a clear text, nothing is written outside,
//! other services start.

use std::path::Path;

use kelson_tests::image::{archive_with, noise};
use kelson_tests::{Host, HostBuilder, Image, Tar, archive};

use super::{builder, runtime, service, steps, test_image};

const ONCE: &str = "restart: {policy: once}\n";

/// A host with a sound image, and this archive of the image `bad:1` for the service `bad`.
fn with_bad(bytes: Vec<u8>) -> HostBuilder {
    builder()
        .archive("test.tar", archive(&[test_image()]))
        .archive("bad.tar", bytes)
        .service("good", &steps("serve"))
        .service("bad", &format!("{}{ONCE}", service("bad:1")))
}

fn bad() -> Image {
    Image::new("bad:1", &["serve"])
}

/// The service fails with a text that has these words, and the good one runs.
#[track_caller]
fn fails(mut host: Host, words: &[&str]) {
    let said = host.wait_state("bad", "failed").message;
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said:?}");
    }
    host.wait_up("good");
    assert_eq!(host.service("bad").pid, None);
    host.poweroff();
}

both!(c3_a_blob_that_is_not_what_its_digest_says);
fn c3_a_blob_that_is_not_what_its_digest_says() {
    for blob in ["config", "manifest", "layer"] {
        // A layer of its own: one that containerd has already from a sound archive is not read.
        let image = bad().layer(Tar::new().file("own", 0o644, &noise(10_000)));
        let bytes = archive_with(&[image], |kind, bytes| {
            if kind == blob && bytes.len() < 100_000 {
                // In the middle of a word or of a file.
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
        });
        fails(with_bad(bytes).start(), &["bad.tar", "sha256:"]);
    }
}

both!(c3_an_archive_that_ends_too_early_or_is_none);
fn c3_an_archive_that_ends_too_early_or_is_none() {
    let whole = archive(&[bad()]);
    let half = whole[..whole.len() / 2].to_vec();
    for bytes in [half, noise(100_000), Vec::new()] {
        fails(with_bad(bytes).start(), &["bad:1", "bad.tar"]);
    }
}

both!(c3_names_that_lead_outside);
fn c3_names_that_lead_outside() {
    let up = "../".repeat(20);
    let deep = |name: &str| format!("{up}tmp/{name}");
    let outside = format!("kelson-c3-{}", std::process::id());
    let target = deep(&outside);
    for (layer, word) in [
        (Tar::new().file(&target, 0o644, b"evil"), ".."),
        (Tar::new().file(&format!("etc/{target}"), 0o644, b"evil"), ".."),
        (Tar::new().hard_link("passwd", &deep("passwd")), ".."),
        (
            Tar::new().symlink("out", &format!("{up}tmp")).file(&format!("out/{outside}"), 0o644, b"evil"),
            "out",
        ),
    ] {
        fails(with_bad(archive(&[bad().layer(layer)])).start(), &["bad.tar", word]);
        assert!(!Path::new("/tmp").join(&outside).exists(), "it was written outside");
    }
}

both!(c3_an_absolute_symbolic_link_is_legal);
fn c3_an_absolute_symbolic_link_is_legal() {
    let layer = Tar::new().symlink("lib64", "/usr/lib64").symlink("sh", "/program");
    let image = Image { reference: "links:1".to_owned(), ..bad().layer(layer) };
    let mut host = builder()
        .archive("links.tar", archive(&[image]))
        .service("web", &format!("container: {{{}image: 'links:1', command: [/sh, serve]}}", runtime()))
        .up(&["web"]);
    host.poweroff();
}

both!(c3_a_layer_that_is_larger_than_the_disk);
fn c3_a_layer_that_is_larger_than_the_disk() {
    // A few kilobytes in the archive.
    let bomb = bad().layer(Tar::new().file("zeroes", 0o644, &vec![0; 64 << 20])).gzip();
    let host = with_bad(archive(&[bomb])).disk("48m").start();
    fails(host, &["bad:1", "bad.tar", "the disk has"]);
}

both!(c3_an_image_that_no_archive_holds_and_one_for_other_machines);
fn c3_an_image_that_no_archive_holds_and_one_for_other_machines() {
    let mut host = builder()
        .archive("test.tar", archive(&[test_image()]))
        .archive("other.tar", archive(&[bad().architecture("s390x")]))
        .service("good", &steps("serve"))
        .service("bad", &format!("{}{ONCE}", service("bad:1")))
        .service("none", &format!("{}{ONCE}", service("tset:1")))
        .start();
    let said = host.wait_state("bad", "failed").message;
    assert!(said.contains("s390x") && said.contains("bad:1"), "{said}");
    let said = host.wait_state("none", "failed").message;
    assert!(said.contains("tset:1"), "{said}");
    host.wait_up("good");
    host.poweroff();
}
