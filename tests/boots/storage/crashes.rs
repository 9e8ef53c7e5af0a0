//! PID 1, `kelson-volumes` and the plugin end while volumes are claimed and while they are released.

use std::time::Duration;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Disk, Service, Vm, until};
use serde_json::Value;

use super::machine::{builder, go_on, hold, shell, user, wait_claims, wait_held};
use crate::assert_clean;

/// Who ends, where the claim of `db` waits then, and where its release does. It publishes its first volume, whose stage is
/// there, and then stages and publishes the second one. PID 1 ends at each of these instants.
const ENDS: [(&[&str], &str, &str); 6] = [
    (&["init"], "after mount -o bind*published/db/data", "before umount *published/db/work"),
    (&["volumes"], "before losetup --find*work.img", "after umount *published/db/data"),
    (&["loop"], "after mount -t*staging/work/*", "after umount *staging/work/*"),
    (&["init"], "after mount -o bind*published/db/work", "after losetup --detach*"),
    (&["init"], "after mount -t*staging/work/*", "after umount *published/db/data"),
    (&["volumes", "loop", "init"], "before losetup --find*work.img", "after umount *staging/work/*"),
];

const READER: (&str, &str) = ("reader", "data");

/// Ends them at the same time, and returns once each is there again. `crashes`: of PID 1, with this one.
#[track_caller]
fn end(vm: &Vm, victims: &[&str], crashes: u32) {
    let pids = |services: &[Service]| {
        let of = |name: &&str| services.iter().find(|service| service.name == *name && service.up)?.pid;
        victims.iter().filter(|name| **name != "init").map(of).collect::<Option<Vec<_>>>()
    };
    let before = pids(&vm.services()).expect("they run");
    let kills: String = before.iter().map(|pid| format!("kill -KILL {pid}; ")).collect();
    let crash = if victims.contains(&"init") { "kill -SEGV 1" } else { "" };
    // The answer would come by PID 1, which may be gone before.
    vm.ctl(&["exec", "look", "--", "sh", "-c", &format!("{kills}{crash}")]);
    until(&format!("{victims:?} to be there again"), BOOT_PATIENCE, || {
        let answer = |command| Some(vm.ctl(&["-o", "json", command])).filter(|answer| answer.status == 0);
        let version: Value = answer("version")?.json();
        let now = pids(&answer("services")?.json::<Vec<Service>>())?;
        (version["server"]["crashes"] == crashes && now.iter().all(|pid| !before.contains(pid))).then_some(())
    });
}

#[test]
fn long_v11_what_is_claimed_stays_and_all_else_goes_whatever_ends_meanwhile() {
    let root = Disk::new("storage-crashes");
    let mut builder = builder("storage-crashes", &root)
        .append("kelson.crashLimit=100/1m")
        .longest(Duration::from_secs(1200));
    builder = user(builder, "reader", &[("data", "/data")], "start: manual");
    builder = user(builder, "db", &[("data", "/data"), ("work", "/work")], "start: manual");
    let mut vm = builder.boot();
    vm.wait_up(&["loop", "look"]);
    for volume in ["data", "work"] {
        vm.ctl(&["volumes", "create", volume, "--size", "16Mi"]).ok();
    }
    vm.ctl(&["start", "reader"]).ok();
    vm.wait_up(&["reader"]);
    wait_claims(&vm, &[READER]);
    let reader = vm.client().service("reader").pid.expect("it runs");
    // It sees what is there, through its own mount.
    let settled = |runs: usize, claims: &[(&str, &str)]| {
        wait_claims(&vm, claims);
        let seen = shell(&vm, &format!("cd /proc/{reader}/root/data && wc -l <reader && cat db | wc -l"));
        assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), ["1", &runs.to_string()]);
    };
    let (mut crashes, mut runs) = (0, 0);
    let mut end_at = |at: &str, command: &str, victims: &[&str]| {
        hold(&vm, at);
        vm.ctl(&[command, "db"]).ok();
        wait_held(&vm);
        println!("{at}: {victims:?}");
        crashes += u32::from(victims.contains(&"init"));
        end(&vm, victims, crashes);
    };
    for (victims, claim, release) in ENDS {
        end_at(claim, "start", victims);
        go_on(&vm);
        vm.wait_up(&["db"]);
        runs += 1;
        settled(runs, &[READER, ("db", "data"), ("db", "work")]);

        end_at(release, "stop", victims);
        go_on(&vm);
        settled(runs, &[READER]);
    }
    // The claim is given up before it is complete.
    end_at("after mount -t*staging/work/*", "start", &["volumes", "loop", "init"]);
    vm.ctl(&["stop", "db"]).ok();
    go_on(&vm);
    settled(runs, &[READER]);
    let after = vm.client().service("reader");
    assert_eq!((after.pid, after.restarts), (Some(reader), 0));
    vm.poweroff();
    assert_clean(&root.0);
}
