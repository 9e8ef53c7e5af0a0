//! C2: two images that share layers unpack at the same time; an unpack that is cancelled half way leaves nothing that
//! breaks the next.

use std::fs;
use std::time::{Duration, Instant};

use kelson_tests::image::noise;
use kelson_tests::{Image, PATIENCE, Tar, eventually, until};

use super::{host, layers, service};

/// Enough for an unpack to be seen under way.
const LARGE: usize = 96 << 20;

/// Bytes that a process has written so far; `None` where it is gone.
fn bytes_written(pid: i32) -> Option<u64> {
    let counts = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    counts.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())
}

fn with_large_layers(reference: &str, own: &str) -> Image {
    Image::new(reference, &[&format!("print=this is {own}"), "serve"])
        .layer(Tar::new().file("shared", 0o644, &noise(16 << 20)))
        .layer(Tar::new().file(own, 0o644, own.as_bytes()))
}

both!(c2_images_that_share_layers_unpack_side_by_side);
fn c2_images_that_share_layers_unpack_side_by_side() {
    let images = ["a", "b", "c"].map(|name| with_large_layers(&format!("{name}:1"), name));
    let mut host = host(&images)
        .service("one", &service("a:1"))
        .service("two", &service("b:1"))
        .service("three", &service("c:1"))
        .start();
    for (name, own) in [("one", "a"), ("two", "b"), ("three", "c")] {
        host.wait_up(name);
        host.wait_log(name, &format!("this is {own}"));
    }
    // Each layer once: two that all share, and one of its own each.
    assert_eq!(layers(&host), 5);
    host.poweroff();
}

#[test]
fn c2_an_unpack_that_is_cancelled_leaves_nothing_that_breaks_the_next() {
    let image = Image::new("large:1", &["serve"])
        .layer(Tar::new().file("first", 0o644, &noise(LARGE)))
        .layer(Tar::new().file("second", 0o644, b"small"));
    let mut host =
        host(&[image]).service("web", &format!("{}start: manual", service("large:1"))).up(&["containerd"]);
    // At moments that differ: while it reads, writes, unpacks.
    for pause in [30, 120, 300, 600] {
        host.ctl(&["start", "web"]).ok();
        eventually("its unpack to be under way", || {
            !host.processes_with("kelson-unpack").is_empty() || host.service("web").up
        });
        std::thread::sleep(Duration::from_millis(pause));
        let asked = Instant::now();
        host.ctl(&["stop", "web", "--wait"]).ok();
        assert!(asked.elapsed() < Duration::from_secs(3), "it takes effect at once: {:?}", asked.elapsed());
        let web = host.service("web");
        assert_eq!((web.state.as_str(), web.stopped), ("stopped", true), "{web:?}");
        eventually("its process to be gone", || host.processes_with("kelson-unpack").is_empty());
        assert!(host.active_snapshots().iter().all(|name| name != "web"));
    }
    host.ctl(&["start", "web", "--wait"]).ok();
    assert!(host.service("web").up);
    let cgroups = host.cgroup_of("");
    let left: Vec<_> = fs::read_dir(&cgroups)
        .expect("kelson's cgroups")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("_unpack"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    host.poweroff();
}

both!(c2_an_unpack_that_dies_leaves_nothing_that_breaks_the_next);
fn c2_an_unpack_that_dies_leaves_nothing_that_breaks_the_next() {
    let image = Image::new("large:1", &["serve"])
        .layer(Tar::new().file("first", 0o644, &noise(LARGE)))
        .layer(Tar::new().file("second", 0o644, b"small"));
    let quick = "restart: {delay: 1ms, maxDelay: 1ms}\n";
    let mut host = host(&[image]).service("web", &format!("{}{quick}", service("large:1"))).start();
    let mut killed = Vec::new();
    // At moments that differ, all long before its end: how long it takes depends on the runtime and on this computer.
    for written in [0, 1 << 20, 8 << 20, 32 << 20] {
        let pid = until("its unpack to be under way", PATIENCE, || {
            let all = host.processes_with("kelson-unpack");
            let unpack = |words: &[String]| words.iter().any(|word| word == "large:1");
            let found = all.into_iter().find(|process| unpack(&process.command))?;
            (!killed.contains(&found.outer_pid)).then_some(found.outer_pid)
        });
        until("it to have written that much", PATIENCE, || (bytes_written(pid)? >= written).then_some(()));
        // SAFETY: it is a process of this host.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0, "it ended before {written} bytes");
        killed.push(pid);
    }
    host.wait_up("web");
    host.ctl(&["images", "prune"]).ok();
    assert_eq!(layers(&host), 3);
    host.poweroff();
}

/// As after a power cut between what containerd writes and its record of it, while the unpack's lease holds nothing yet.
#[test]
fn c2_what_containerd_itself_does_not_know_of_goes_with_the_lease_of_the_dead() {
    let mut host = host(&[Image::new("a:1", &["serve"])]).service("one", &service("a:1")).up(&["one"]);
    let store = host.inside(&format!("{}/containerd", host.path("lib").display()));
    let snapshot = store.join("io.containerd.snapshotter.v1.overlayfs/snapshots/4711");
    let blob = store.join("io.containerd.content.v1.content/blobs/sha256").join("0".repeat(64));
    fs::create_dir(&snapshot).expect("its folder is there");
    fs::write(&blob, b"half of it").expect("its folder is there");
    host.ctr(&["leases", "create", "--id", "kelson-unpack-dead"]).ok();
    host.ctl(&["images", "prune"]).ok();
    eventually("containerd to be tidy", || !snapshot.exists() && !blob.exists());
    assert_eq!(host.ctr(&["leases", "list", "--quiet"]).ok().stdout, "");
    assert!(host.service("one").up);
    host.poweroff();
}
