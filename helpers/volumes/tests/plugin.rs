//! Tests kelson-volumes against a plugin that binds folders for real, and has faults on demand.

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

use host::{Host, alone, until};
use kelson_proto::v1::volumes_command::Command as Order;
use kelson_proto::v1::volumes_report::Report;
use kelson_proto::v1::{VolumeClaim, VolumeFlags, VolumePlugin, VolumeUse};

#[test]
#[ignore = "not a test: the processes of the tests"]
fn personality() {
    host::personality();
}

#[test]
fn a_volume_is_published_and_undone() {
    alone("a_volume_is_published_and_undone", || {
        let mut host = Host::new();
        host.volume("data");
        let mut helper = host.helper();
        helper.send(host.claim("db", 1, &["data"]));
        assert_eq!(helper.claimed("db", 1), []);
        fs::write(host.target("db", "data").join("file"), "1").unwrap();
        assert_eq!(fs::read_to_string(host.path("state/volumes/id-data/file")).unwrap(), "1");
        assert_eq!(host.mounts().len(), 2);
        assert!(host.records().contains("id-data") && !host.records().contains("hunter2"));

        assert_eq!(helper.release("db", 1), []);
        assert!(host.mounts().is_empty() && !host.target("db", "data").exists());
        assert_eq!(fs::read_to_string(host.path("state/volumes/id-data/file")).unwrap(), "1");
        until(|| host.records().is_empty());
        assert!(!host.path("csi/fault/staging/data").exists());
        let steps = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"];
        assert_eq!(helper.steps(), steps.map(|step| format!("{step} data")));
    });
}

#[test]
fn services_with_the_same_usage_share_a_stage() {
    alone("services_with_the_same_usage_share_a_stage", || {
        let mut host = Host::new();
        host.volume("data");
        let mut helper = host.helper();
        for (service, number) in [("a", 1), ("b", 1)] {
            helper.send(host.claim(service, number, &["data"]));
            assert_eq!(helper.claimed(service, number), []);
        }
        assert_eq!((host.count("NodeStageVolume"), host.count("NodePublishVolume")), (1, 2));
        assert_eq!(helper.release("a", 1), []);
        assert_eq!((host.count("NodeUnpublishVolume"), host.count("NodeUnstageVolume")), (1, 0));
        assert_eq!(host.mounts().len(), 2);
        // Another usage has a stage of its own.
        let other = VolumeUse { read_only: true, ..host.volume_use("c", "data") };
        let flags = VolumeFlags { flags: vec!["noatime".to_owned()] };
        let third = VolumeUse { mount_flags: Some(flags), ..host.volume_use("d", "data") };
        for (service, one) in [("c", other), ("d", third)] {
            helper.send(Order::Claim(VolumeClaim {
                service: service.to_owned(),
                number: 1,
                volumes: vec![one],
            }));
            assert_eq!(helper.claimed(service, 1), []);
        }
        assert_eq!((host.count("NodeStageVolume"), host.mounts().len()), (3, 6));
        assert!(fs::write(host.target("c", "data").join("file"), "1").is_err(), "it is read-only");
        for service in ["b", "c", "d"] {
            assert_eq!(helper.release(service, 1), []);
        }
        assert_eq!((host.count("NodeUnstageVolume"), host.mounts().len()), (3, 0));
    });
}

