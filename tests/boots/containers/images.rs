//! C1, C2, C3: images and what is left of them, as a machine's own containerd has them.

use kelson_tests::image::{archive_with, noise};
use kelson_tests::{Image, Lines, PATIENCE, Tar, VmBuilder, archive, until};

use super::*;

/// Its unpack takes so long that a stop meets it.
const LARGE: usize = 24 << 20;

/// Archives that are damaged or made by an enemy: the service that needs each, a word of its text, the archive.
fn bad() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let up = "../".repeat(20);
    let image = |name: &str, layer: Tar| Image::new(&format!("{name}:1"), &["serve"]).layer(layer);
    let with = |name: &str, layer: Tar| archive(&[image(name, layer)]);
    let own = Tar::new().file("own", 0o644, &noise(10_000));
    let damaged = archive_with(&[image("digest", own.clone())], |kind, bytes| {
        // Not the layer that all images share: who has it already reads it no more.
        if kind == "layer" && bytes.len() < 100_000 {
            bytes[6000] ^= 1;
        }
    });
    let whole = archive(&[image("short", own)]);
    vec![
        ("digest", "is damaged: its digest is", damaged),
        ("short", "short.tar", whole[..whole.len() - 20_000].to_vec()),
        ("above", "..", with("above", Tar::new().file(&format!("{up}run/c3-above"), 0o644, b"evil"))),
        (
            "absolute",
            "/run/c3-absolute",
            with("absolute", Tar::new().file("/run/c3-absolute", 0o644, b"evil")),
        ),
        ("link", "hard link", with("link", Tar::new().hard_link("c3-link", &format!("{up}etc/passwd")))),
        (
            "through",
            "out",
            with(
                "through",
                Tar::new().symlink("out", &format!("{up}run")).file("out/c3-through", 0o644, b"evil"),
            ),
        ),
    ]
}

fn sharing(name: &str) -> Vec<u8> {
    let image = Image::new(&format!("{name}:1"), &[&format!("print=this is {name}"), "serve"])
        .layer(Tar::new().file("shared", 0o644, &noise(2 << 20)))
        .layer(Tar::new().file(name, 0o644, name.as_bytes()));
    archive(&[image])
}

/// Their services and images.
pub(super) fn services(mut builder: VmBuilder) -> VmBuilder {
    for (name, _, bytes) in bad() {
        builder = builder
            .archive(&format!("{name}.tar"), bytes)
            .service(name, &format!("container: {{image: '{name}:1'}}\nrestart: {{policy: once}}"));
    }
    for name in ["left", "right"] {
        builder = builder
            .archive(&format!("{name}.tar"), sharing(name))
            .service(name, &format!("container: {{image: '{name}:1'}}\nstart: manual"));
    }
    let large = Image::new("large:1", &["serve"])
        .layer(Tar::new().file("first", 0o644, &noise(LARGE)))
        .layer(Tar::new().file("second", 0o644, b"small"));
    builder
        .archive("large.tar", archive(&[large]))
        .service("large", "container: {image: 'large:1'}\nstart: manual")
        .service("old", &format!("{}start: manual", steps("serve", "")))
}

pub(super) fn c1_what_bears_the_name_of_a_service_makes_room_for_it(vm: &Vm) {
    // A snapshot, a container and a task that runs, all called as the service.
    ctr(vm, &["run", "--detach", "--null-io", &test_image(vm), "old", "/program", "hang", "stranger"]);
    let stranger = pid_of_task(vm, "old");
    assert!(look(vm, &format!("cat=/proc/{stranger}/cmdline")).contains("stranger"));
    vm.ctl(&["start", "old", "--wait"]).ok();
    let now = vm.client().service("old");
    assert_eq!((now.pid, now.up), (Some(pid_of_task(vm, "old")), true), "{now:?}");
    assert_ne!(now.pid, Some(stranger));
    let processes = look(vm, "list=/proc");
    assert!(!processes.lines().any(|name| name == stranger.to_string()), "the stranger lives");
    vm.ctl(&["stop", "old", "--wait"]).ok();
    for kind in ["containers", "snapshots", "tasks"] {
        assert!(!names(vm, kind).contains(&"old".to_owned()), "{kind}: {:?}", names(vm, kind));
    }
}

