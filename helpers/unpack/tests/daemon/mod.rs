//! A containerd of the test's own, in namespaces of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kelson_tests::containers;

pub struct Daemon {
    bin: PathBuf,
    socket: PathBuf,
    child: Child,
}

const INSIDE: &str = "KELSON_TEST_INSIDE";

fn run_inside(name: &str) {
    let disk = tempfile::tempdir().unwrap();
    let output = containers::namespaces(disk.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .envs([(INSIDE, "1".as_ref()), ("TMPDIR", disk.path().as_os_str())])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// The containerd of the calling test, which is `name`: first the test is run again as PID 1 of namespaces in which
    /// containerd can mount. `None` outside, once that has passed, or where there is no containerd.
    pub fn start(name: &str, folder: &Path) -> Option<Daemon> {
        let Some(bin) = containers::find_programs() else {
            kelson_tests::skip("there is no containerd in out/cache: run `make image`");
            return None;
        };
        if std::env::var_os(INSIDE).is_none() {
            run_inside(name);
            return None;
        }
        let at = folder.display();
        let socket = folder.join("c.sock");
        let off = ["grpc.v1.cri", "snapshotter.v1.zfs", "snapshotter.v1.btrfs", "snapshotter.v1.devmapper"]
            .map(|plugin| format!("io.containerd.{plugin}"));
        let config = format!(
            "version = 2\nroot = \"{at}/store\"\nstate = \"{at}/now\"\ndisabled_plugins = {off:?}\n\
             [grpc]\naddress = \"{}\"\n",
            socket.display()
        );
        fs::write(folder.join("config.toml"), config).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let child = Command::new(bin.join("containerd"))
            .arg("--config")
            .arg(folder.join("config.toml"))
            .env("PATH", path)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let daemon = Daemon { bin, socket, child };
        let end = Instant::now() + Duration::from_secs(20);
        while !daemon.try_ctr(&["version"]).0 {
            assert!(Instant::now() < end, "{}", fs::read_to_string(folder.join("log")).unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(daemon)
    }

    /// Runs containerd's own client, and returns its output.
    pub fn ctr(&self, words: &[&str]) -> String {
        let (done, text) = self.try_ctr(words);
        assert!(done, "{words:?}: {text}");
        text
    }

    fn try_ctr(&self, words: &[&str]) -> (bool, String) {
        let output = Command::new(self.bin.join("ctr"))
            .arg("--address")
            .arg(&self.socket)
            .args(["--namespace", "kelson"])
            .args(words)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }
}
