//! What others have at the socket of the plugin, at the targets of volumes, and where volumes are staged and published.

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Disk, Vm, until};

use super::machine::{
    FOLDER, builder, go_on, hold, lie, listed, mounts, shell, user, wait_claims, wait_held,
};
use crate::{assert_clean, assert_order};

/// Where the other plugin would have its files.
const OTHER_FILES: &str = "/var/lib/other-volumes";

/// Returns the cause that `kelsonctl why` shows, once it has this text.
#[track_caller]
fn wait_cause(vm: &Vm, service: &str, text: &str) -> String {
    until(&format!("{service}: {text}"), BOOT_PATIENCE, || {
        Some(vm.ctl(&["why", service]).stdout).filter(|why| why.contains(text))
    })
}

/// Returns why a step with the volume failed, once it was tried this often.
#[track_caller]
fn wait_tries(vm: &Vm, volume: &str, tries: u64) -> String {
    until(&format!("{tries} tries with {volume}"), BOOT_PATIENCE, || {
        let rows = listed(vm);
        let row =
            rows.iter().find(|row| row["volume"] == volume && row["attempt"].as_u64() >= Some(tries))?;
        row["trouble"].as_str().map(str::to_owned)
    })
}

/// Another process has the name of the plugin's socket, and would answer.
#[track_caller]
fn take_socket(vm: &Vm) {
    let socket = format!("{FOLDER}/csi.sock");
    let before = shell(vm, &format!("stat -c %i {socket}"));
    vm.ctl(&["restart", "other"]).ok();
    shell(
        vm,
        &format!("until [ -S {socket} ] && [ $(stat -c %i {socket}) != {before} ]; do sleep 0.1; done"),
    );
}

#[track_caller]
fn socket_of_another_process_is_not_used(vm: &Vm) {
    const OWNER: &str = "(kelson-demo-loo) owns the socket and is none of the service";
    vm.ctl(&["start", "db"]).ok();
    vm.wait_up(&["db"]);
    // After the stop nobody else may take away what the plugin has to.
    take_socket(vm);
    vm.ctl(&["reexec"]).ok();
    let before = mounts(vm);
    vm.ctl(&["stop", "db", "--wait"]);
    let trouble = wait_tries(vm, "data", 1);
    assert!(trouble.contains(OWNER), "{trouble}");
    assert_eq!((before.len(), mounts(vm)), (2, before));
    vm.ctl(&["restart", "loop"]).ok();
    wait_claims(vm, &[]);

    take_socket(vm);
    vm.ctl(&["reexec"]).ok();
    vm.ctl(&["start", "db"]).ok();
    wait_cause(vm, "db", OWNER);
    assert!(mounts(vm).is_empty());
    assert_eq!(shell(vm, &format!("ls {OTHER_FILES}")), "", "it was never asked");
    vm.ctl(&["restart", "loop"]).ok();
    vm.wait_up(&["loop"]);
    vm.ctl(&["restart", "db"]).ok();
    vm.wait_up(&["db"]);
    vm.ctl(&["stop", "db", "other", "--wait"]).ok();
    wait_claims(vm, &[]);
}

#[track_caller]
fn targets_are_as_documented(vm: &Vm) {
    shell(vm, "cd /srv && mkdir real full && ln -s real link && touch file full/own");
    for (service, why) in [
        ("link", "cannot find its target /srv/link: there is a symbolic link in its path"),
        ("file", "its target /srv/file is a file, and it is a folder"),
    ] {
        vm.ctl(&["start", service]).ok();
        wait_cause(vm, service, &format!("volume data: {why}"));
        wait_claims(vm, &[]);
    }
    vm.ctl(&["start", "full", "nested"]).ok();
    vm.wait_up(&["full", "nested"]);
    let of_nested = [("nested", "data"), ("nested", "work")];
    wait_claims(vm, &[&[("full", "data")], &of_nested[..]].concat());
    let seen = |service: &str, path: &str| vm.ctl(&["exec", service, "--", "ls", path]).ok().stdout;
    assert_eq!(seen("full", "/srv/full"), "db\nfull\ninner\nlost+found\nnested\n");
    assert_eq!(seen("nested", "/srv/outer/inner"), "lost+found\nnested\n");
    vm.ctl(&["stop", "full", "nested", "--wait"]).ok();
    wait_claims(vm, &[]);
    // What was there before is there again, and nothing was written to it.
    assert_eq!(shell(vm, "cd /srv && ls real full outer"), "full:\nown\n\nouter:\n\nreal:");
}

