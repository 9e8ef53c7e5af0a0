//! Images that are pulled from a registry.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kelson_tests::image::{hex_digest, noise};
use kelson_tests::{Authority, Dice, Host, HostBuilder, Image, Process, Registry, Tar, eventually, until};

use super::{RUNTIME, Runtime, builder, runtime};

both!(i4_a_tag_is_resolved_once_and_a_host_without_its_registry_starts_what_it_has);
both!(nothing_is_pulled_where_the_file_or_the_name_does_not_want_it);
both!(a_pull_that_cannot_be_is_named_and_tried_again);
both!(without_a_first_pull_always_tries_again);
both!(i3_an_update_pulls_what_a_tag_leads_to_now_and_restarts_in_order);

/// Tests of both runtimes run side by side: each has a CA of its own.
fn authority(test: &str) -> Authority {
    Authority::new(&format!("{test}-{}", unpacked()))
}

/// A host that trusts the registry's CA.
fn host(authority: &Authority) -> HostBuilder {
    let ca = authority.path("ca.pem");
    builder().machine(&format!("registries: {{ca: {}}}\n", ca.display()))
}

fn service(registry: &Registry, more: &str) -> String {
    format!("container: {{{}image: '{}/app:1'{more}}}\n", runtime(), registry.host)
}

/// An image whose program prints this.
fn image(text: &str) -> Image {
    Image::new("app:1", &[&format!("print={text}"), "serve"]).gzip()
}

fn messages(host: &Host) -> Vec<String> {
    host.events_of("app").into_iter().map(|event| event.message).collect()
}

/// The digest that the image has on this host.
fn digest(host: &Host) -> String {
    let images = host.ctl(&["-o", "json", "images"]).ok().json::<Vec<serde_json::Value>>();
    images[0]["digest"].as_str().expect("a digest").to_owned()
}

/// The folder below the state folder that has what was unpacked.
fn unpacked() -> &'static str {
    match RUNTIME.get() {
        Runtime::Containerd => "containerd",
        Runtime::Kelson | Runtime::Users => "containers",
    }
}

fn i4_a_tag_is_resolved_once_and_a_host_without_its_registry_starts_what_it_has() {
    let authority = authority("registry");
    let registry = Registry::start(Some(&authority));
    let first = registry.push(&[image("first")]);
    let state = tempfile::tempdir().expect("a folder");
    let up = |more: &str| {
        host(&authority).state(state.path()).service("app", &service(&registry, more)).up(&["app"])
    };
    let mut host = up("");
    let events = messages(&host);
    assert!(events.iter().any(|text| text.starts_with("pulled ") && text.ends_with(&first)), "{events:#?}");
    host.wait_log("app", "first");
    assert_eq!(digest(&host), first);
    assert!(host.ctl(&["images"]).ok().stdout.contains(" pulled "), "the table names where it is");
    // The tag moves, and nothing changes.
    let second = registry.push(&[image("second")]);
    registry.asked();
    host.ctl(&["restart", "app", "--wait"]).ok();
    assert_eq!(digest(&host), first);
    // Nor when what was unpacked is lost.
    host.poweroff();
    registry.fault(|faults| faults.down = true);
    fs::remove_dir_all(state.path().join(unpacked())).expect("something was unpacked");
    let mut host = up("");
    assert_eq!((digest(&host), registry.asked().len()), (first.clone(), 0));
    host.poweroff();
    // `always` asks, and starts what it has where nobody answers.
    let mut host = up(", pull: always");
    let events = messages(&host);
    assert!(events.iter().any(|text| text.contains("cannot be pulled: ")), "{events:#?}");
    assert_eq!(digest(&host), first);
    host.poweroff();
    registry.fault(|faults| faults.down = false);
    let mut host = up(", pull: always");
    host.wait_log("app", "second");
    let events = messages(&host);
    assert!(events.iter().any(|text| text.ends_with(&format!("{second}, before {first}"))), "{events:#?}");
    host.poweroff();
}

