//! The service Images, over a `kelson-unpack` that says what a test wants.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_image::{ImageRow, Pruned, Report, Unpacker, UnpackerOptions, encode};
use kelson_proto::v1;
use kelson_services::events::EventLog;
use kelson_services::images::ImageStore;
use kelson_services::service_runner::gate::Registry;
use kelson_services::spec::service::{ContainerSpec, ServiceSpec, Workload};
use tonic::Code;

use crate::World;

/// Answers `list` and `prune`; of the latter it removes what is not to be kept.
struct Played;

const HELD: [&str; 2] = ["demo/old:1", "demo/web:1"];

impl Launcher for Played {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let report = start.take(CONTROL).unwrap();
        let words = start.arguments;
        let words: Vec<String> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
        let reports: Vec<Report> = match words[0].as_str() {
            "list" => HELD.iter().map(|name| Report::Image(row(name))).chain([Report::Done]).collect(),
            "prune" => {
                let gone = HELD.iter().filter(|name| !words.contains(&(**name).to_owned()));
                let gone = gone.map(|name| Report::Pruned(Pruned { reference: (*name).to_owned(), size: 7 }));
                let note = if words.contains(&"--dry-run".to_owned()) { "dry" } else { "wet" };
                gone.chain([Report::Note(note.to_owned()), Report::Done]).collect()
            }
            _ => vec![Report::Failed("nothing is unpacked here".to_owned())],
        };
        Box::pin(async move {
            let mut pipe = File::from(report);
            for report in reports {
                pipe.write_all(&encode(&report))?;
            }
            Ok(Launched {
                pid: 7,
                start_time: 0,
                exit: Box::pin(std::future::ready("exited with status 0".to_owned())),
                kill: Box::new(|| {}),
            })
        })
    }
}

fn row(reference: &str) -> ImageRow {
    ImageRow {
        reference: reference.to_owned(),
        archive: Some(format!("/images/{}.tar", reference.len())),
        platform: "linux/amd64".to_owned(),
        size: 7,
        unpacked: true,
        ..ImageRow::default()
    }
}

/// The images of a world.
pub fn store(events: EventLog, registry: Registry) -> ImageStore {
    let options = UnpackerOptions {
        images: vec![PathBuf::from("/images")],
        containerd_socket: "/containerd.sock".into(),
        runtime_dir: "/run".into(),
        state_dir: "/state".into(),
        verify: Vec::new(),
    };
    ImageStore::new(Unpacker::new(Arc::new(Played), options), None, events, registry)
}

/// A service of this image.
fn container(name: &str, image: &str) -> Arc<ServiceSpec> {
    let workload = Workload::Container(ContainerSpec::new(image));
    Arc::new(ServiceSpec { workload, ..ServiceSpec::process(name, ["/none"]) })
}

#[tokio::test]
async fn images_are_listed_with_the_services_that_name_them() {
    let world = World::new().await;
    world.manager.add(container("front", "docker.io/demo/web:1"), false);
    let listed = world.client().images().list(v1::ListImagesRequest {}).await.unwrap().into_inner();
    let told: Vec<_> =
        listed.images.iter().map(|image| (image.reference.as_str(), image.services.concat())).collect();
    assert_eq!(told, [("demo/old:1", String::new()), ("demo/web:1", "front".to_owned())]);
    let image = &listed.images[0];
    assert_eq!((image.archive.as_str(), image.size, image.unpacked), ("/images/10.tar", 7, true));
    world.end().await;
}

#[tokio::test]
async fn what_no_service_names_is_pruned() {
    let world = World::new().await;
    world.manager.add(container("front", "demo/web:1"), false);
    for (dry_run, note) in [(true, "dry"), (false, "wet")] {
        let request = v1::PruneImagesRequest { dry_run };
        let pruned = world.client().images().prune(request).await.unwrap().into_inner();
        let names: Vec<&str> = pruned.images.iter().map(|image| image.reference.as_str()).collect();
        assert_eq!((names, pruned.notes), (vec!["demo/old:1"], vec![note.to_owned()]));
    }
    world.end().await;
}

#[tokio::test]
async fn nothing_is_pruned_while_a_file_has_mistakes() {
    let world = World::new().await;
    let mistake = kelson_services::spec::Diagnostic {
        file: "/etc/kelson/services/web.yaml".into(),
        line: 1,
        column: 1,
        service: Some("web".to_owned()),
        message: "no".to_owned(),
    };
    let loaded = kelson_services::spec::Loaded { diagnostics: vec![mistake], ..Default::default() };
    world.manager.take_in(loaded).await;
    let refused = world.client().images().prune(v1::PruneImagesRequest { dry_run: false }).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("/etc/kelson/services/web.yaml"), "{refused}");
    let told =
        world.client().images().prune(v1::PruneImagesRequest { dry_run: true }).await.unwrap().into_inner();
    assert!(told.notes.iter().any(|note| note.contains("web.yaml")), "{told:?}");
    world.end().await;
}
