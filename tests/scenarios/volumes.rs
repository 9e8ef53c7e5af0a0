//! Volumes of a service: seen by its processes alone, in the order of their targets, and gone with it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use kelson_tests::{Host, PATIENCE, process, until};

/// The lines of a log, without the folder of the test.
fn lines(host: &Host, name: &str) -> Vec<String> {
    let text = host.ctl(&["logs", name]).ok().stdout;
    let dir = format!("{}/", host.dir().display());
    text.lines().map(|line| line.replace(&dir, "")).collect()
}

/// Owner, group and permissions.
#[track_caller]
fn owner(path: &Path) -> (u32, u32, u32) {
    let found = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

/// How many mounts of the host are below the folder of the test.
fn mounts(host: &Host) -> usize {
    let table = fs::read_to_string(format!("/proc/{}/mountinfo", host.init_pid())).expect("it runs");
    table.lines().filter(|line| line.contains(&host.dir().display().to_string())).count()
}

#[test]
fn a_process_sees_its_volumes_in_the_order_of_their_targets() {
    // The inner one stands before the outer one, in which its target is made.
    let volumes = "user: '1234:1235'\nvolumes:\n\
        - {name: cache, source: {tmpfs: {size: 1Mi, mode: '0700'}}, target: $DIR/seen/data/cache, options: [noexec]}\n\
        - {name: data, source: {path: $DIR/host/data, create: {mode: '0750'}}, target: $DIR/seen/data}\n\
        - {name: shown, source: {path: $DIR/shown}, target: $DIR/seen/shown, readOnly: true}\n\
        - {name: file, source: {path: $DIR/shown/file}, target: $DIR/seen/file}\n";
    let steps = "'owner=$DIR/seen/data', 'owner=$DIR/seen/data/cache', 'touch=$DIR/seen/data/kept', \
                 'touch=$DIR/seen/data/cache/lost', 'try=$DIR/seen/shown/file', 'cat=$DIR/seen/file', \
                 'list=$DIR/seen/data/cache', print=end, serve";
    let mut host = Host::builder().runs("plain", "serve").start();
    fs::create_dir(host.path("shown")).expect("a folder");
    fs::write(host.path("shown/file"), "text\n").expect("a file");
    let before = mounts(&host);
    host.write_service("web", &process(steps, volumes));
    host.ctl(&["reload"]).ok();
    host.wait_log("web", "end");
    let expected = [
        "owner seen/data 1234:1235 750",
        "owner seen/data/cache 1234:1235 700",
        "seen/shown/file: Read-only file system (os error 30)",
        "text",
        "lost",
        "end",
    ];
    let said: Vec<String> =
        lines(&host, "web").iter().map(|line| line.replace("owner /", "owner ")).collect();
    assert_eq!(said, expected);
    // What the service wrote is at the source; the host's targets are empty, and nothing of it is mounted there.
    assert_eq!(owner(&host.path("host/data")), (1234, 1235, 0o750));
    assert!(host.path("host/data/kept").exists() && host.path("host/data/cache").is_dir());
    assert_eq!(fs::read_dir(host.path("seen/data")).expect("a folder").count(), 0);
    assert_eq!(mounts(&host), before);
    // A command beside it sees what it sees, also in the next incarnations of PID 1.
    let cache = host.path("seen/data/cache").display().to_string();
    let look = || host.ctl(&["exec", "web", "--", "/bin/ls", &cache]).ok().stdout;
    assert_eq!(look(), "lost\n");
    host.ctl(&["reexec"]).ok();
    assert_eq!(look(), "lost\n");
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_eq!(look(), "lost\n");
    // A source that is there stays as it is.
    fs::set_permissions(host.path("host/data"), fs::Permissions::from_mode(0o705))
        .expect("its owner is root");
    host.ctl(&["restart", "web", "--wait"]).ok();
    assert_eq!(owner(&host.path("host/data")), (1234, 1235, 0o705));
    let status = host.ctl(&["status", "web"]).ok().stdout;
    assert!(status.contains("volumes"), "{status}");
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(host.path("host/data/kept").exists(), "what it keeps is kept");
    assert_eq!(mounts(&host), before);
    host.poweroff();
}

#[test]
fn v15_a_volume_that_is_the_cause_is_named() {
    let volume = |source: &str, target: &str| {
        let volume = format!("{{name: data, source: {source}, target: '{target}'}}");
        process("serve", &format!("restart: {{policy: once}}\nvolumes: [{volume}]"))
    };
    let mut host = Host::builder().runs("plain", "serve").start();
    for folder in ["source", "real", "full"] {
        fs::create_dir(host.path(folder)).expect("a folder");
    }
    for file in ["file", "full/file", "source/file"] {
        fs::write(host.path(file), "").expect("a file");
    }
    symlink(host.path("real"), host.path("link")).expect("a link");
    let link = "there is a symbolic link in its path; write the path that it leads to";
    let cases = [
        (
            "missing",
            "{path: $DIR/none}",
            "$DIR/t",
            "$DIR/none: it is not there; make it, or write create: {} in its source",
        ),
        ("link", "{path: $DIR/source}", "$DIR/link", &format!("cannot find its target $DIR/link: {link}")),
        ("above", "{tmpfs: {}}", "$DIR/link/t", &format!("cannot find its target $DIR/link/t: {link}")),
        (
            "made",
            "{path: $DIR/link/new, create: {}}",
            "$DIR/t",
            "$DIR/link/new: cannot make it: there is a symbolic link in its path, and Kelson makes nothing through one",
        ),
        (
            "layer",
            "{overlay: {lower: [$DIR/source, $DIR/none]}}",
            "$DIR/t",
            "$DIR/none: No such file or directory",
        ),
        (
            "over",
            "{overlay: {lower: [$DIR/source]}}",
            "$DIR/file",
            "its target $DIR/file is a file, and it is a folder",
        ),
        (
            "through",
            "{overlay: {lower: [$DIR/source]}}",
            "$DIR/link",
            &format!("cannot find its target $DIR/link: {link}"),
        ),
        ("folder", "{path: $DIR/source}", "$DIR/file", "its target $DIR/file is a file, and it is a folder"),
        (
            "file",
            "{path: $DIR/source/file}",
            "$DIR/full",
            "its target $DIR/full is a folder, and it is a file",
        ),
    ];
    for (name, source, target, _) in &cases {
        host.write_service(name, &volume(source, target));
    }
    // One that hides what is at its target is right.
    host.write_service("hides", &volume("{path: $DIR/source}", "$DIR/full"));
    host.ctl(&["reload"]).ok();
    for (name, _, _, why) in &cases {
        let why = format!("volume data: {}", why.replace("$DIR", &host.dir().display().to_string()));
        let failed = host.wait_state(name, "failed");
        assert!(failed.message.contains(&why), "{name}: {} is not {why}", failed.message);
        for command in ["status", "why"] {
            let text = host.ctl(&[command, name]).stdout;
            assert!(text.contains(&why), "{command} {name}: {text}");
        }
    }
    host.wait_up("hides");
    assert_eq!(fs::read_dir(host.path("real")).expect("a folder").count(), 0);
    assert!(host.path("full/file").exists());
    host.poweroff();
}

#[test]
fn volumes_stay_writable_and_inexecutable_in_a_confined_view() {
    let view = "security: {readOnlyRoot: true, privateTmp: true, noExecPaths: [/], \
                execPaths: [/usr, /bin, /lib, /lib64, $PROGRAM]}\nvolumes:\n\
                - {name: data, source: {path: $DIR/data, create: {}}, target: /tmp/kelson-volume}\n\
                - {name: memory, source: {tmpfs: {}}, target: $DIR/memory}\n";
    let mut host = Host::builder().runs("plain", "serve").start();
    let script = "cp /bin/true /tmp/kelson-volume/true; cp /bin/true $DIR/memory/true; /tmp/kelson-volume/true || echo no; \
                  $DIR/memory/true || echo no; touch /usr/kelson-x || echo closed; echo end; exec sleep 77400";
    host.write_service("web", &format!("process: {{command: [/bin/sh, -c, '{script}']}}\n{view}"));
    host.ctl(&["reload"]).ok();
    host.wait_log("web", "end");
    let said = lines(&host, "web");
    let said: Vec<&String> = said.iter().filter(|line| !line.contains(':')).collect();
    assert_eq!(said, ["no", "no", "closed", "end"]);
    assert!(host.path("data/true").exists());
    assert!(!Path::new("/tmp/kelson-volume").exists(), "its target was made in its own /tmp");
    host.poweroff();
}

#[test]
fn what_is_written_to_an_overlay_goes_to_its_upper_folder_or_is_gone() {
    let volume = |name: &str, more: &str| {
        format!(
            "user: '1234:1235'\nvolumes: [{{name: data, source: {{overlay: {{lower: [$DIR/top, $DIR/base]{more}}}, \
             target: $DIR/{name}}}]\nrestart: {{policy: once}}\n"
        )
    };
    let steps = |name: &str| {
        format!(
            "'list=$DIR/{name}', 'cat=$DIR/{name}/both', 'touch=$DIR/{name}/new', 'owner=$DIR/{name}', print=end, serve"
        )
    };
    let kept = ", upper: $DIR/kept/upper, work: $DIR/kept/work}, create: {mode: '0750'}";
    let lost = ", size: 1Mi}";
    let mut host = Host::builder().runs("plain", "serve").start();
    for (folder, file) in [("top", "both"), ("base", "both"), ("base", "below")] {
        fs::create_dir_all(host.path(folder)).expect("a folder");
        fs::write(host.path(folder).join(file), format!("{folder}\n")).expect("a file");
    }
    let before = mounts(&host);
    host.write_service("keeps", &process(&steps("a"), &volume("a", kept)));
    host.write_service("loses", &process(&steps("b"), &volume("b", lost)));
    let within = "volumes:\n- {name: data, source: {tmpfs: {}}, target: $DIR/outer}\n\
                  - {name: one, source: {overlay: {lower: [$DIR/base]}}, target: $DIR/outer/one, readOnly: true}\n\
                  - {name: two, source: {overlay: {lower: [$DIR/top, $DIR/base]}}, target: $DIR/outer/two, readOnly: true}\n";
    let tries = "'cat=$DIR/outer/one/below', 'try=$DIR/outer/one/below', 'cat=$DIR/outer/two/both', \
                 'cat=$DIR/outer/two/below', 'try=$DIR/outer/two/new', print=end, serve";
    host.write_service("within", &process(tries, within));
    // What it covers is below it.
    host.write_service("covers", &process(&steps("top"), &volume("top", lost)));
    let apart = volume("c", ", upper: $DIR/u, work: /dev/shm/kelson-work-$NAME}, create: {}");
    host.write_service("apart", &process("serve", &apart.replace("$NAME", "apart")));
    host.ctl(&["reload"]).ok();
    for (name, mode) in [("keeps", "750"), ("loses", "755"), ("covers", "755")] {
        let log = host.wait_log(name, "end");
        assert!(log.contains("top\n") && log.contains("below"), "{name}: {log}");
        assert!(log.contains(&format!("1234:1235 {mode}")), "{name}: {log}");
    }
    host.wait_log("within", "end");
    let closed = |name: &str| format!("outer/{name}: Read-only file system (os error 30)");
    let expected = ["base", &closed("one/below"), "top", "base", &closed("two/new"), "end"];
    assert_eq!(lines(&host, "within"), expected);
    let failed = host.wait_state("apart", "failed");
    assert!(failed.message.contains("it is on another file system than"), "{}", failed.message);
    assert!(host.path("kept/upper/new").exists() && !host.path("top/new").exists());
    assert_eq!(owner(&host.path("kept/work")).2, 0o700);
    assert_eq!(mounts(&host), before);
    for name in ["keeps", "loses"] {
        host.ctl(&["restart", name, "--wait"]).ok();
        let ends = || lines(&host, name).iter().filter(|line| *line == "end").count();
        until("its second run", PATIENCE, || (ends() == 2).then_some(()));
    }
    host.ctl(&["reexec"]).ok();
    host.wait_up("loses");
    let new = |name: &str| lines(&host, name).iter().filter(|line| line.contains("new")).count();
    host.ctl(&["stop", "keeps", "loses", "--wait"]).ok();
    assert_eq!((new("keeps"), new("loses")), (1, 0));
    let _ = fs::remove_dir_all("/dev/shm/kelson-work-apart");
    host.poweroff();
}