fn nothing_is_pulled_where_the_file_or_the_name_does_not_want_it() {
    let authority = authority("registry-never");
    let registry = Registry::start(Some(&authority));
    registry.push(&[image("first")]);
    let state = tempfile::tempdir().expect("a folder");
    let folder = state.path().join("registries");
    let mut host = host(&authority)
        .state(state.path())
        .service("app", &service(&registry, ", pull: never"))
        .service("plain", &super::service("app:1"))
        .start();
    for name in ["app", "plain"] {
        host.wait_state(name, "failed");
        let message = host.service(name).message;
        assert!(message.contains("no archive in "), "{message}");
    }
    assert!(registry.asked().is_empty());
    // Nor does a prune make its folder.
    host.ctl(&["images", "prune"]).ok();
    assert!(!folder.exists(), "a host without a pull has no folder for it");
    // The file changes, and the image comes.
    host.write_service("app", &service(&registry, ""));
    host.read_again();
    host.wait_up("app");
    assert!(folder.join("pulled/index.json").exists());
    assert!(host.ctl(&["images", "prune"]).ok().stdout.contains("nothing to remove"));
    // Its layers are of use to nobody any more, once no file names it.
    host.ctl(&["stop", "app", "--wait"]).ok();
    host.remove_service("app");
    host.read_again();
    let pruned = host.ctl(&["images", "prune"]).ok().stdout;
    assert!(pruned.starts_with(&format!("removed {}/app:1 (", registry.host)), "{pruned}");
    assert_eq!(pruned.lines().count(), 1, "{pruned}");
    assert_eq!(count(&folder.join("pulled/blobs/sha256")), 0);
    host.poweroff();
}

fn a_pull_that_cannot_be_is_named_and_tried_again() {
    let authority = authority("registry-none");
    let registry = Registry::start(Some(&authority));
    let mut host = host(&authority).service("app", &service(&registry, "")).start();
    host.wait_state("app", "backoff");
    let events = messages(&host);
    let expected = format!("image {0}/app:1 cannot be pulled: {0} does not have manifest 1", registry.host);
    assert!(events.iter().any(|text| text.contains(&expected)), "{events:#?}");
    registry.push(&[image("late")]);
    host.wait_up("app");
    assert_eq!(pulls(&host).count(), 0, "the process ends with its work");
    host.poweroff();
}

fn without_a_first_pull_always_tries_again() {
    let authority = authority("registry-always");
    let registry = Registry::start(Some(&authority));
    registry.push(&[image("late")]);
    registry.fault(|faults| faults.statuses = vec![(404, 0); 2]);
    let mut host = host(&authority).service("app", &service(&registry, ", pull: always")).up(&["app"]);
    assert!(host.service("app").restarts > 0);
    host.poweroff();
}

fn i3_an_update_pulls_what_a_tag_leads_to_now_and_restarts_in_order() {
    let authority = authority("registry-update");
    let registry = Registry::start(Some(&authority));
    let first = registry.push(&[image("first")]);
    let mut host = host(&authority)
        .service("app", &(service(&registry, "") + "depends: [{service: db}]\n"))
        .service("db", &service(&registry, ""))
        .service("off", &(service(&registry, "") + "start: manual\n"))
        .up(&["app", "db"]);
    let name = format!("{}/app:1", registry.host);
    let update =
        |host: &Host, more: &[&str]| host.ctl(&[&["images", "update", &name], more].concat()).ok().stdout;
    assert!(update(&host, &[]).ends_with(", as before\n"), "the tag has not moved");
    let second = registry.push(&[image("second")]);
    let looked = update(&host, &["--dry-run"]);
    assert!(looked.contains(&second) && looked.contains(&format!("before {first}")), "{looked}");
    assert!(looked.ends_with("would restart db, app\n"), "{looked}");
    assert_eq!(digest(&host), first);
    let pulled = update(&host, &[]);
    let restarted: Vec<&str> =
        pulled.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0)).collect();
    assert_eq!(restarted, ["db", "app"], "{pulled}");
    assert_eq!(digest(&host), second);
    for name in ["db", "app"] {
        host.wait_log(name, "second");
    }
    assert_eq!(host.service("off").state, "initialized");
    // Back to what it was, which is here still.
    registry.asked();
    host.write_service(
        "app",
        &format!("container: {{{}image: '{}/app@{first}'}}\n", runtime(), registry.host),
    );
    host.read_again();
    host.ctl(&["restart", "app", "--wait"]).ok();
    eventually("the first program to print last", || host.log_text("app").trim_end().ends_with("first"));
    assert_eq!(registry.asked().len(), 0);
    // An archive or a name without a registry cannot be updated.
    let refused = host.ctl(&["images", "update", "app:1"]);
    assert!(refused.status != 0 && refused.stderr.contains("names no registry"), "{refused:?}");
    host.poweroff();
}

