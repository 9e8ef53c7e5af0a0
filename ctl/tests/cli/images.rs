//! `images` and `images prune`.

use kelson_proto::v1::{Image, ListImagesResponse, PruneImagesResponse, PrunedImage};

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
                    services: vec!["front".to_owned(), "web".to_owned()],
                },
                Image {
                    reference: "demo/arm:1\x1b[2J".to_owned(),
                    archive: "/usr/share/kelson/images/arm.tar".to_owned(),
                    trouble: "it holds linux/arm64 alone, and this host is linux/amd64".to_owned(),
                    size: 7,
                    ..Image::default()
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
fn images_are_listed_and_removed() {
    Fake::start(state()).transcript("images");
    let fake = Fake::start(State::default());
    fake.transcript("images-none");
}