#[test]
fn a_step_that_fails_undoes_those_before_it() {
    alone("a_step_that_fails_undoes_those_before_it", || {
        let mut host = Host::new();
        ["one", "two", "three", "four"].iter().for_each(|volume| host.volume(volume));
        let mut helper = host.helper();
        helper.send(host.claim("db", 1, &["one", "two"]));
        assert_eq!(helper.claimed("db", 1), []);
        // The stage of the third fails with a final code, and so does each unpublish of those before it.
        host.faults("NodeStageVolume code 3 1\nNodeUnpublishVolume code 13\n");
        helper.send(host.claim("db", 2, &["one", "two", "three", "four"]));
        let failures = helper.claimed("db", 2);
        let texts: Vec<String> = failures
            .iter()
            .map(|step| format!("{} {} {}: {}", step.volume, step.volume_id, step.step, step.failure))
            .collect();
        assert_eq!(texts[0], "three id-three NodeStageVolume: INVALID_ARGUMENT: the test wants it so");
        for text in &texts[1..] {
            assert!(text.ends_with("NodeUnpublishVolume: INTERNAL: the test wants it so"), "{texts:?}");
        }
        assert_eq!(texts.len(), 3);
        assert_eq!(host.calls().iter().filter(|call| call.ends_with("id-four")).count(), 0);
        // The helper continues to try what failed.
        host.faults("");
        until(|| host.mounts().is_empty() && host.records().is_empty());
        let order: Vec<String> = host.calls().into_iter().filter(|call| call.ends_with("id-one")).collect();
        assert_eq!(order.last().unwrap(), "NodeUnstageVolume id-one");
    });
}

#[test]
fn codes_that_pass_are_tried_again_and_the_others_are_not() {
    alone("codes_that_pass_are_tried_again_and_the_others_are_not", || {
        let mut host = Host::new();
        host.volume("data");
        host.faults("NodeStageVolume code 14 2\nNodePublishVolume code 10 1\nNodePublishVolume code 8 1\n");
        let mut helper = host.helper();
        helper.send(host.claim("db", 1, &["data"]));
        assert_eq!(helper.claimed("db", 1), []);
        assert_eq!((host.count("NodeStageVolume"), host.count("NodePublishVolume")), (3, 3));
        let again: Vec<(String, u32, bool)> = helper
            .reports
            .iter()
            .filter_map(|report| match report {
                Report::Step(step) => Some((step.step.clone(), step.attempt, step.again_ms.is_some())),
                _ => None,
            })
            .collect();
        let is = |step: &str, attempt, again| (step.to_owned(), attempt, again);
        assert_eq!(
            again[..3],
            [is("NodeStageVolume", 1, true), is("NodeStageVolume", 2, true), is("NodeStageVolume", 3, false),]
        );
        assert_eq!(helper.release("db", 1), []);
        // What is not there is undone.
        host.faults("NodePublishVolume code 7 1\nNodeUnpublishVolume code 5 1\n");
        helper.send(host.claim("db", 2, &["data"]));
        let failures = helper.claimed("db", 2);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(failures[0].failure, "PERMISSION_DENIED: the test wants it so");
        until(|| host.records().is_empty());
    });
}

#[test]
fn a_plugin_that_hangs_is_named_within_the_deadline() {
    alone("a_plugin_that_hangs_is_named_within_the_deadline", || {
        let mut host = Host::new();
        host.volume("data");
        let mut helper = host.helper();
        helper.send(host.claim("db", 1, &["data"]));
        assert_eq!(helper.claimed("db", 1), []);
        host.faults("NodeUnpublishVolume hang\n");
        let begin = Instant::now();
        let failures = helper.release("db", 1);
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        let [failure] = &failures[..] else { panic!("{failures:?}") };
        let named = (failure.plugin.as_str(), failure.step.as_str(), failure.failure.as_str());
        assert_eq!(named, ("fault", "NodeUnpublishVolume", "no answer within 700 ms"));
        assert!(failure.again_ms.is_some());
        // Not before it is unpublished.
        assert_eq!(host.count("NodeUnstageVolume"), 0);
        host.faults("");
        until(|| host.mounts().is_empty() && host.records().is_empty());

        // A release ends a claim that hangs.
        host.faults("NodeStageVolume hang\n");
        let before = host.count("NodeStageVolume");
        helper.send(host.claim("db", 2, &["data"]));
        until(|| host.count("NodeStageVolume") > before);
        assert_eq!(helper.release("db", 2), []);
        until(|| host.records().is_empty());
    });
}

