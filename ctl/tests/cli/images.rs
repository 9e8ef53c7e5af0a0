//! `images` and `images prune`.

use kelson_proto::v1::{Image, ListImagesResponse, PruneImagesResponse, PrunedImage};
use serde_json::json;

use crate::fake::{Fake, State};

fn state() -> State {
    State {
        images: ListImagesResponse {
            images: vec![
                Image {
                    reference: "demo/nginx:1".to_owned(),
                    digest: "sha256:0a1b".to_owned(),
                    archive: "/usr/share/kelson/images/nginx.tar".to_owned(),
                    platform: "linux/amd64".to_owned(),
                    size: 2 << 20,
                    unpacked: true,
                    trouble: String::new(),
                    services: vec!["web".to_owned()],
                },
                Image {
                    reference: "demo/old:1".to_owned(),
                    trouble: "it is not whole".to_owned(),
                    ..Image::default()
                },
            ],
            notes: vec!["/usr/share/kelson/images/bad.tar: it ends in the middle".to_owned()],
        },
        pruned: PruneImagesResponse {
            images: vec![PrunedImage { reference: "demo/old:1".to_owned(), size: 512 }],
            notes: vec!["a lease is left".to_owned()],
        },
        ..State::default()
    }
}

#[test]
fn images_in_a_table_and_notes_beside_it() {
    let fake = Fake::start(state());
    let done = fake.run("images");
    assert_eq!(done.status, 0);
    assert_eq!(done.err, "kelsonctl: /usr/share/kelson/images/bad.tar: it ends in the middle\n");
    let lines: Vec<Vec<&str>> = done.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["IMAGE", "ARCHIVE", "SIZE", "UNPACKED", "SERVICES", "TROUBLE"]);
    assert_eq!(lines[1], ["demo/nginx:1", "nginx.tar", "2.0", "MiB", "yes", "web"]);
    assert_eq!(lines[2], ["demo/old:1", "-", "0", "B", "no", "it", "is", "not", "whole"]);
}

#[test]
fn images_in_json_have_every_field() {
    let fake =
        Fake::start(State { images: ListImagesResponse { notes: vec![], ..state().images }, ..state() });
    assert_eq!(
        fake.json("images"),
        json!([
            {"reference": "demo/nginx:1", "digest": "sha256:0a1b", "archive": "/usr/share/kelson/images/nginx.tar",
             "platform": "linux/amd64", "size": 2_097_152, "unpacked": true, "trouble": null, "services": ["web"]},
            {"reference": "demo/old:1", "digest": "", "archive": null, "platform": "", "size": 0, "unpacked": false,
             "trouble": "it is not whole", "services": []},
        ])
    );
}

#[test]
fn prune_tells_what_it_removed() {
    let fake = Fake::start(state());
    let done = fake.run("images prune");
    assert_eq!((done.status, done.out.as_str()), (0, "removed demo/old:1 (512 B)\n"));
    assert_eq!(done.err, "kelsonctl: a lease is left\n");
    let done = fake.run("images prune --dry-run");
    assert_eq!((done.status, done.out.as_str()), (0, "would remove demo/old:1 (512 B)\n"));
    assert_eq!(fake.asked(), ["prune dry_run=false", "prune dry_run=true"]);
    fake.change(|state| state.pruned.notes.clear());
    assert_eq!(
        fake.json("images prune --dry-run"),
        json!({"dryRun": true, "images": [{"reference": "demo/old:1", "size": 512}]})
    );
}
