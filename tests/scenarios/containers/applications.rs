//! Programs that others wrote, pulled from a registry.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::process::Command;

use kelson_tests::{free_port, paths};

use super::{builder, runtime};

/// A registry with the images that `hack/images` has made; its address.
fn registry() -> String {
    let made = Command::new(paths::top().join("hack/images")).arg("--applications").status();
    assert!(made.expect("hack/images can be started").success());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let folder = paths::top().join("out/registry");
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let input = OwnedFd::from(connection);
            let output = input.try_clone().expect("a descriptor");
            let mut server = Command::new(paths::top().join("hack/registry"));
            let server = server.arg(&folder).stdin(input).stdout(output).spawn();
            let mut server = server.expect("hack/registry can be started");
            std::thread::spawn(move || server.wait());
        }
    });
    address
}

/// The files of services of these programs, each with a check that its program passes only if it works.
struct Applications {
    registry: String,
    folder: tempfile::TempDir,
}

impl Applications {
    fn container(&self, image: &str, more: &str) -> String {
        format!("container: {{{}image: '{}/{image}', network: host{more}}}\n", runtime(), self.registry)
    }

    fn mount(&self, name: &str, target: &str) -> String {
        let source = self.folder.path().join(name);
        format!(", mounts: [{{source: {}, target: {target}, options: [rw, rbind]}}]", source.display())
    }

    /// Without a file of the host: names, and their files.
    fn files(&self) -> Vec<(&'static str, String)> {
        let [redis, nginx, postgres, go, python] = std::array::from_fn(|_| free_port());
        let own = std::fs::read_to_string(paths::top().join("hack/demo/nginx.conf")).expect("the demo's");
        let own =
            own.replace("listen 80;", &format!("listen 127.0.0.1:{nginx}; location /own {{ return 200; }}"));
        std::fs::write(self.folder.path().join("nginx.conf"), own).expect("a writable folder");
        let http = |port: u16, path: &str| {
            format!(
                "health: [{{name: answers, http: {{port: {port}, path: {path}, status: 200}}, interval: 200ms}}]\n"
            )
        };
        let exec = |command: &str| {
            format!("health: [{{name: answers, exec: {{command: [{command}]}}, interval: 200ms}}]\n")
        };
        let database = self.mount("data", "/data");
        vec![
            (
                "redis",
                self.container("demo/redis:7", &format!(", command: [redis-server, --port, '{redis}']"))
                    + &exec(&format!("redis-cli, -p, '{redis}', -e, ping")),
            ),
            (
                "nginx",
                self.container(
                    "demo/nginx:1",
                    &format!(", command: [nginx, -e, stderr, -c, /own/nginx.conf]{}", self.mount("", "/own")),
                ) + &http(nginx, "/own"),
            ),
            (
                "initdb",
                self.container("apps/postgres:15", &format!(", command: [initdb, --locale=C]{database}"))
                    + "type: oneshot\n",
            ),
            (
                "postgres",
                self.container(
                    "apps/postgres:15",
                    &format!(", command: [postgres, -p, '{postgres}', -k, '']{database}"),
                ) + "depends: [{service: initdb}]\n"
                    + &exec(&format!("psql, -h, 127.0.0.1, -p, '{postgres}', -d, postgres, -c, select 6*7")),
            ),
            (
                "registry",
                self.container("apps/registry:2", "")
                    + &format!("environment: {{REGISTRY_HTTP_ADDR: '127.0.0.1:{go}'}}\n")
                    + &http(go, "/v2/"),
            ),
            (
                "python",
                self.container(
                    "apps/python:3",
                    &format!(", command: [python3, -m, http.server, --bind, 127.0.0.1, '{python}']"),
                ) + &http(python, "/usr/lib/python3.11/http/server.py"),
            ),
        ]
    }
}

both!(long_programs_of_others_are_pulled_and_run);
fn long_programs_of_others_are_pulled_and_run() {
    let applications = Applications { registry: registry(), folder: tempfile::tempdir().expect("a folder") };
    let data = applications.folder.path().join("data");
    std::fs::create_dir(&data).expect("a writable folder");
    chown(&data, Some(101), Some(101)).expect("the test's folder is ours");
    // Other users enter it.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(applications.folder.path(), open).expect("the test's folder is ours");
    let mut builder =
        builder().machine(&format!("registries: {{insecure: ['{}']}}\n", applications.registry));
    for (name, file) in applications.files() {
        builder = builder.service(name, &file);
    }
    let mut host = builder.start();
    let names = ["redis", "nginx", "postgres", "registry", "python"];
    // Of 35 MiB the tests' unoptimised programs unpack one a second on a busy machine.
    let wait = [&["wait"], &names[..], &["--for", "up", "--timeout", "300s"]].concat();
    host.ctl(&wait).ok();
    for name in names {
        assert_eq!(host.service(name).healthy, Some(true), "{name}: {:?}", host.service(name));
    }
    // One crashes, and its files are there for the next run.
    host.ctl(&["signal", "postgres", "SIGKILL"]).ok();
    host.wait_for("postgres", "the second run", |service| service.restarts > 0 && service.up);
    host.poweroff();
}