#[test]
fn a_plugin_that_ends_between_effect_and_answer_is_asked_again() {
    alone("a_plugin_that_ends_between_effect_and_answer_is_asked_again", || {
        let mut host = Host::new();
        host.volume("data");
        host.faults("NodePublishVolume die-after 1\nNodeUnpublishVolume die-after 1\n");
        let mut helper = host.helper();
        helper.send(host.claim("db", 1, &["data"]));
        until(|| host.count("NodePublishVolume") == 1);
        host.end_plugins();
        host.start_plugin();
        assert_eq!(helper.claimed("db", 1), []);
        assert_eq!((host.count("NodePublishVolume"), host.mounts().len()), (2, 2));
        let failures = helper.release("db", 1);
        assert!(failures[0].failure.starts_with("the connection broke before the answer"), "{failures:?}");
        host.end_plugins();
        host.start_plugin();
        until(|| host.mounts().is_empty() && host.records().is_empty());
    });
}

#[test]
fn a_new_helper_goes_on_with_the_records() {
    alone("a_new_helper_goes_on_with_the_records", || {
        let mut host = Host::new();
        ["one", "two"].iter().for_each(|volume| host.volume(volume));
        let mut helper = host.helper();
        for (service, volume) in [("a", "one"), ("b", "two")] {
            helper.send(host.claim(service, 1, &[volume]));
            assert_eq!(helper.claimed(service, 1), []);
        }
        // Until its last record is written.
        until(|| host.records().matches("\"done\": true").count() == 2);
        drop(helper);
        let calls = host.calls().len();
        let mut helper = host.start_helper();
        helper.send(Order::Plugin(host.plugin()));
        helper.send(host.claim("a", 1, &["one"]));
        // It is there: the plugin is not asked.
        assert_eq!(helper.claimed("a", 1), []);
        assert_eq!(host.calls().len(), calls);
        assert_eq!(host.mounts().len(), 4);
        // The claim of b is not sent.
        helper.send(Order::Complete(true));
        until(|| host.mounts().len() == 2);
        assert!(host.target("a", "one").exists());
        assert_eq!(helper.release("a", 1), []);
        until(|| host.mounts().is_empty() && host.records().is_empty());
    });
}

#[test]
fn a_release_that_a_new_incarnation_asks_for_is_answered_once_all_was_tried() {
    alone("a_release_that_a_new_incarnation_asks_for_is_answered_once_all_was_tried", || {
        let mut host = Host::new();
        host.volume("data");
        let mut helper = host.helper();
        let claimed = |helper: &mut host::Helper, host: &Host, number| {
            helper.send(host.claim("db", number, &["data"]));
            assert_eq!(helper.claimed("db", number), []);
        };
        let released = |helper: &mut host::Helper, host: &Host, number| {
            helper.send(Order::Complete(false));
            helper.send(Order::Plugin(host.plugin()));
            let Order::Claim(claim) = host.claim("db", number, &["data"]) else { panic!("no claim") };
            helper.send(Order::Release(claim));
            helper.send(Order::Complete(true));
            helper.released("db", number)
        };
        claimed(&mut helper, &host, 1);
        // It took the helper over.
        assert_eq!(released(&mut helper, &host, 2), []);
        assert!(host.mounts().is_empty());
        claimed(&mut helper, &host, 3);
        drop(helper);
        let mut helper = host.start_helper();
        assert_eq!(released(&mut helper, &host, 4), []);
        assert!(host.mounts().is_empty());
        // Of the records, none but the stage is left.
        claimed(&mut helper, &host, 5);
        host.faults("NodeUnstageVolume code 13\n");
        assert_eq!(helper.release("db", 5).len(), 1);
        drop(helper);
        let mut helper = host.start_helper();
        let failures = released(&mut helper, &host, 6);
        assert_eq!(failures.iter().map(|step| step.step.as_str()).collect::<Vec<_>>(), ["NodeUnstageVolume"]);
        host.faults("");
        until(|| host.mounts().is_empty() && host.records().is_empty());
    });
}

