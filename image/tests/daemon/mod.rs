//! A containerd of the test's own, if `KELSON_CONTAINERD_BIN` names the folder that holds it. Run as root in namespaces
//! of its own (`unshare --pid --fork --mount --mount-proc`), with the temporary folder on a file system that overlayfs
//! takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Daemon {
    bin: PathBuf,
    socket: PathBuf,
    child: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// `None`, and a word why, where there is none.
    pub fn start(folder: &Path) -> Option<Daemon> {
        let Some(bin) = std::env::var_os("KELSON_CONTAINERD_BIN").map(PathBuf::from) else {
            eprintln!("skipped: KELSON_CONTAINERD_BIN names no folder with containerd and ctr");
            return None;
        };
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
        let child = Command::new(bin.join("containerd"))
            .arg("--config")
            .arg(folder.join("config.toml"))
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

    /// What containerd's own client says.
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
