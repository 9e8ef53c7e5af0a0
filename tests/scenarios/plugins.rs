//! A plugin for volumes: its folder, its socket, and the services that wait for it.

use std::fs;

use kelson_tests::Host;

const FOLDER: &str = "/run/kelson/csi/nfs";

/// It mounts something in its folder, and then answers as the file `says` has it.
const SCRIPT: &str = "cd /run/kelson/csi/nfs; for name in *; do echo found $name; done; echo at $CSI_ENDPOINT; mkdir -p made; \
     [ -e made/seen ] || mount -t tmpfs none made; touch made/seen; echo ready; exec $PROGRAM csi=csi.sock:$DIR/says";

/// The mounts that PID 1 sees at the folder of the plugin and in it.
fn mounts(host: &Host) -> Vec<String> {
    let table = fs::read_to_string(format!("/proc/{}/mountinfo", host.init_pid())).expect("it runs");
    let of_plugin = |line: &&str| line.split(' ').nth(4).is_some_and(|target| target.starts_with(FOLDER));
    table.lines().filter(of_plugin).map(str::to_owned).collect()
}

#[track_caller]
fn assert_shared_once(host: &Host) {
    let mounts = mounts(host);
    let [folder, made] = &mounts[..] else { panic!("{mounts:?}") };
    assert!(folder.contains(&format!(" {FOLDER} ")) && folder.contains(" shared:"), "{folder}");
    assert!(made.contains(&format!(" {FOLDER}/made ")), "{made}");
}

#[test]
fn the_folder_of_a_plugin_is_shared_and_has_no_stale_socket() {
    let plugin = format!(
        "process: {{command: [/bin/sh, -c, '{SCRIPT}']}}\nprovides: {{csi: {{id: nfs}}}}\nrestart: {{delay: 10ms}}\n"
    );
    let mut host = Host::builder().own_folder("/run").service("nfs", &plugin).up(&["nfs"]);
    assert_shared_once(&host);
    let first = host.log_text("nfs");
    assert!(first.contains("at unix:///run/kelson/csi/nfs/csi.sock\n"), "{first}");
    let socket = format!("/proc/{}/root{FOLDER}/csi.sock", host.init_pid());
    assert!(fs::metadata(&socket).is_ok() && !first.contains("found csi.sock"), "{first}");
    // It dies without a chance to remove its socket, under each incarnation of PID 1.
    for end in [
        |_: &Host| {},
        |host: &Host| drop(host.ctl(&["reexec"]).ok()),
        |host: &Host| {
            host.crash(|| host.signal(libc::SIGSEGV));
        },
    ] {
        end(&host);
        let before = host.service("nfs").pid;
        host.kill(host.pid_of("nfs"), libc::SIGKILL);
        host.wait_for("nfs", "the next run", |nfs| nfs.up && nfs.pid != before);
        assert_shared_once(&host);
    }
    let log = host.log_text("nfs");
    assert_eq!(log.matches("found made\n").count(), 3, "{log}");
    assert!(!log.contains("found csi.sock"), "{log}");
    host.poweroff();
}

#[test]
fn a_service_waits_for_the_plugin_of_its_volume() {
    let plugin = "process: {command: [$PROGRAM, 'csi=/run/kelson/csi/nfs/csi.sock:$DIR/says']}\n\
                  provides: {csi: {id: nfs, type: node}}\n";
    let mut host = Host::builder().own_folder("/run").runs("plain", "serve").start();
    fs::write(host.path("says"), "no").expect("the test's folder is writable");
    fs::create_dir(host.path("config/volumes")).expect("the test's folder is writable");
    fs::write(host.path("config/volumes/pictures.yaml"), "plugin: nfs\n").expect("a file");
    host.write_service("nfs", plugin);
    let volumes = "volumes: [{name: data, source: {csi: pictures}, target: $DIR/data}]\n";
    host.write_service("web", &kelson_tests::process("serve", volumes));
    host.ctl(&["reload"]).ok();
    let message = "running, waits for check csi: not ready yet";
    host.wait_for("nfs", message, |nfs| nfs.message == message);
    let waits = host.wait_state("web", "waiting");
    assert!(waits.message.contains("service \"nfs\" to be up"), "{}", waits.message);
    let why = host.ctl(&["why", "web"]).stdout;
    assert!(why.contains("nfs") && why.contains("not ready yet"), "{why}");
    // Without its file the service is faulty, and says so.
    fs::remove_file(host.path("config/volumes/pictures.yaml")).expect("it is there");
    host.write_service("more", &kelson_tests::process("serve", &volumes.replace("$DIR/data", "$DIR/more")));
    host.ctl(&["reload"]);
    let status = host.ctl(&["status", "more"]).stdout;
    assert!(status.contains("there is no file") && status.contains("volumes/pictures.yaml"), "{status}");
    host.poweroff();
}
