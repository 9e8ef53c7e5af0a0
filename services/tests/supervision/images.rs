//! Pruning images: what stays, and when nothing is pruned.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_image::{Report, Unpacker, UnpackerOptions, encode};
use kelson_runner::Images as _;
use kelson_services::images::{ImageStore, ImagesError};
use kelson_spec::service::{ContainerSpec, Workload};
use kelson_spec::{Diagnostic, Loaded, ServiceSpec};

use crate::house::House;

/// Removes nothing, keeps what it was asked, and holds on to the pipes of unpacks.
#[derive(Default)]
struct Played {
    asked: Mutex<Vec<Vec<String>>>,
    held: Mutex<Vec<OwnedFd>>,
}

impl Launcher for Played {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let report = start.take(CONTROL).unwrap();
        let words = start.arguments;
        let words: Vec<String> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
        if words[0] == "unpack" {
            self.held.lock().unwrap().push(report);
        } else {
            std::fs::File::from(report).write_all(&encode(&Report::Done)).unwrap();
        }
        self.asked.lock().unwrap().push(words);
        Box::pin(async {
            Ok(Launched {
                pid: 7,
                start_time: 0,
                exit: Box::pin(async { "ended".to_owned() }),
                kill: Box::new(|| {}),
            })
        })
    }
}

fn container(name: &str, image: &str) -> ServiceSpec {
    let workload = Workload::Container(ContainerSpec::new(image));
    ServiceSpec { workload, ..ServiceSpec::process(name, ["/none"]) }
}

fn store(house: &House) -> (ImageStore, Arc<Played>) {
    let played = Arc::new(Played::default());
    let options = UnpackerOptions {
        images: Vec::new(),
        containerd_socket: "/containerd.sock".into(),
        runtime_dir: "/run".into(),
        state_dir: "/state".into(),
        verify: Vec::new(),
    };
    let unpacker = Unpacker::new(Arc::clone(&played) as Arc<dyn Launcher>, options);
    let host_context = &house.host_context;
    (ImageStore::new(unpacker, None, host_context.events.clone(), host_context.registry.clone()), played)
}

/// The images that the last `kelson-unpack` was to keep.
fn kept(played: &Played) -> Vec<String> {
    let asked = played.asked.lock().unwrap();
    asked.last().unwrap().iter().skip_while(|word| *word != "--").skip(1).cloned().collect()
}

#[tokio::test]
async fn what_any_service_names_stays_whatever_its_state() {
    let house = House::new();
    let (store, played) = store(&house);
    let specs = [container("a", "demo/a:1"), container("b", "demo/b:1"), ServiceSpec::process("c", ["/c"])];
    house.manager.take_in(Loaded { services: specs.to_vec(), ..Loaded::default() }).await;
    store.prune(&house.manager, false).await.unwrap();
    assert_eq!(kept(&played), ["demo/a:1", "demo/b:1"]);
}

#[tokio::test]
async fn what_a_service_was_prepared_from_stays_when_its_file_changes() {
    let house = House::new();
    let (store, played) = store(&house);
    house.manager.add(Arc::new(container("a", "demo/a:1")), false);
    // Broken off: the record that it is needed is older than the work.
    let a = ContainerSpec::new("demo/a:1");
    let unpack = store.prepare("a", &a);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(5), unpack).await.is_err());
    house
        .manager
        .reload(Loaded { services: vec![container("a", "demo/a:2")], ..Loaded::default() })
        .await
        .unwrap();
    store.prune(&house.manager, false).await.unwrap();
    assert_eq!(kept(&played), ["demo/a:1", "demo/a:2"]);
}

#[tokio::test]
async fn nothing_is_pruned_while_an_image_is_unpacked() {
    let house = House::new();
    let (store, played) = store(&house);
    let web = ContainerSpec::new("demo/web:1");
    let mut unpack = store.prepare("web", &web);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(5), &mut unpack).await.is_err());
    let refused = store.prune(&house.manager, false).await.unwrap_err();
    let ImagesError::NotNow(why) = &refused else { panic!("{refused:?}") };
    assert!(why.contains("demo/web:1 for \"web\""), "{why}");
    assert!(store.prune(&house.manager, true).await.is_ok(), "to look does no harm");
    drop(unpack);
    store.prune(&house.manager, false).await.unwrap();
    assert_eq!(played.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn nothing_is_pruned_until_the_files_are_mended() {
    let house = House::new();
    let (store, _) = store(&house);
    let mistake = |file: &str, service: Option<&str>| Diagnostic {
        file: file.into(),
        line: 0,
        column: 0,
        service: service.map(str::to_owned),
        message: "no".into(),
    };
    for (diagnostic, refused) in [
        (mistake("/etc/kelson/services/web.yaml", Some("web")), true),
        (mistake("/etc/kelson/services", None), true),
        (mistake("/etc/kelson/machine.yaml", None), false),
    ] {
        let file = diagnostic.file.clone();
        let _ = house.manager.reload(Loaded { diagnostics: vec![diagnostic], ..Loaded::default() }).await;
        let result = store.prune(&house.manager, false).await;
        assert_eq!(matches!(result, Err(ImagesError::NotNow(_))), refused, "{}: {result:?}", file.display());
    }
}
