//! Volumes of containers: as those of a process, in the root of the container.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kelson_tests::{Host, LoopDisk, PATIENCE, until};

use super::{host, runtime, test_image};

all!(a_container_sees_its_volumes_and_what_is_new_is_its_users);

fn a_container_sees_its_volumes_and_what_is_new_is_its_users() {
    let (key, folder) = (runtime(), tempfile::tempdir().expect("a writable folder"));
    let source = folder.path().join("data");
    let data = format!("{{path: {}, create: {{mode: '0750'}}}}", source.display());
    let file = format!(
        "container: {{{key}image: 'test:1', mounts: [{{source: tmpfs, target: /data/mounted}}], command: [/program, \
         'owner=/data', 'owner=/data/cache', 'touch=/data/kept', 'try=/shown/kept', 'touch=/data/mounted/lost', \
         print=end, serve]}}\nuser: web\nvolumes:\n\
         - {{name: cache, source: {{tmpfs: {{size: 1Mi, mode: '0700'}}}}, target: /data/cache}}\n\
         - {{name: shown, source: {{path: {}}}, target: /shown, readOnly: true}}\n\
         - {{name: data, source: {data}, target: /data}}\n",
        source.parent().expect("a folder").display()
    );
    let missing = "container: {image: 'test:1'}\nrestart: {policy: once}\n\
                   volumes: [{name: data, source: {path: /no/such}, target: /data}]\n";
    let mut host = host(&[test_image()]).service("web", &file).service("missing", missing).up(&["web"]);
    let log = host.wait_log("web", "end");
    for line in
        ["owner /data 1000:1001 750", "owner /data/cache 1000:1001 700", "/shown/kept: Read-only file system"]
    {
        assert!(log.contains(line), "{line}: {log}");
    }
    let found = fs::metadata(&source).expect("it was made");
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1000, 1001, 0o750));
    assert!(source.join("kept").exists() && source.join("cache").is_dir());
    let why = "volume data: /no/such: it is not there; make it, or write create: {} in its source";
    let failed = host.wait_state("missing", "failed");
    assert!(failed.message.contains(why), "{}", failed.message);
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert_eq!(fs::read_dir(source.join("cache")).expect("a folder").count(), 0);
    assert!(source.join("kept").exists());
    host.poweroff();
}

all!(containers_share_a_disk_and_it_is_free_with_the_last_of_them);

fn containers_share_a_disk_and_it_is_free_with_the_last_of_them() {
    let (key, disk) = (runtime(), LoopDisk::unclean("kelson-image"));
    let container = |steps: &str, options: &str, volume: &str| {
        let device = disk.device().display();
        let source = format!("{{disk: {{device: {device}, options: [{options}]}}}}");
        format!(
            "container: {{{key}image: 'test:1', command: [/program, {steps}, print=end, serve]}}\n\
             volumes: [{{name: data, source: {source}, target: /data{volume}}}]\nrestart: {{policy: once}}\n"
        )
    };
    let manual = |file: &str| format!("{file}start: manual\n");
    let reads = "'list=/data', 'try=/data/kept', cat=/proc/self/mountinfo";
    let mut host = host(&[test_image()])
        .service("writer", &container("'touch=/data/kept'", "nobarrier", ", options: [noexec]"))
        .service("reader", &manual(&container(reads, "", ", readOnly: true, options: [nosuid]")))
        .service("wrong", &manual(&container("print=no", "sparkle", "")))
        .up(&["writer"]);
    host.wait_log("writer", "end");
    host.ctl(&["start", "reader", "--wait"]).ok();
    let log = host.wait_log("reader", "end");
    assert!(log.contains("kept") && log.contains("Read-only file system"), "{log}");
    let mount = log.lines().find(|line| line.contains(" /data ")).expect("its mount").to_owned();
    assert!(mount.contains(" ro,nosuid") && mount.contains(" - ext4 "), "{mount}");
    host.ctl(&["stop", "writer", "--wait"]).ok();
    assert!(!disk.is_free());
    host.ctl(&["stop", "reader", "--wait"]).ok();
    assert!(disk.is_free() && disk.is_clean());
    host.ctl(&["start", "wrong"]);
    let failed = host.wait_state("wrong", "failed");
    assert!(
        failed.message.contains("volume data: ") && failed.message.contains("\"sparkle\""),
        "{}",
        failed.message
    );
    host.ctl(&["start", "writer", "--wait"]).ok();
    host.crash(|| host.signal(libc::SIGSEGV));
    host.poweroff();
    assert!(disk.is_free() && disk.is_clean());
}

both!(a_container_writes_to_the_upper_folder_of_its_overlay);

fn a_container_writes_to_the_upper_folder_of_its_overlay() {
    let (key, folder) = (runtime(), tempfile::tempdir().expect("a writable folder"));
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir(at("lower")).expect("a folder");
    fs::write(at("lower/below"), "").expect("a file");
    fs::create_dir(at("lowest")).expect("a folder");
    fs::write(at("lowest/lowest"), "").expect("a file");
    let file = |own: &str, create: &str, options: &str| {
        format!(
            "container: {{{key}image: 'test:1', command: [/program, 'list=/data', 'owner=/data', 'try=/data/new', \
             print=end, serve]}}\nuser: web\nstart: manual\nvolumes: [{{name: data, source: {{overlay: {{lower: [{}{own}}}{create}}}, \
             target: /data{options}}}]\n",
            at("lower")
        )
    };
    let kept = format!("], upper: {}, work: {}", at("kept/upper"), at("kept/work"));
    let other = kept.replace("/kept/", "/other/");
    let create = ", create: {mode: '0750'}";
    let mut host = host(&[test_image()])
        .service("keeps", &file(&kept, create, ""))
        .service("shows", &file(&other, create, ", readOnly: true"))
        .service("reads", &file(&format!(", {}]", at("lowest")), "", ", readOnly: true"))
        .up(&[]);
    // The log, once it has run to its end this often, and been stopped.
    let seen = |host: &Host, name: &str, runs: usize| {
        let log = || host.ctl(&["logs", name]).ok().stdout;
        host.ctl(&["start", name, "--wait"]).ok();
        until("its run", PATIENCE, || (log().matches("end\n").count() == runs).then_some(()));
        host.ctl(&["stop", name, "--wait"]).ok();
        log()
    };
    let listed = |log: &str| log.lines().filter(|line| line.ends_with("new")).count();
    let log = seen(&host, "shows", 1);
    assert!(log.contains("below") && log.contains("1000:1001 750"), "{log}");
    assert!(log.contains("/data/new: Read-only file system"), "{log}");
    let log = seen(&host, "reads", 1);
    assert!(log.contains("below") && log.contains("lowest"), "{log}");
    assert!(log.contains("/data/new: Read-only file system"), "{log}");
    seen(&host, "keeps", 1);
    assert!(Path::new(&at("kept/upper/new")).exists() && !Path::new(&at("lower/new")).exists());
    assert_eq!(listed(&seen(&host, "keeps", 2)), 1);
    if !key.is_empty() {
        host.write_service("loses", &file("], size: 1Mi", "", ""));
        host.ctl(&["reload"]).ok();
        seen(&host, "loses", 1);
        let log = seen(&host, "loses", 2);
        assert!(log.contains("1000:1001 755") && log.contains("/data/new: written"), "{log}");
        assert_eq!(listed(&log), 0, "{log}");
    }
    host.poweroff();
}
