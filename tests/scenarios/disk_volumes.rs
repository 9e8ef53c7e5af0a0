//! Disks as volumes: shared by services, checked while nobody has them mounted, and free with the last of their users.

use std::fs;

use kelson_tests::{Host, LoopDisk, PATIENCE, process, until};

/// The file of a service with a volume of a disk at `/NAME` of its folder.
fn uses(steps: &str, name: &str, disk: &str, more: &str) -> String {
    let volume = format!("{{name: data, source: {{disk: {disk}}}, target: $DIR/{name}{more}}}");
    process(steps, &format!("restart: {{policy: once}}\nvolumes: [{volume}]"))
}

#[test]
fn services_share_a_disk_and_it_is_free_with_the_last_of_them() {
    let disk = LoopDisk::unclean("kelson-shared");
    let device = disk.device().display();
    let writes = "'touch=$DIR/writer/kept', print=end, serve";
    let reads = "'list=$DIR/reader', 'try=$DIR/reader/kept', print=end, serve";
    let mut host = Host::builder()
        .service(
            "writer",
            &uses(writes, "writer", &format!("{{device: {device}, options: [nobarrier]}}"), ""),
        )
        .service(
            "reader",
            &format!(
                "{}\nstart: manual\n",
                uses(reads, "reader", &format!("{{device: {device}, type: ext4}}"), ", readOnly: true")
            ),
        )
        .up(&["writer"]);
    host.wait_log("writer", "end");
    host.ctl(&["start", "reader", "--wait"]).ok();
    let log = host.wait_log("reader", "end");
    assert!(log.contains("kept") && log.contains("Read-only file system"), "{log}");
    // Neither the host nor another service sees it.
    let table = fs::read_to_string(format!("/proc/{}/mountinfo", host.init_pid())).expect("it runs");
    assert!(!table.contains(&device.to_string()), "{table}");
    host.ctl(&["restart", "reader", "--wait"]).ok();
    host.ctl(&["stop", "writer", "--wait"]).ok();
    assert!(!disk.is_free());
    let kept = host.path("reader/kept").display().to_string();
    host.wait_up("reader");
    host.ctl(&["exec", "reader", "--", "/bin/ls", &kept]).ok();
    host.ctl(&["stop", "reader", "--wait"]).ok();
    assert!(disk.is_free() && disk.is_clean());
    assert!(host.processes_with("kelson-task volumes").is_empty());
    host.poweroff();
}

#[test]
fn a_disk_stays_with_its_service_when_pid_1_starts_again() {
    let disk = LoopDisk::new("kelson-kept");
    let steps = "'touch=$DIR/data/kept', 'notify=READY=1', serve";
    let file = format!(
        "{}\nreadiness: notify\n",
        uses(steps, "data", &format!("{{device: {}}}", disk.device().display()), "")
    );
    let mut host = Host::builder().service("db", &file).up(&["db"]);
    let kept = host.path("data/kept").display().to_string();
    let look = || host.ctl(&["exec", "db", "--", "/bin/ls", &kept]).ok().stdout;
    look();
    host.ctl(&["reexec"]).ok();
    look();
    host.crash(|| host.signal(libc::SIGSEGV));
    look();
    assert!(!disk.is_free());
    host.ctl(&["stop", "db", "--wait"]).ok();
    until("the disk is free", PATIENCE, || disk.is_free().then_some(()));
    // A service that is killed leaves nothing either, and the next run has the disk again.
    host.ctl(&["start", "db", "--wait"]).ok();
    let pid = host.pid_of("db");
    host.kill(pid, libc::SIGKILL);
    host.wait_state("db", "failed");
    until("the disk is free", PATIENCE, || disk.is_free().then_some(()));
    host.ctl(&["start", "db", "--wait"]).ok();
    host.poweroff();
    assert!(disk.is_free() && disk.is_clean());
}

#[test]
fn a_disk_that_cannot_be_mounted_is_named() {
    let (torn, sound) = (LoopDisk::torn("kelson-torn"), LoopDisk::new("kelson-sound"));
    let (torn, sound) = (torn.device().display().to_string(), sound.device().display().to_string());
    let is_torn = format!("{torn}: it is not sound: ");
    let cases = [
        (
            "missing",
            "{device: LABEL=kelson-none, wait: 0s}".to_owned(),
            "no disk LABEL=kelson-none has come within 0 s: there is no such disk",
        ),
        ("torn", format!("{{device: '{torn}'}}"), &is_torn),
        (
            "other",
            format!("{{device: '{sound}', type: xfs}}"),
            "(not a xfs file system, or an option that it does not know)",
        ),
        ("option", format!("{{device: '{sound}', options: [sparkle]}}"), "option \"sparkle\""),
    ];
    let mut host = Host::builder().runs("plain", "serve").start();
    for (name, disk, _) in &cases {
        host.write_service(name, &uses("serve", "target", disk, ""));
    }
    host.ctl(&["reload"]).ok();
    for (name, _, why) in &cases {
        let failed = host.wait_state(name, "failed");
        let message = &failed.message;
        assert!(message.contains("volume data: ") && message.contains(why), "{name}: {message} is not {why}");
    }
    host.poweroff();
}
