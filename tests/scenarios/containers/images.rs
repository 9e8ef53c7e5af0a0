//! The table of images, pruning, and the order of unpacks.

use kelson_tests::{Host, Image, Tar, archive};
use serde_json::Value;

use super::{builder, service, test_image};

fn images(host: &Host) -> Vec<Value> {
    host.ctl(&["-o", "json", "images"]).ok().json()
}

/// The references that containerd has.
fn held(host: &Host) -> Vec<String> {
    let listed = host.ctr(&["images", "list", "--quiet"]).ok().stdout;
    let mut names: Vec<String> = listed.lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn images_are_listed_and_those_that_no_service_names_are_pruned() {
    let old = Image::new("demo/old:1", &["serve"]).layer(Tar::new().file("old", 0o644, &[7; 100_000]));
    let mut host = Host::builder()
        .archive("test.tar", archive(&[test_image()]))
        .archive("old.tar", archive(&[old]))
        .archive("bad.tar", b"no archive".repeat(100))
        .service("web", &service("test:1"))
        .service("past", &service("demo/old:1"))
        .up(&["web", "past"]);
    let listed = images(&host);
    let rows: Vec<(&str, bool, usize)> = listed
        .iter()
        .map(|row| {
            let services = row["services"].as_array().expect("a list").len();
            (row["reference"].as_str().expect("a name"), row["unpacked"] == true, services)
        })
        .collect();
    assert_eq!(rows, [("demo/old:1", true, 1), ("test:1", true, 1)], "{listed:#?}");
    assert!(listed[0]["archive"].as_str().expect("a path").ends_with("/images/old.tar"));
    let table = host.ctl(&["images"]).ok();
    assert!(table.stderr.contains("bad.tar"), "{table:?}");
    assert!(table.stdout.contains("test.tar"), "{table:?}");
    // All are needed.
    assert!(host.ctl(&["images", "prune"]).ok().stdout.contains("nothing to remove"));
    host.ctl(&["stop", "past", "--wait"]).ok();
    assert!(
        host.ctl(&["images", "prune"]).ok().stdout.contains("nothing to remove"),
        "its file still names it"
    );
    host.remove_service("past");
    host.read_again();
    let told = host.ctl(&["images", "prune", "--dry-run"]).ok().stdout;
    assert!(told.starts_with("would remove demo/old:1"), "{told}");
    assert_eq!(held(&host).len(), 2);
    let told = host.ctl(&["images", "prune"]).ok().stdout;
    assert!(told.starts_with("removed demo/old:1"), "{told}");
    assert_eq!(held(&host).len(), 1, "{:?}", held(&host));
    assert_eq!(host.layers().len(), 1, "{:?}", host.layers());
    // Its archive is still there: who needs it again gets it again.
    host.write_service("past", &service("demo/old:1"));
    host.read_again();
    host.wait_up("past");
    assert!(host.service("web").up);
    host.poweroff();
}

#[test]
fn a_file_with_mistakes_keeps_images_from_being_pruned() {
    let mut host = Host::builder()
        .archive("test.tar", archive(&[test_image()]))
        .service("web", &service("test:1"))
        .service("broken", "container: {image: 'test:1', colour: red}")
        .up(&["web"]);
    let refused = host.ctl(&["images", "prune"]).expect(1);
    assert!(refused.stderr.contains("broken.yaml"), "{refused:?}");
    host.poweroff();
}

both!(a_second_start_unpacks_nothing);
fn a_second_start_unpacks_nothing() {
    let mut host = builder()
        .archive("test.tar", archive(&[test_image()]))
        .service("web", &service("test:1"))
        .up(&["web"]);
    host.ctl(&["stop", "web", "--wait"]).ok();
    let before = host.newest_event();
    host.ctl(&["start", "web", "--wait"]).ok();
    let told: Vec<String> = host
        .events_of("web")
        .into_iter()
        .filter(|event| event.seq > before)
        .map(|event| event.message)
        .collect();
    assert!(told.contains(&"image test:1 was unpacked before".to_owned()), "{told:#?}");
    assert!(!told.iter().any(|text| text.starts_with("unpack")), "{told:#?}");
    host.poweroff();
}