#[test]
fn i2_cuts_of_the_power_during_a_pull_leave_whole_images_alone() {
    RUNTIME.set(Runtime::Kelson);
    let authority = authority("registry-cuts");
    let registry = Registry::start(Some(&authority));
    let file = |number: usize| Tar::new().file(&format!("file{number}"), 0o644, &noise(1 << 20));
    registry.push(&[(0..3).fold(image("whole"), |image, number| image.layer(file(number)))]);
    registry.fault(|faults| faults.pace = Duration::from_millis(20));
    let state = tempfile::tempdir().expect("a folder");
    let folder = state.path().join("registries");
    let mut dice = Dice::new(19);
    let (mut whole, mut cut) = (0, 0);
    for round in 0..20 {
        registry.asked();
        let host = host(&authority).state(state.path()).service("app", &service(&registry, "")).start();
        until("the pull to begin", Duration::from_secs(60), || (!registry.asked().is_empty()).then_some(()));
        std::thread::sleep(dice.millis(700));
        if round % 2 == 0 {
            // Only its helper: the service tries again, and continues with what has arrived.
            for process in pulls(&host) {
                // One that has ended meanwhile is as good.
                let _ = Command::new("kill").args(["-9", &process.outer_pid.to_string()]).status();
            }
            host.wait_up("app");
            assert_eq!(images(&folder), 1);
        }
        // All of the host, in an instant.
        drop(host);
        match images(&folder) {
            0 => cut += 1,
            _ => {
                whole += 1;
                for folder in ["registries", "containers"] {
                    let _ = fs::remove_dir_all(state.path().join(folder));
                }
            }
        }
    }
    println!("{cut} of 20 left a part, {whole} a whole image");
    let mut host = host(&authority).state(state.path()).service("app", &service(&registry, "")).up(&["app"]);
    host.poweroff();
    assert_eq!(images(&folder), 1);
    assert_eq!(count(&folder.join(".partial")), 0);
    assert_eq!(count(&folder.join("pulled/blobs/sha256")), 6, "a manifest, a config and four layers");
}

/// The images that a store names. Each is whole, and each of its blobs has the name of its content.
fn images(folder: &Path) -> usize {
    let Ok(index) = fs::read(folder.join("pulled/index.json")) else { return 0 };
    let blob = |descriptor: &serde_json::Value| {
        let hex =
            descriptor["digest"].as_str().and_then(|text| text.strip_prefix("sha256:")).expect("a digest");
        let bytes = fs::read(folder.join("pulled/blobs/sha256").join(hex)).expect("a blob of a whole image");
        assert_eq!(hex_digest(&bytes), hex);
        bytes
    };
    let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).expect("a whole document");
    let index = json(&index);
    let images = index["manifests"].as_array().expect("a list");
    for image in images {
        let manifest = json(&blob(image));
        let layers = manifest["layers"].as_array().expect("a list");
        layers.iter().chain([&manifest["config"]]).for_each(|part| drop(blob(part)));
    }
    images.len()
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).expect("a folder").count()
}

/// Processes of `kelson-pull`.
fn pulls(host: &Host) -> impl Iterator<Item = Process> {
    let is_pull = |process: &Process| {
        process.command.first().is_some_and(|name| Path::new(name).ends_with("kelson-pull"))
    };
    host.processes().into_iter().filter(is_pull)
}
