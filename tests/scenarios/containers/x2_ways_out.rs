//! X2: a process of a container does not get out of it, with both runtimes.

use kelson_tests::Image;

use super::{Runtime, host, run_by, runtime, steps, test_image};

all!(x2_the_kernel_refuses_what_leads_out);
fn x2_the_kernel_refuses_what_leads_out() {
    let mut host = host(&[test_image()]).service("web", &steps("escape, print=over, serve")).up(&["web"]);
    let log = host.wait_log("web", "over");
    let attempts: Vec<&str> = log.lines().filter(|line| line.contains("escape ")).collect();
    assert!(attempts.len() > 20, "{log}");
    assert!(!attempts.iter().any(|line| line.ends_with(": done")), "{log}");
    let beside = host.ctl(&["exec", "web", "--", "/program", "escape"]).ok().stdout;
    assert!(beside.contains("escape a swap: ") && !beside.contains(": done"), "{beside}");
    host.poweroff();
}

all!(x2_programs_of_the_host_cannot_be_overwritten);
fn x2_programs_of_the_host_cannot_be_overwritten() {
    let mut host =
        host(&[test_image()]).service("web", &steps("print=begins, overwrite-programs")).up(&["web"]);
    host.wait_log("web", "begins");
    // What a runtime is executed from is seen in the container until it becomes the container's program.
    for _ in 0..20 {
        host.ctl(&["exec", "web", "--", "/program", "print=beside"]).ok();
    }
    let log = host.ctl(&["logs", "web"]).ok().stdout;
    assert!(!log.contains("overwrite "), "{log}");
    host.ctl(&["reexec"]).ok();
    host.wait_up("web");
    host.ctl(&["exec", "web", "--", "/program", "print=beside"]).ok();
    host.poweroff();
}

/// Not with runc: until 1.1.14 it makes an empty folder outside (CVE-2024-45310).
#[test]
fn x2_a_path_that_changes_while_it_is_mounted_stays_inside() {
    run_by(Runtime::Kelson, || {
        let shared = tempfile::tempdir().expect("a writable folder");
        let outside = tempfile::tempdir().expect("a writable folder");
        std::fs::create_dir(shared.path().join("real")).expect("a writable folder");
        std::os::unix::fs::symlink(outside.path(), shared.path().join("link")).expect("a writable folder");
        let volume =
            format!("{{source: {}, target: /shared, options: [rw, rbind]}}", shared.path().display());
        let container = |command: &str, mounts: &str| {
            let runtime = runtime();
            format!(
                "container: {{{runtime}image: 'test:1', command: [/program, {command}], mounts: [{mounts}]}}\n"
            )
        };
        let mut host = host(&[test_image()])
            .service("swaps", &container("'swap=/shared/real:/shared/link'", &volume))
            .service(
                "web",
                &container("serve", &format!("{volume}, {{source: tmpfs, target: /shared/real/inner/most}}")),
            )
            .up(&["swaps"]);
        for _ in 0..10 {
            // A mount may fail in the middle of the change; what counts is where nothing is made.
            host.ctl(&["restart", "web", "--wait", "--timeout", "5s"]);
        }
        assert_eq!(std::fs::read_dir(outside.path()).expect("the folder").count(), 0);
        host.ctl(&["stop", "web", "--wait"]).ok();
        host.poweroff();
    });
}

#[test]
fn x2_a_working_directory_is_inside() {
    run_by(Runtime::Kelson, || {
        let mut builder = host(&[test_image()]);
        let names: Vec<String> = (0..12).map(|fd| format!("fd{fd}")).collect();
        for (fd, name) in names.iter().enumerate() {
            builder = builder.service(
                name,
                &format!(
                    "container: {{image: 'test:1', command: [/program, report-of=cwd], workingDirectory: /proc/self/fd/{fd}}}\n\
                     type: oneshot\n"
                ),
            );
        }
        let mut host = builder.start();
        for name in &names {
            let failed = host.wait_state(name, "failed");
            assert!(failed.message.contains("cannot enter the working directory"), "{failed:?}");
        }
        host.poweroff();
    });
}

#[test]
fn x2_links_of_an_image_do_not_lead_out_of_it() {
    let outside = std::env::temp_dir().join(format!("kelson-x2-{}", std::process::id()));
    std::fs::create_dir_all(&outside).expect("a writable folder");
    let image = Image::new("test:1", &["serve"]).layer(
        kelson_tests::Tar::new()
            .symlink("out", &outside.display().to_string())
            .symlink("up", &format!("../../../../..{}", outside.display())),
    );
    run_by(Runtime::Kelson, || {
        let mut host = host(std::slice::from_ref(&image))
            .service(
                "web",
                "container:\n  image: 'test:1'\n  runtime: kelson\n  mounts: [{source: tmpfs, target: /out/a}, \
                 {source: tmpfs, target: /up/b}]\n",
            )
            .up(&["web"]);
        host.ctl(&["exec", "web", "--", "/program", "wait-path=/out/a", "wait-path=/up/b"]).ok();
        host.poweroff();
    });
    assert_eq!(std::fs::read_dir(&outside).expect("the folder").count(), 0);
    std::fs::remove_dir_all(&outside).expect("it is ours");
}

both!(x2_devices_of_the_host_cannot_be_opened);
fn x2_devices_of_the_host_cannot_be_opened() {
    // The node of a zero that every container has, the kernel's log, and the memory of the host.
    let looks = "'device=1:5', 'device=1:11', 'device=1:1', print=done, serve";
    let mut host = host(&[test_image()]).service("web", &steps(looks)).up(&["web"]);
    let log = host.wait_log("web", "done");
    assert!(log.contains("device 1:5: opened"), "{log}");
    for refused in ["device 1:11: Operation not permitted", "device 1:1: Operation not permitted"] {
        assert!(log.contains(refused), "{log}");
    }
    let beside = host.ctl(&["exec", "web", "--", "/program", "device=1:5", "device=1:1"]).ok().stdout;
    assert!(beside.contains("device 1:5: opened"), "{beside}");
    assert!(beside.contains("device 1:1: Operation not permitted"), "{beside}");
    host.poweroff();
}
