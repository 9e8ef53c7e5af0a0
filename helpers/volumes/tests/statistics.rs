//! How full volumes are: kelson-volumes asks a plugin, which may hang.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test may fail"
)]

mod host;

use std::fs;
use std::time::{Duration, Instant};

use host::{Helper, Host, alone};
use kelson_proto::v1::volumes_command::Command as Order;
use kelson_proto::v1::volumes_report::Report;
use kelson_proto::v1::{VolumeClaim, VolumeStatistics, VolumeStatisticsQuestion, VolumeUse};

#[test]
#[ignore = "not a test: the processes of the tests"]
fn personality() {
    host::personality();
}

/// What is answered of each volume.
fn ask(helper: &mut Helper, number: u64, age_ms: u32, within_ms: u32) -> Vec<Option<VolumeStatistics>> {
    helper.send(Order::Statistics(VolumeStatisticsQuestion { number, within_ms, age_ms }));
    helper.wait(|report| match report {
        Report::List(list) if list.number == number => {
            Some(list.volumes.iter().map(|volume| volume.statistics.clone()).collect())
        }
        _ => None,
    })
}

/// A host whose service has these volumes.
fn claimed(host: &mut Host, capabilities: &str, volumes: &[&str]) -> Helper {
    volumes.iter().for_each(|volume| host.volume(volume));
    host.capabilities(capabilities);
    let mut helper = host.helper();
    helper.send(host.claim("db", 1, volumes));
    assert_eq!(helper.claimed("db", 1), []);
    helper
}

fn asked(host: &Host) -> usize {
    let calls = fs::read_to_string(host.path("state/calls")).unwrap();
    calls.lines().filter(|line| line.starts_with("NodeGetVolumeStats")).count()
}

#[test]
fn a_plugin_says_how_full_its_volumes_are() {
    alone("a_plugin_says_how_full_its_volumes_are", || {
        let mut host = Host::new();
        let mut helper = claimed(&mut host, "stage statistics condition", &["data", "more"]);
        let expected = VolumeStatistics {
            size: 1000,
            used: 250,
            available: 700,
            inodes: 100,
            inodes_used: 10,
            ..VolumeStatistics::default()
        };
        assert_eq!(ask(&mut helper, 1, 0, 5000), [Some(expected.clone()), Some(expected.clone())]);
        // What is known is young enough, or is not.
        fs::write(host.path("state/condition"), "a disk\u{1b} of the mirror is missing").unwrap();
        assert_eq!(ask(&mut helper, 2, 600_000, 5000)[0], Some(expected.clone()));
        assert_eq!(asked(&host), 2);
        let condition = "a disk  of the mirror is missing".to_owned();
        let abnormal = VolumeStatistics { condition, ..expected.clone() };
        assert_eq!(ask(&mut helper, 3, 0, 5000)[1], Some(abnormal));
        // One that has no such condition may answer one all the same.
        host.capabilities("stage statistics");
        assert_eq!(ask(&mut helper, 4, 0, 5000)[0], Some(expected));
        assert_eq!(helper.release("db", 1), []);
        assert!(ask(&mut helper, 5, 0, 5000).iter().all(Option::is_none), "nothing is published");
    });
}

#[test]
fn the_file_system_answers_where_the_plugin_cannot() {
    alone("the_file_system_answers_where_the_plugin_cannot", || {
        let mut host = Host::new();
        let mut helper = claimed(&mut host, "stage", &["data"]);
        let block = VolumeUse { attachment: "block".to_owned(), ..host.volume_use("raw", "disk") };
        host.volume("disk");
        helper.send(Order::Claim(VolumeClaim { service: "raw".to_owned(), number: 1, volumes: vec![block] }));
        assert_eq!(helper.claimed("raw", 1), []);
        let found = ask(&mut helper, 1, 0, 5000);
        let file_system = found[0].clone().unwrap();
        assert!(file_system.size > 0 && file_system.used <= file_system.size, "{file_system:?}");
        assert_eq!((file_system.error, asked(&host)), (String::new(), 0));
        let error = found[1].clone().unwrap().error;
        let expected = "NodeGetVolumeStats of plugin fault: it does not have GET_VOLUME_STATS, and the volume is a device";
        assert_eq!(error, expected);
    });
}

#[test]
fn a_plugin_that_hangs_is_named_and_delays_no_other() {
    alone("a_plugin_that_hangs_is_named_and_delays_no_other", || {
        let mut host = Host::new();
        let mut helper = claimed(&mut host, "stage statistics", &["data"]);
        host.faults("NodeGetVolumeStats hang\n");
        let began = Instant::now();
        // Who cannot wait for so long gets what there is.
        assert_eq!(ask(&mut helper, 1, 0, 50), [None]);
        assert!(began.elapsed() < Duration::from_millis(600), "{:?}", began.elapsed());
        let silent = ask(&mut helper, 2, 0, 60_000).remove(0).unwrap();
        assert_eq!(silent.error, "NodeGetVolumeStats of plugin fault: no answer within 700 ms");
        assert_eq!(asked(&host), 1, "it is asked once for both");
        // Steps do not wait for it.
        assert_eq!(helper.release("db", 1), []);
        host.faults("");
        // One that is not there at all is named too.
        helper.send(host.claim("db", 2, &["data"]));
        assert_eq!(helper.claimed("db", 2), []);
        host.end_plugins();
        let gone = ask(&mut helper, 3, 0, 60_000).remove(0).unwrap();
        assert!(gone.error.starts_with("NodeGetCapabilities of plugin fault: "), "{gone:?}");
    });
}
