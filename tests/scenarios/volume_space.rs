//! How full the volumes of services are: the check `volume`, and statistics of storage plugins.

use std::fs;
use std::time::{Duration, Instant};

use kelson_tests::{Host, eventually, process};

use crate::csi;

#[test]
fn a_full_volume_makes_its_service_unhealthy_until_there_is_space_again() {
    let volumes = "volumes:\n\
        - {name: data, source: {tmpfs: {size: 1Mi, mode: '0777'}}, target: $DIR/seen}\n\
        - {name: kept, source: {path: $DIR/kept, create: {}}, target: $DIR/kept-there}\n\
        health:\n\
        - {name: data, volume: data, freeAtLeast: 50%, interval: 50ms, failureThreshold: 1}\n\
        - {name: kept, volume: kept, freeAtLeast: 1Ki, interval: 50ms}\n";
    let mut host = Host::builder().runs("plain", "serve").start();
    host.write_service("web", &process("serve", volumes));
    host.ctl(&["reload"]).ok();
    host.wait_up("web");
    let seen = format!("/proc/{}/root{}/seen/big", host.outer_pid(host.pid_of("web")), host.dir().display());
    for _ in 0..2 {
        fs::write(&seen, vec![0; 700 << 10]).expect("the service's volume");
        let full = host.wait_for("web", "a full volume", |now| !now.up);
        let expected = "running, waits for check data: volume data: 31 % of 1.0 MiB are free; at least 50 % is asked for";
        assert_eq!(full.message, expected);
        let status = host.ctl(&["status", "web"]).ok().stdout;
        assert!(status.contains("at least 50 % is asked for"), "{status}");
        fs::remove_file(&seen).expect("it is there");
        host.wait_up("web");
    }
    // The checks of the next incarnation of PID 1 see the same.
    host.crash(|| host.signal(libc::SIGSEGV));
    fs::write(&seen, vec![0; 700 << 10]).expect("the service's volume");
    host.wait_for("web", "a full volume", |now| !now.up);
    let status = host.ctl(&["status", "web", "-o", "json"]).ok().stdout;
    assert!(status.contains("volume data: 31 % of 1.0 MiB are free"), "{status}");
    assert!(!host.ctl(&["metrics"]).ok().stdout.contains("kelson_volume"), "no plugin has a volume");
    host.poweroff();
}

/// How often the plugin was asked how full its volumes are.
fn asked(host: &Host) -> usize {
    let calls = fs::read_to_string(host.path("plugin/calls")).expect("the plugin was asked something");
    calls.lines().filter(|line| line.starts_with("NodeGetVolumeStats")).count()
}

/// The row of the volume.
fn row(host: &Host, options: &[&str]) -> serde_json::Value {
    let words = [&["volumes", "list", "-o", "json"], options].concat();
    let rows: serde_json::Value = serde_json::from_str(&host.ctl(&words).ok().stdout).expect("JSON");
    rows[0].clone()
}

#[test]
fn statistics_of_a_plugin_are_listed_and_are_metrics() {
    let mut host = csi::host(&[("db", &csi::uses("data", ""))]);
    host.wait_all_up(&["plugin", "db"]);
    fs::write(host.path("plugin/capabilities"), "stage statistics condition").expect("the plugin's folder");
    assert!(row(&host, &[])["size"].is_null());
    assert_eq!(asked(&host), 0, "a list without statistics asks nobody");
    let full = row(&host, &["--statistics"]);
    let numbers = ["size", "used", "available", "inodes", "inodesUsed"].map(|key| full[key].as_u64());
    assert_eq!(numbers, [1000, 250, 700, 100, 10].map(Some), "{full}");
    assert!(full["condition"].is_null() && full["error"].is_null(), "{full}");
    let metrics = |host: &Host| host.ctl(&["metrics"]).ok().stdout;
    for _ in 0..3 {
        let metrics = metrics(&host);
        for line in [
            "kelson_volume_size_bytes{volume=\"data\",plugin=\"fault\"} 1000\n",
            "kelson_volume_available_bytes{volume=\"data\",plugin=\"fault\"} 700\n",
            "kelson_volume_inodes_used{volume=\"data\",plugin=\"fault\"} 10\n",
        ] {
            assert!(metrics.contains(line), "{line}{metrics}");
        }
        assert!(!metrics.contains("kelson_volume_abnormal{"), "{metrics}");
    }
    assert_eq!(asked(&host), 1, "the metrics reuse the answers that the list got");
    fs::write(host.path("plugin/condition"), "a disk is missing").expect("the plugin's folder");
    let table = host.ctl(&["volumes", "list", "--statistics"]).ok().stdout;
    assert!(table.contains("USE%") && table.contains("a disk is missing"), "{table}");
    assert!(metrics(&host).contains("kelson_volume_abnormal{volume=\"data\",plugin=\"fault\"} 1\n"));

    // A plugin that hangs is named, and holds up no scrape.
    csi::faults(&host, "NodeGetVolumeStats hang\n");
    let silent = row(&host, &["--statistics"]);
    assert_eq!(silent["error"], "NodeGetVolumeStats of plugin fault: no answer within 5 s");
    host.ctl(&["restart", "volumes"]).ok();
    let began = Instant::now();
    assert!(!metrics(&host).contains("kelson_volume_size_bytes{"));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());

    // Failed steps are counted.
    csi::faults(&host, "NodeUnpublishVolume code 14 2\n");
    host.ctl(&["stop", "db", "--wait"]).ok();
    let line = "kelson_volume_step_failures_total{plugin=\"fault\",step=\"NodeUnpublishVolume\"} 2\n";
    eventually("the count of failures", || metrics(&host).contains(line));
    host.poweroff();
}
