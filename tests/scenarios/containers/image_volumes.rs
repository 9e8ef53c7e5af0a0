//! Images and artifacts as volumes: their files, which nobody writes to.

use std::fs;

use kelson_tests::{Authority, Host, Image, PATIENCE, Registry, Tar, archive, process, until};
use serde_json::Value;

use super::{RUNTIME, Runtime, builder, layers, runtime, test_image};

both!(a_container_and_a_process_read_the_files_of_an_image);
both!(an_artifact_is_files_and_no_container);

const STEPS: &str = "'list=AT', 'cat=AT/kept', 'try=AT/new', print=end, serve";

/// An image of two layers, of which the upper one removes a file of the lower one.
fn assets(text: &str) -> Image {
    let lower = Tar::new().file("kept", 0o644, b"old\n").file("gone", 0o644, b"x");
    let upper = Tar::new().file("kept", 0o644, format!("{text}\n").as_bytes()).file(".wh.gone", 0o644, b"");
    Image::without_layers("assets:1", &[]).layer(lower).layer(upper)
}

/// The key for a volume that is an image.
fn volume(image: &str, target: &str) -> String {
    format!("volumes: [{{name: assets, source: {{{image}}}, target: '{target}'}}]\n")
}

/// The file of a process that reads an image.
fn reader(image: &str) -> String {
    process(&STEPS.replace("AT", "$DIR/seen"), &volume(image, "$DIR/seen"))
}

/// The file of a container that does.
fn container(image: &str) -> String {
    let (key, steps) = (runtime(), STEPS.replace("AT", "/seen"));
    let command = format!("container: {{{key}image: 'test:1', command: [/program, {steps}]}}\n");
    format!("{command}{}", volume(image, "/seen"))
}

fn messages(host: &Host, name: &str) -> Vec<String> {
    host.events_of(name).into_iter().map(|event| event.message).collect()
}

#[track_caller]
fn assert_reads(host: &Host, name: &str, text: &str) {
    host.wait_log(name, "end");
    let log = host.ctl(&["logs", name]).ok().stdout;
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines.contains(&"kept") && lines.contains(&text), "{name}: {log}");
    assert!(!lines.contains(&"gone"), "{name}: {log}");
    assert!(log.contains("/seen/new: Read-only file system"), "{name}: {log}");
}

fn a_container_and_a_process_read_the_files_of_an_image() {
    let mut host = builder()
        .archive("test.tar", archive(&[test_image()]))
        .archive("assets.tar", archive(&[assets("text")]))
        .service("web", &container("image: 'assets:1'"))
        .service("own", &reader("image: 'assets:1'"))
        .up(&["web", "own"]);
    for name in ["web", "own"] {
        assert_reads(&host, name, "text");
    }
    // Another incarnation finds what the services have, and so does their next run.
    let pids = || ["web", "own"].map(|name| host.service(name).pid);
    let before = pids();
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_eq!(pids(), before);
    fs::remove_file(host.path("images/assets.tar")).expect("an archive");
    let count = |name: &str| messages(&host, name).iter().filter(|text| text.contains("assets:1")).count();
    let known = ["web", "own"].map(count);
    for (name, pid) in ["web", "own"].into_iter().zip(before) {
        host.kill(pid.expect("it runs"), libc::SIGKILL);
        let log = until("its second run", PATIENCE, || {
            let log = host.ctl(&["logs", name]).ok().stdout;
            (log.matches("end\n").count() == 2).then_some(log)
        });
        assert_eq!(log.matches("text\n").count(), 2, "{log}");
    }
    assert_eq!(["web", "own"].map(count), known, "what it was prepared from is used");
    host.poweroff();
}

fn an_artifact_is_files_and_no_container() {
    let folder = Tar::new().folder("more/").file("more/inner", 0o640, b"inner\n");
    let artifact =
        Image::artifact("assets:1").titled("kept", b"text\n").titled("sub/other", b"other\n").layer(folder);
    let odd = Image::artifact("odd:1").titled("../up", b"text\n");
    let mut host = builder()
        .archive("test.tar", archive(&[test_image()]))
        .archive("assets.tar", archive(&[artifact]))
        .archive("odd.tar", archive(&[odd]))
        .service("web", &container("image: 'assets:1'"))
        .service("own", &reader("image: 'assets:1'"))
        .service("runs", &super::service("assets:1"))
        .service("odd", &reader("image: 'odd:1'"))
        .up(&["web", "own"]);
    for name in ["web", "own"] {
        assert_reads(&host, name, "text");
        let log = host.wait_log(name, "end");
        assert!(log.contains("sub\n") && log.contains("more\n"), "{log}");
    }
    let failed = host.wait_state("runs", "failed");
    let why = "image assets:1 is an artifact, which has no program; use it as a volume";
    assert!(failed.message.contains(why), "{}", failed.message);
    let failed = host.wait_state("odd", "failed");
    let why = "a file with the name \"../up\", which leads out of its folder";
    assert!(failed.message.contains(why), "{}", failed.message);
    let table = host.ctl(&["images"]).ok().stdout;
    assert!(
        table.lines().any(|line| line.starts_with("assets:1 ") && line.contains("own, runs, web")),
        "{table}"
    );
    host.poweroff();
}