#[test]
fn a_volume_whose_plugin_is_absent_waits_and_names_it() {
    alone("a_volume_whose_plugin_is_absent_waits_and_names_it", || {
        let mut host = Host::new();
        host.volume("data");
        let mut helper = host.start_helper();
        helper.send(Order::Complete(true));
        helper.send(host.claim("db", 1, &["data"]));
        let first = helper.wait(|report| match report {
            Report::Step(step) => Some(step.failure.clone()),
            _ => None,
        });
        assert_eq!(first, "no service of this host provides the plugin \"fault\" now");
        host.start_plugin();
        helper.send(Order::Plugin(host.plugin()));
        assert_eq!(helper.claimed("db", 1), []);
        assert_eq!(helper.release("db", 1), []);
        // A socket without a process has the error of the system.
        host.end_plugins();
        helper.send(host.claim("db", 2, &["data"]));
        let failures = helper.claimed("db", 2);
        let text = &failures[0].failure;
        assert!(text.ends_with("csi.sock of the service fault-plugin: connection refused"), "{text}");
        assert!(host.records().is_empty(), "the plugin was not reached");
    });
}

#[test]
fn a_socket_of_another_process_is_not_used() {
    alone("a_socket_of_another_process_is_not_used", || {
        let mut host = Host::new();
        host.volume("data");
        host.start_plugin();
        let mut helper = host.start_helper();
        let cgroup = "/kelson/services/fault-plugin".to_owned();
        helper.send(Order::Plugin(VolumePlugin { cgroup, ..host.plugin() }));
        helper.send(Order::Complete(true));
        helper.send(host.claim("db", 1, &["data"]));
        let failures = helper.claimed("db", 1);
        let text = &failures[0].failure;
        assert!(text.contains("owns the socket and is none of the service, whose cgroup is"), "{text}");
        assert!(text.contains("process ") && text.contains("(plugin"), "{text}");
        assert!(host.calls().is_empty());
        // The root of all cgroups has each process.
        helper.send(Order::Plugin(VolumePlugin { cgroup: "/".to_owned(), ..host.plugin() }));
        helper.send(host.claim("db", 2, &["data"]));
        assert_eq!(helper.claimed("db", 2), []);
    });
}

