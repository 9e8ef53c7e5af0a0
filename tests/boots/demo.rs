//! The demo: services from images that two tools made, in archives and in a registry, with three compressions.

use std::collections::BTreeSet;
use std::time::Duration;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Event, PATIENCE, Vm, until};

use crate::{Disk, assert_clean};

/// The services that run an image, and the image.
const CONTAINERS: [(&str, &str); 4] = [
    ("redis", "demo/redis:7"),
    ("seed", "demo/redis:7"),
    ("web", "10.0.2.100:5000/demo/web:1"),
    ("nginx", "demo/nginx:1"),
];
const ALL: [&str; 5] = ["redis", "seed", "web", "nginx", "watch"];
/// The text of an event about an image that was complete.
const WAS_THERE: &str = "was unpacked before";

/// The number that the web page counts visits with.
#[track_caller]
fn visits(vm: &Vm) -> u64 {
    let (status, text) = vm.get(80, "/").expect("nginx is up, so it answers");
    assert_eq!(status, 200, "{text}");
    assert!(text.starts_with("hello from Kelson\n"), "the one-shot wrote no greeting: {text:?}");
    let number = text.lines().find_map(|line| line.strip_prefix("visits: "));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number of visits in {text:?}"))
}

/// The services that an event with this text tells of.
fn told(events: &[Event], text: &str) -> BTreeSet<String> {
    events.iter().filter(|event| event.message.contains(text)).map(|event| event.service.clone()).collect()
}

#[test]
fn the_demo_boots_from_our_initramfs_until_all_is_up() {
    let mut vm = Vm::builder("demo").demo().without_containerd().forward(80).qemu("-smp 2").boot();
    the_demo_is_up(&vm);
    assert!(vm.services().iter().all(|service| service.name != "containerd"));
    it_stops_in_order(&mut vm);
}

#[test]
fn long_the_demo_runs_the_same_with_containerd() {
    let mut vm = Vm::builder("demo-containerd").demo().with_containerd().forward(80).qemu("-smp 2").boot();
    the_demo_is_up(&vm);
    // containerd's own tool sees the same processes.
    let tasks =
        vm.ctl(&["exec", "watch", "--", "/usr/bin/ctr", "--namespace", "kelson", "task", "ls"]).ok().stdout;
    for name in ["redis", "web", "nginx"] {
        let pid = vm.client().service(name).pid.expect("it runs").to_string();
        let is_task = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words == [name, &pid, "RUNNING"]
        };
        assert!(tasks.lines().any(is_task), "{name} with PID {pid} is not in\n{tasks}");
    }
    it_stops_in_order(&mut vm);
}

#[track_caller]
fn the_demo_is_up(vm: &Vm) {
    vm.wait_up(&ALL);
    for service in vm.services() {
        assert!(service.up, "{service:?}");
        // A service with a check has passed it: it would not be up otherwise.
        let checked = ["redis", "web", "nginx"].contains(&service.name.as_str());
        assert!(service.builtin || service.healthy == checked.then_some(true), "{service:?}");
    }
    vm.ctl(&["boot"]).ok();
    let network = vm.ctl(&["network"]).ok().stdout;
    assert!(network.lines().any(|line| line.contains("10.0.2.15/24") && line.contains("dhcp")), "{network}");
    until("the clock to be synchronised", BOOT_PATIENCE, || {
        let clock: serde_json::Value = vm.ctl(&["time", "-o", "json"]).ok().json();
        clock["synchronized"].as_bool().expect("a boolean").then_some(())
    });
    let status = vm.ctl(&["status", "timesync"]).ok().stdout;
    assert!(status.contains("10.0.2.2:10123: offset "), "{status}");

    let first = visits(vm);
    assert_eq!(visits(vm), first + 1);

    let images = vm.ctl(&["images"]).ok().stdout;
    for (_, image) in CONTAINERS {
        assert!(images.contains(image), "{image} is not in\n{images}");
    }
    let log = vm.ctl(&["logs", "web"]).ok().stdout;
    assert!(log.contains("listening on 127.0.0.1:8000"), "{log}");
    let info = vm.ctl(&["exec", "redis", "--", "redis-cli", "info"]).ok().stdout;
    assert!(info.contains("redis_version:"), "{info}");
    // The status of what ran inside is handed through.
    vm.ctl(&["exec", "redis", "--", "redis-cli", "-e", "no-such-command"]).expect(1);
}

#[track_caller]
fn it_stops_in_order(vm: &mut Vm) {
    let newest = vm.client().events().last().map_or(0, |event| event.seq);
    let mut events = vm.client().follow_events(newest + 1);
    vm.poweroff();
    // nginx needs web, which needs redis: each has ended before the next begins to stop.
    let is = |service, state| move |event: &Event| event.service == service && event.state == state;
    let stop = events.collect("of redis stopping", PATIENCE, is("redis", "stopping"));
    let at = |service, state| stop.iter().position(is(service, state));
    let (nginx, web) = (at("nginx", "stopped"), at("web", "stopped"));
    assert!(nginx.is_some() && nginx < at("web", "stopping") && web.is_some(), "{stop:?}");
}

#[test]
fn long_a_second_boot_from_a_disk_unpacks_nothing() {
    let disk = Disk::new("demo-on-a-disk");
    let mut took = Vec::new();
    let mut counted = 0;
    for boot in 1..=2 {
        // Whole boots are compared: how busy this computer is must not show.
        let mut vm = Vm::builder("demo-on-a-disk")
            .demo()
            .with_containerd()
            .disk(&disk.0)
            .forward(80)
            .instructions()
            .boot();
        vm.wait_up(&ALL);
        let whole = until("the boot to be over", BOOT_PATIENCE, || {
            let told: serde_json::Value = vm.ctl(&["boot", "-o", "json"]).ok().json();
            told["totalMs"].as_f64().map(|millis| Duration::from_secs_f64(millis / 1e3))
        });
        let events = vm.client().events();
        let was_there = told(&events, WAS_THERE);
        if boot == 1 {
            // The one-shot shares redis' image and comes after it; the others are new.
            assert_eq!(was_there, BTreeSet::from(["seed".to_owned()]), "{events:?}");
        } else {
            let all = CONTAINERS.map(|(service, _)| service.to_owned());
            assert_eq!(was_there, BTreeSet::from(all), "{events:?}");
        }
        // One waits for the other.
        let prepared: Duration =
            ["redis", "web", "nginx"].map(|service| preparing(&events, service)).iter().sum();
        println!("boot {boot}: {whole:?}, of which {prepared:?} went by in preparing redis, web and nginx");
        took.push((whole, prepared));
        // redis keeps its values on the disk, through a mount of its container.
        let now = visits(&vm);
        assert_eq!(now, counted + 1);
        counted = now;
        vm.poweroff();
        assert_clean(&disk.0);
    }
    let [(first, unpacked), (second, was_there)] = took[..] else { panic!("{took:?}") };
    let saved = unpacked.saturating_sub(was_there);
    assert!(saved > unpacked / 2, "the unpacking is most of the preparing: {took:?}");
    let faster = first.saturating_sub(second);
    assert!(
        faster > saved * 3 / 4 && faster < saved * 3 / 2,
        "not faster by that: {faster:?} and {saved:?}, {took:?}"
    );
}

/// How long this service was prepared before its first run.
#[track_caller]
fn preparing(events: &[Event], service: &str) -> Duration {
    let first = |state| events.iter().find(|event| event.service == service && event.state == state);
    let (Some(begun), Some(over)) = (first("preparing"), first("starting")) else {
        panic!("{service} was not started: {events:?}");
    };
    over.at() - begun.at()
}