#[track_caller]
fn what_is_published_elsewhere_and_what_others_have_is_kept(vm: &Vm) {
    let [target, stage] = [format!("{FOLDER}/published/db/data"), format!("{FOLDER}/staging/data")];
    let kept = || assert_eq!(vm.ctl(&["exec", "reader", "--", "cat", "/data/text"]).ok().stdout, "kept\n");
    vm.ctl(&["start", "db", "reader"]).ok();
    vm.wait_up(&["db", "reader"]);
    vm.ctl(&["exec", "db", "--", "sh", "-c", "echo kept >/data/text"]).ok();
    vm.ctl(&["stop", "db", "--wait"]).ok();
    wait_claims(vm, &[("reader", "data")]);
    kept();

    // The plugin ends between the effect and the answer.
    vm.ctl(&["start", "db"]).ok();
    vm.wait_up(&["db"]);
    hold(vm, "after umount *published/db/data");
    vm.ctl(&["stop", "db"]).ok();
    wait_held(vm);
    let plugin = vm.client().service("loop").pid.expect("it runs");
    shell(vm, &format!("kill -KILL {plugin}"));
    vm.client().wait_for("loop", "another process", BOOT_PATIENCE, |now| now.up && now.pid != Some(plugin));
    go_on(vm);
    wait_claims(vm, &[("reader", "data")]);
    kept();

    // Its tool does not unmount.
    vm.ctl(&["start", "db"]).ok();
    vm.wait_up(&["db"]);
    lie(vm, "umount *published/db/data");
    vm.ctl(&["stop", "db", "--wait"]);
    shell(vm, &format!("touch {target}/late"));
    let trouble = wait_tries(vm, "data", 2);
    assert!(trouble.contains("NodeUnpublishVolume"), "{trouble}");
    // Others mount something over it, and have a file in the folder below all that is mounted there.
    shell(vm, &format!("mount -t tmpfs none {target} && touch {target}/theirs"));
    shell(vm, &format!("mount --bind {FOLDER}/published/db /mnt && touch /mnt/data/theirs && umount /mnt"));
    wait_tries(vm, "data", 3);
    shell(vm, &format!("rm {target}/theirs && umount {target} && test -e {target}/late && umount {target}"));
    wait_tries(vm, "data", 4);
    shell(vm, &format!("rm /run/lie {target}/theirs"));
    wait_claims(vm, &[("reader", "data")]);
    kept();
    vm.ctl(&["exec", "reader", "--", "ls", "/data/late"]).ok();

    // It reports success, and has not unmounted the stage: that is tried again.
    lie(vm, "umount *staging/data/*");
    vm.ctl(&["stop", "reader", "--wait"]);
    let trouble = wait_tries(vm, "data", 2);
    assert!(trouble.contains("the plugin reports success, but"), "{trouble}");
    assert!(trouble.contains("is still mounted: it has to unmount it"), "{trouble}");
    shell(vm, &format!("test -e {stage}/*/text && rm /run/lie"));
    wait_claims(vm, &[]);
    shell(vm, &format!("test ! -e {stage}"));

    // What others have in the folder stays there, also when the volume is used again.
    for _ in 0..2 {
        vm.ctl(&["start", "reader"]).ok();
        vm.wait_up(&["reader"]);
        kept();
        hold(vm, "after umount *staging/data/*");
        vm.ctl(&["stop", "reader"]).ok();
        wait_held(vm);
        shell(vm, &format!("cd {stage}/* && touch theirs"));
        go_on(vm);
        wait_claims(vm, &[]);
        shell(vm, &format!("test -e {stage}/*/theirs"));
    }
}

#[test]
fn long_v14_v15_v16_what_others_have_is_neither_used_nor_removed() {
    let root = Disk::new("storage-others");
    let other = format!(
        "process: {{command: [$DIR/kelson-demo-loop-plugin]}}\nstart: manual\n\
         environment: {{LOOP_FOLDER: {OTHER_FILES}, CSI_ENDPOINT: 'unix://{FOLDER}/csi.sock'}}"
    );
    let mut builder = builder("storage-others", &root).service("other", &other);
    for (name, volumes) in [
        ("db", &[("data", "/data")][..]),
        ("reader", &[("data", "/data")]),
        ("link", &[("data", "/srv/link")]),
        ("file", &[("data", "/srv/file")]),
        ("full", &[("data", "/srv/full")]),
        ("nested", &[("work", "/srv/outer/inner"), ("data", "/srv/outer")]),
    ] {
        let once = if ["link", "file"].contains(&name) { "\nrestart: {policy: once}" } else { "" };
        builder = user(builder, name, volumes, &format!("start: manual{once}"));
    }
    let mut vm = builder.boot();
    vm.wait_up(&["loop", "look"]);
    for volume in ["data", "work"] {
        vm.ctl(&["volumes", "create", volume, "--size", "16Mi"]).ok();
    }
    socket_of_another_process_is_not_used(&vm);
    targets_are_as_documented(&vm);
    what_is_published_elsewhere_and_what_others_have_is_kept(&vm);
    vm.poweroff();
    assert_order(
        &vm.console(),
        &["of a volume that is not published any more is left as it is: directory not empty"; 2],
    );
    assert_clean(&root.0);
}