#[test]
fn data_survives_a_plugin_that_lies() {
    alone("data_survives_a_plugin_that_lies", || {
        let mut host = Host::new();
        host.volume("data");
        let mut helper = host.helper();
        for service in ["a", "b"] {
            helper.send(host.claim(service, 1, &["data"]));
            assert_eq!(helper.claimed(service, 1), []);
        }
        let file = host.path("state/volumes/id-data/file");
        fs::write(host.target("a", "data").join("file"), "1").unwrap();
        // It says that the volume is not there, and has not unmounted it.
        host.faults("NodeUnpublishVolume code 5 1\n");
        let failures = helper.release("a", 1);
        assert!(failures[0].failure.contains("is still mounted"), "{failures:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        until(|| !host.target("a", "data").exists());
        assert_eq!(fs::read_to_string(host.target("b", "data").join("file")).unwrap(), "1");
        assert_eq!(helper.release("b", 1), []);
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        // What is in a target that nothing is mounted at is somebody's.
        helper.send(host.claim("c", 1, &["data"]));
        assert_eq!(helper.claimed("c", 1), []);
        let status = std::process::Command::new("umount").arg(host.target("c", "data")).status().unwrap();
        assert!(status.success());
        fs::write(host.target("c", "data").join("own"), "2").unwrap();
        assert_eq!(helper.release("c", 1), []);
        assert_eq!(fs::read_to_string(host.target("c", "data").join("own")).unwrap(), "2");
        let is_noted =
            |report: &Report| matches!(report, Report::Trouble(text) if text.contains("left as it is"));
        assert!(helper.reports.iter().any(is_noted));
    });
}

#[test]
fn a_controller_attaches_and_a_block_device_is_published() {
    alone("a_controller_attaches_and_a_block_device_is_published", || {
        let mut host = Host::new();
        host.volume("disk");
        host.capabilities("stage attach");
        let mut helper = host.helper();
        let disk = VolumeUse { attachment: "block".to_owned(), ..host.volume_use("db", "disk") };
        let claim = VolumeClaim { service: "db".to_owned(), number: 1, volumes: vec![disk] };
        helper.send(Order::Claim(claim.clone()));
        assert_eq!(helper.claimed("db", 1), []);
        let calls = ["ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"];
        assert_eq!(host.calls(), calls.map(|call| format!("{call} id-disk")));
        // The context of the controller is in no record: it is asked again.
        until(|| host.records().contains("\"done\": true"));
        drop(helper);
        let mut helper = host.start_helper();
        helper.send(Order::Plugin(host.plugin()));
        helper.send(Order::Claim(claim));
        helper.send(host.claim("other", 1, &["disk"]));
        helper.send(Order::Complete(true));
        assert_eq!((helper.claimed("db", 1), helper.claimed("other", 1)), (vec![], vec![]));
        assert_eq!(host.count("ControllerPublishVolume"), 2);
        assert_eq!((helper.release("other", 1), helper.release("db", 1)), (vec![], vec![]));
        let last = host.calls().last().cloned();
        assert_eq!(last.as_deref(), Some("ControllerUnpublishVolume id-disk"));
        until(|| host.records().is_empty());
    });
}

#[test]
fn volumes_and_providers_are_listed() {
    alone("volumes_and_providers_are_listed", || {
        let mut host = Host::new();
        host.volume("data");
        let mut helper = host.helper();
        for index in 0..40 {
            let service = format!("service-{index}");
            helper.send(host.claim(&service, 1, &["data"]));
            assert_eq!(helper.claimed(&service, 1), []);
        }
        helper.send(Order::List(7));
        let (mut users, mut parts) = (Vec::new(), 0);
        while helper.wait(|report| match report {
            Report::List(list) if list.number == 7 => {
                parts += 1;
                let stages = list.volumes.iter().flat_map(|volume| &volume.stages);
                users.extend(stages.flat_map(|stage| stage.users.clone()));
                Some(list.more)
            }
            _ => None,
        }) {}
        assert!(users.len() == 40 && users.iter().all(|user| user.published && user.trouble.is_empty()));
        let silent = VolumePlugin { id: "silent".to_owned(), socket: "/nowhere".to_owned(), ..host.plugin() };
        helper.send(Order::Plugin(silent));
        helper.send(Order::Providers(8));
        let providers = helper.wait(|report| match report {
            Report::Providers(list) if list.number == 8 => Some(list.providers.clone()),
            _ => None,
        });
        let [fault, silent] = &providers[..] else { panic!("{providers:?}") };
        assert!(fault.serves && fault.error.is_empty() && fault.name == "fault.kelson.test");
        assert_eq!(fault.capabilities, ["STAGE_UNSTAGE_VOLUME"]);
        assert_eq!((fault.node_id.as_str(), fault.most_volumes), ("node-1", 7));
        assert!(!silent.serves && silent.error.contains("no such file or directory"), "{silent:?}");
    });
}

#[test]
#[ignore = "a measurement"]
fn the_time_of_1000_volumes() {
    alone("the_time_of_1000_volumes", || {
        const COUNT: u32 = 1000;
        let mut host = Host::new();
        (0..COUNT).for_each(|index| host.volume(&format!("v{index}")));
        host.start_plugin();
        let mut helper = host.start_helper_with("usual");
        helper.send(Order::Plugin(host.plugin()));
        helper.send(Order::Complete(true));
        let begin = Instant::now();
        for index in 0..COUNT {
            let service = format!("s{index}");
            helper.send(host.claim(&service, 1, &[&format!("v{index}")]));
        }
        let mut left = COUNT;
        while left > 0 {
            left -= helper.wait(|report| match report {
                Report::Claimed(claimed) => Some(u32::from(claimed.failures.is_empty())),
                _ => None,
            });
        }
        let (all, own) = (begin.elapsed() / COUNT, helper.computed() / COUNT);
        let plugin = host.computed_by_plugin() / COUNT;
        println!("a volume takes {all:?}; the plugin computes {plugin:?} of it, and the helper {own:?}");
        assert_eq!(host.mounts().len(), 2000);
    });
}
