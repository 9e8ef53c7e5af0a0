//! Images that are pulled from a registry.

use std::path::Path;

use kelson_tests::{Authority, Host, HostBuilder, Image, Registry};

use super::{RUNTIME, Runtime, builder, runtime};

both!(a_tag_is_resolved_once_and_a_host_without_its_registry_starts_what_it_has);
both!(nothing_is_pulled_where_the_file_or_the_name_does_not_want_it);
both!(a_pull_that_cannot_be_is_named_and_tried_again);
both!(without_a_first_pull_always_tries_again);

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
        Runtime::Kelson => "containers",
    }
}

fn a_tag_is_resolved_once_and_a_host_without_its_registry_starts_what_it_has() {
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
    std::fs::remove_dir_all(state.path().join(unpacked())).expect("something was unpacked");
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
    let blobs = std::fs::read_dir(folder.join("pulled/blobs/sha256")).expect("a layout");
    assert_eq!(blobs.count(), 0);
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
    assert_eq!(helpers(&host), 0, "the process ends with its work");
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

/// Processes of `kelson-pull`.
fn helpers(host: &Host) -> usize {
    let is_pull = |process: &&kelson_tests::Process| {
        process.command.first().is_some_and(|name| Path::new(name).ends_with("kelson-pull"))
    };
    host.processes().iter().filter(is_pull).count()
}