pub(super) fn c2_images_that_share_layers_unpack_side_by_side(vm: &Vm) {
    let newest = vm.client().events().last().map_or(0, |event| event.seq);
    let mut changes = follow_containerd(vm);
    vm.ctl(&["start", "left", "right", "--wait"]).ok();
    let events = vm.client().events();
    let place = |name: &str, state: &str| {
        let is = |event: &Event| event.seq > newest && event.service == name && event.state == state;
        events.iter().position(is).unwrap_or_else(|| panic!("{name} was never {state}: {events:#?}"))
    };
    for (one, other) in [("left", "right"), ("right", "left")] {
        assert!(place(one, "preparing") < place(other, "starting"), "{one} waited for {other}: {events:#?}");
        let log = vm.ctl(&["logs", one]).ok().stdout;
        assert!(log.contains(&format!("this is {one}")), "{log}");
    }
    // One layer that all images share was there before; one that both have, and one of its own each.
    let list = ctr(vm, &["snapshots", "ls"]);
    let layers = list.lines().filter(|line| line.trim_end().ends_with("Committed")).count();
    assert_eq!(layers, 4, "{list}");
    let mut told = Vec::new();
    mark(vm, "all-was-told");
    while let Some(line) = changes.next(PATIENCE).filter(|line| !line.contains("all-was-told")) {
        told.push(line);
    }
    for step in ["/snapshot/prepare", "/snapshot/commit"] {
        let of_layers = told.iter().filter(|line| line.contains(step) && line.contains("extract-")).count();
        assert_eq!(of_layers, 3, "{step} once a layer:\n{}", told.join("\n"));
    }
}

/// Follows containerd's events about its changes from here on.
#[track_caller]
fn follow_containerd(vm: &Vm) -> Lines {
    let mut lines =
        vm.client().follow(&["exec", "look", "--", "/usr/bin/ctr", "--namespace", "kelson", "events"]);
    // It does not say when it has begun to listen.
    until("containerd to tell of changes", PATIENCE, || {
        mark(vm, "begun");
        lines.next(Duration::from_millis(500))
    });
    lines
}

/// A change of no meaning, which containerd tells of.
#[track_caller]
fn mark(vm: &Vm, word: &str) {
    ctr(vm, &["images", "label", &test_image(vm), &format!("mark={word}")]);
}

/// The name of the image `test:1` in containerd.
#[track_caller]
fn test_image(vm: &Vm) -> String {
    let images = ctr(vm, &["images", "ls", "-q"]);
    images.lines().find(|name| name.ends_with("test:1")).expect("it has run").to_owned()
}

pub(super) fn c2_an_unpack_that_is_cancelled_leaves_nothing_that_breaks_the_next(vm: &Vm) {
    let newest = vm.client().events().last().map_or(0, |event| event.seq);
    let mut events = vm.client().follow_events(newest + 1);
    vm.ctl(&["start", "large"]).ok();
    let half = events.find("of an unpack half way", PATIENCE, |event| {
        event.service == "large" && (event.message.starts_with("unpacking ") || event.state == "starting")
    });
    assert_eq!(half.state, "preparing", "the image is too small for this computer: {half:?}");
    vm.ctl(&["stop", "large", "--wait"]).ok();
    let large = vm.client().service("large");
    assert_eq!((large.state.as_str(), large.stopped), ("stopped", true), "{large:?}");
    vm.ctl(&["start", "large", "--wait"]).ok();
    assert!(vm.client().service("large").up);
    // A snapshot that is no layer belongs to a container of its name.
    let list = ctr(vm, &["snapshots", "ls"]);
    let active = list.lines().filter(|line| line.trim_end().ends_with("Active"));
    let mut names = active.filter_map(|line| line.split_whitespace().next());
    assert!(names.all(|name| vm.services().iter().any(|service| service.name == name)), "{list}");
    vm.ctl(&["stop", "large", "--wait"]).ok();
}

pub(super) fn c3_a_bad_archive_costs_its_own_service_alone(vm: &Vm) {
    for (name, word, _) in bad() {
        wait_state(vm, name, "failed");
        let said = vm.client().service(name).message;
        assert!(said.contains(word), "{name}: {word:?} is not in {said:?}");
        assert!(said.contains(&format!("{name}.tar")) || said.contains(&format!("{name}:1")), "{said}");
        assert!(!names(vm, "containers").contains(&name.to_owned()));
    }
    for folder in ["/run", "/tmp", "/etc", "/", "/var/lib/kelson/containerd"] {
        let found = look(vm, &format!("list={folder}"));
        assert!(!found.contains("c3-"), "it was written outside, to {folder}: {found}");
    }
}
