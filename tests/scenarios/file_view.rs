//! Y1, the keys of a view of the file system: a process tries what each of them forbids, and what it leaves.

use std::fs;
use std::path::Path;

use kelson_tests::Host;

/// Folders `plain`, `ro`, `ro/rw` and `hidden` with a file each.
fn folders(dir: &Path) {
    for folder in ["plain", "ro", "ro/rw", "hidden"] {
        fs::create_dir_all(dir.join(folder)).expect("a folder");
        fs::write(dir.join(folder).join("file"), "text").expect("a file");
    }
}

/// The lines about paths of a log, without the folder of the test.
fn lines(host: &Host, name: &str) -> Vec<String> {
    let text = host.ctl(&["logs", name]).ok().stdout;
    let dir = format!("{}/", host.dir().display());
    text.lines().map(|line| line.replace(&dir, "")).collect()
}

const TRY: &str = "'try=$DIR/plain/file', 'try=$DIR/ro/file', 'try=$DIR/ro/rw/file', 'list=$DIR/hidden', \
                   'cat=$DIR/secret', print=end, serve";

#[test]
fn y1_paths_are_read_only_writable_or_hidden_for_one_service_alone() {
    let view = "security: {readOnlyPaths: [$DIR/ro], writablePaths: [$DIR/ro/rw, -$DIR/missing], \
                hiddenPaths: [$DIR/hidden, $DIR/secret]}";
    let mut host = Host::builder().runs("plain", "serve").start();
    folders(host.dir());
    fs::write(host.path("secret"), "the secret\n").expect("a file");
    let write = |name: &str, more: &str| {
        host.write_service(name, &format!("process: {{command: [$PROGRAM, {TRY}]}}\n{more}"));
    };
    write("open", "");
    write("view", view);
    write("strict", "oomScoreAdjust: 500\nsecurity: {readOnlyRoot: true, writablePaths: [$DIR/ro/rw]}");
    host.ctl(&["reload"]).ok();
    host.wait_all_up(&["open", "view", "strict"]);
    for name in ["open", "view", "strict"] {
        host.wait_log(name, "end");
    }
    let refused = "Read-only file system (os error 30)";
    let open =
        ["plain/file: written", "ro/file: written", "ro/rw/file: written", "file", "the secret", "end"];
    assert_eq!(lines(&host, "open"), open);
    let expected = [
        "plain/file: written".to_owned(),
        format!("ro/file: {refused}"),
        "ro/rw/file: written".to_owned(),
        "end".to_owned(),
    ];
    assert_eq!(lines(&host, "view"), expected);
    let strict = [
        format!("plain/file: {refused}"),
        format!("ro/file: {refused}"),
        "ro/rw/file: written".to_owned(),
        "file".to_owned(),
        "the secret".to_owned(),
        "end".to_owned(),
    ];
    assert_eq!(lines(&host, "strict"), strict);
    // A command beside the process sees what it sees, also in the next incarnations of PID 1.
    let hidden = host.path("hidden").display().to_string();
    let look = || host.ctl(&["exec", "view", "--", "/bin/ls", &hidden]).ok().stdout;
    assert_eq!(look(), "");
    host.ctl(&["reexec"]).ok();
    assert_eq!(look(), "");
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_eq!(look(), "");
    host.ctl(&["restart", "view", "--wait"]).ok();
    assert_eq!(look(), "");
    assert_eq!(host.service("view").restarts, 0);
    host.poweroff();
}

#[test]
fn y1_a_service_has_a_tmp_and_a_dev_of_its_own() {
    let mark = format!("/tmp/kelson-view-{}", std::process::id());
    fs::write(&mark, "").expect("a file of the host");
    let look = format!(
        "'try={mark}', 'list=/tmp', 'list=/dev', 'try=/dev/null', 'try=/dev/kelson', print=end, serve"
    );
    let mut host = Host::builder()
        .runs_with("web", &look, "security: {privateTmp: true, privateDevices: true}")
        .runs_with("missing", "serve", "security: {hiddenPaths: [/nowhere/at/all]}\nrestart: {policy: once}")
        .start();
    host.wait_log("web", "end");
    let said = lines(&host, "web");
    let name = mark.trim_start_matches("/tmp/");
    assert_eq!(
        said[..2],
        [format!("{mark}: written"), name.to_owned()],
        "its own /tmp has what it wrote alone"
    );
    assert!(said.contains(&"/dev/null: written".to_owned()), "{said:?}");
    assert!(said.contains(&"/dev/kelson: Read-only file system (os error 30)".to_owned()), "{said:?}");
    assert!(said.contains(&"ptmx".to_owned()) && !said.contains(&"mem".to_owned()), "{said:?}");
    assert!(!said.iter().any(|line| line.starts_with("vd") || line.starts_with("loop")), "{said:?}");
    fs::remove_file(&mark).expect("the host's file");
    // What is to be hidden and is not there is a mistake, unless the file says that it may be missing.
    let missing = host.wait_state("missing", "failed");
    assert!(missing.message.contains("/nowhere/at/all: No such file or directory"), "{}", missing.message);
    host.poweroff();
}

#[test]
fn y1_a_service_sees_paths_of_the_host_at_other_places() {
    let view = "bindPaths: [$DIR/plain:$DIR/ro/rw], bindReadOnlyPaths: [$DIR/secret:$DIR/new/deep/secret, -$DIR/none:$DIR/not, \
                $DIR/plain:$DIR/shown]";
    let look = "'try=$DIR/ro/rw/file', 'try=$DIR/ro/file', 'try=$DIR/shown/file', 'cat=$DIR/new/deep/secret', \
                'list=$DIR/shown', print=end, serve";
    let mut host = Host::builder().runs("plain", "serve").start();
    folders(host.dir());
    fs::write(host.path("secret"), "the secret\n").expect("a file");
    host.write_service(
        "web",
        &format!("process: {{command: [$PROGRAM, {look}]}}\nsecurity: {{readOnlyRoot: true, {view}}}"),
    );
    host.write_service(
        "missing",
        "process: {command: [/bin/true]}\nrestart: {policy: once}\nsecurity: {bindPaths: [$DIR/none:$DIR/not]}",
    );
    host.ctl(&["reload"]).ok();
    host.wait_log("web", "end");
    let refused = "Read-only file system (os error 30)";
    let expected = [
        "ro/rw/file: written".to_owned(),
        format!("ro/file: {refused}"),
        format!("shown/file: {refused}"),
        "the secret".to_owned(),
        "file".to_owned(),
        "end".to_owned(),
    ];
    assert_eq!(lines(&host, "web"), expected);
    let read = |name: &str| fs::read_to_string(host.path(name)).expect("a file");
    assert_ne!(read("plain/file"), "text", "it was written there");
    assert_eq!(read("ro/rw/file"), "text");
    assert!(!host.path("not").exists());
    assert_eq!(read("new/deep/secret"), "", "what was made for it");
    let missing = host.wait_state("missing", "failed");
    assert!(missing.message.contains("/none: No such file or directory"), "{}", missing.message);
    host.poweroff();
}
