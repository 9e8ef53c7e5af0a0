//! `images`, `images prune` and `images update`.

use kelson_proto::v1::action_result::Outcome;
use kelson_proto::v1::{
    Image, ListImagesResponse, PruneImagesResponse, PrunedImage, State as ServiceState, UpdateImageResponse,
};

use crate::fake::{Fake, State};
use crate::samples::{result, service};

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
                    signer: String::new(),
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

#[test]
fn the_signer_of_an_image_is_shown_where_there_is_one() {
    let mut state = state();
    state.images.images[0].signer = "release.pem".to_owned();
    Fake::start(state).transcript("images-signed");
}

#[test]
fn an_image_is_updated_and_its_services_restart_until_one_fails() {
    let updated = UpdateImageResponse {
        digest: "sha256:2b3c".to_owned(),
        digest_before: "sha256:0a1b".to_owned(),
        size: 3 << 20,
        size_before: 2 << 20,
        fetched: 1 << 20,
        services: vec!["db".to_owned(), "web".to_owned()],
    };
    let host = || State {
        services: ["db", "web"].map(|name| service(name, ServiceState::Running)).to_vec(),
        updated: updated.clone(),
        ..State::default()
    };
    Fake::start(host()).transcript("images-update");
    let failed = result("db", Outcome::Failed, "exited with status 3");
    Fake::start(State { results: vec![failed], ..host() }).transcript("images-update-failed");
    let refused = Some("only os:admin may restart".to_owned());
    Fake::start(State { deny_acting: refused, ..host() }).transcript("images-update-denied");
    let same = UpdateImageResponse { digest: updated.digest_before.clone(), services: Vec::new(), ..updated };
    Fake::start(State { updated: same, ..State::default() }).transcript("images-update-none");
}