#[test]
fn a_missing_image_of_a_volume_is_waited_for() {
    let mut host = Host::builder().without_containerd().service("own", &reader("image: 'assets:1'")).start();
    let failed = host.wait_state("own", "failed");
    let why = "volume assets: no archive in ";
    assert!(failed.message.contains(why) && failed.message.contains("\"assets:1\""), "{}", failed.message);
    let until = "; it is tried again once its file or an archive of images changes";
    assert!(failed.message.ends_with(until), "{}", failed.message);
    fs::create_dir_all(host.path("images")).expect("a folder");
    fs::write(host.path("images/late.tar"), archive(&[assets("text")])).expect("an archive");
    host.wait_up("own");
    assert_reads(&host, "own", "text");
    host.poweroff();
}

#[test]
fn an_image_stays_as_long_as_a_volume_needs_it() {
    RUNTIME.set(Runtime::Kelson);
    let mut host = builder()
        .archive("assets.tar", archive(&[assets("first")]))
        .service("own", &reader("image: 'assets:1'"))
        .up(&["own"]);
    assert_reads(&host, "own", "first");
    let images: Vec<Value> = host.ctl(&["-o", "json", "images"]).ok().json();
    assert_eq!((&images[0]["services"][0], &images[0]["unpacked"]), (&"own".into(), &true.into()));
    let prune = || host.ctl(&["images", "prune"]).ok().stdout;
    assert!(prune().contains("nothing to remove"));
    // Its file names another image, and the name another one by now: the service has what it was prepared from.
    fs::write(host.path("images/assets.tar"), archive(&[assets("second")])).expect("an archive");
    host.write_service("other", &reader("image: 'assets:1'").replace("seen", "other"));
    host.read_again();
    host.wait_up("other");
    assert_eq!(layers(&host), 3, "the lower one is of both");
    host.write_service("own", &process("serve", ""));
    host.write_service("other", &process("serve", ""));
    host.read_again();
    prune();
    let seen = host.path("seen/kept").display().to_string();
    assert_eq!(host.ctl(&["exec", "own", "--", "/bin/cat", &seen]).ok().stdout, "first\n");
    assert_eq!(layers(&host), 3);
    // A start from stopped is prepared from its file.
    for name in ["own", "other"] {
        host.ctl(&["restart", name, "--wait"]).ok();
    }
    assert!(prune().starts_with("removed assets:1"));
    assert_eq!(layers(&host), 0);
    host.poweroff();
}

#[test]
fn an_image_of_a_volume_is_pulled() {
    let authority = Authority::new("image-volumes");
    let registry = Registry::start(Some(&authority));
    registry.push(&[Image { reference: "assets:1".to_owned(), ..assets("text").gzip() }]);
    registry.push(&[Image::artifact("files:1").titled("kept", b"file\n")]);
    let ca = authority.path("ca.pem");
    let image = |name: &str, more: &str| format!("image: '{}/{name}'{more}", registry.host);
    let mut host = Host::builder()
        .without_containerd()
        .machine(&format!("registries: {{ca: {}}}\n", ca.display()))
        .service("own", &reader(&image("assets:1", ", pull: always")))
        .service("files", &reader(&image("files:1", "")).replace("seen", "files/seen"))
        .service("never", &reader(&image("assets:1", ", pull: never")).replace("assets:1", "other:1"))
        .up(&["own", "files"]);
    assert_reads(&host, "own", "text");
    assert_reads(&host, "files", "file");
    assert!(messages(&host, "own").iter().any(|text| text.starts_with("pulled ")));
    host.wait_state("never", "failed");
    registry.push(&[assets("new")]);
    let updated = host.ctl(&["images", "update", &format!("{}/assets:1", registry.host)]).ok().stdout;
    assert!(updated.contains("own"), "{updated}");
    let asked = registry.asked();
    assert!(!asked.iter().any(|asked| asked.path.contains("other")), "{asked:?}");
    host.poweroff();
}
