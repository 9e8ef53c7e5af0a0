//! Extension services of Talos, translated and run: environment, arguments, mounts, conditions, restarts, a read-only root.

use std::fs;
use std::path::Path;
use std::process::Command;

use kelson_tests::{Host, paths};

use super::{host, test_image};

/// A daemon that sees a folder of the host and its devices, and is started again.
const NAMES: &str = "
name: names
container:
  entrypoint: ./program
  args:
    - print=two words
    - report=
    - try=/etc/of-the-image
    - try=/run/names/socket
    - serve
  environment:
    - ROLE=names
    - EMPTY=
  security:
    writeableRootfs: false
    writeableSysfs: true
  mounts:
    - source: DIR/run
      destination: /run/names
      type: bind
      options:
        - rshared
        - rbind
        - rw
    - source: /dev
      destination: /dev
      type: bind
      options: [rshared, rbind, rw]
depends:
  - service: cri
  - path: DIR/go
restart: always
";

/// Starts again until it succeeds, and may write into its root.
const MAKE: &str = "
name: make
container:
  entrypoint: /program
  args: ['try=/made', 'fail-until=2:/counted/times']
  security: {writeableRootfs: true}
  mounts:
    - {source: DIR/counted, destination: /counted, type: bind, options: [bind, rw]}
depends:
  - service: ext-names
restart: untilSuccess
";

/// Runs once, with a configuration.
const CLIENT: &str = "
name: client
container:
  entrypoint: /program
  args: [report=, cat=/usr/local/etc/client.conf, append=/counted/runs, exit=3]
  environment: [UPS=none]
  mounts:
    - {source: DIR/counted, destination: /counted, type: bind, options: [bind, rw]}
depends:
  - service: cri
  - service: ext-names
  - configuration: true
restart: never
";

const CONFIGURATION: &str = "
apiVersion: v1alpha1
kind: ExtensionServiceConfig
name: client
configFiles:
  - content: MONITOR ups@localhost
    mountPath: /usr/local/etc/client.conf
environment:
  - UPS=house
";

/// This and `sys_resource` are not for who lacks that capability itself, as a test in a container may.
const NEEDS_RESOURCES: &str = "oomScoreAdjust: -600\n";

/// The service files that become of the files, with their names.
fn translated(folder: &Path) -> Vec<(String, String)> {
    let dir = folder.display().to_string();
    let files = [("names", NAMES), ("make", MAKE), ("client", CLIENT), ("config", CONFIGURATION)];
    let files = files.map(|(name, text)| {
        let path = folder.join(format!("{name}.yaml"));
        fs::write(&path, text.replace("DIR", &dir)).expect("a writable folder");
        path
    });
    let out = folder.join("services");
    let mut command = Command::new(paths::binary("kelsonctl"));
    command.args(["import", "talos", "--files", &format!("{dir}/files"), "--out"]).arg(&out).args(files);
    let done = command.output().expect("kelsonctl runs");
    let notes = String::from_utf8_lossy(&done.stderr).into_owned();
    let rejected: Vec<&str> = notes.lines().filter(|line| line.contains(": rejected: ")).collect();
    assert!(
        matches!(rejected.as_slice(), [one] if one.contains("/dev: the container can open the usual devices")),
        "{notes}"
    );
    ["names", "make", "client"]
        .map(|name| {
            let text = fs::read_to_string(out.join(format!("{name}.yaml"))).expect("it was written");
            let text = text.strip_prefix(&format!("name: {name}\n")).expect("it begins with its name");
            let image = (format!("image: {name}\n"), "image: 'test:1'\n");
            (
                name.to_owned(),
                text.replace(&image.0, image.1).replace(NEEDS_RESOURCES, "").replace("sys_resource, ", ""),
            )
        })
        .into()
}

both!(extension_services_of_talos_run);
fn extension_services_of_talos_run() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["run", "counted"] {
        fs::create_dir(folder.path().join(name)).expect("a writable folder");
    }
    let mut builder = host(&[test_image()]);
    for (name, file) in translated(folder.path()) {
        builder = builder.service(&name, &file);
    }
    let mut host: Host = builder.start();
    host.wait_state("names", "waiting");
    assert_eq!(host.service("make").state, "waiting", "names is not up");
    fs::write(folder.path().join("go"), "").expect("a writable folder");
    host.wait_up("names");
    let log = host.wait_log("names", "socket: ");
    for line in ["two words", "env.ROLE names", "env.EMPTY \n", "/run/names/socket: written"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(log.contains("/etc/of-the-image: Read-only file system"), "{log}");
    assert!(folder.path().join("run/socket").exists());

    // Once, with its configuration, and not again after its failure.
    host.wait_state("client", "failed");
    let log = host.wait_log("client", "MONITOR");
    assert!(log.contains("env.UPS house") && log.contains("MONITOR ups@localhost"), "{log}");

    // Both of these start again, 5 s after their ends.
    let before = host.pid_of("names");
    host.kill(before, libc::SIGKILL);
    host.wait_finished("make");
    assert!(host.log_text("make").contains("/made: written"));
    assert_eq!(fs::read(folder.path().join("counted/times")).expect("it ran").len(), 2, "two runs");
    host.wait_for("names", "to run again", |names| names.state == "running" && names.restarts == 1);
    assert_ne!(host.pid_of("names"), before);
    assert_eq!(fs::read_to_string(folder.path().join("counted/runs")).expect("it ran").lines().count(), 1);
    host.poweroff();
}
