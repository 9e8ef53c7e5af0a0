//! An etcd of a test's own, on the loopback.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::authority::Authority;
use crate::{deadline, free_port, paths, skip};

/// Ends with the value, with all that it has stored.
pub struct Etcd {
    programs: PathBuf,
    folder: TempDir,
    port: u16,
    authority: Option<Authority>,
    process: Option<Child>,
}

impl Etcd {
    /// Waits until it answers. `None`, and the test is skipped, where `make image` has not fetched it.
    pub fn start() -> Option<Etcd> {
        Etcd::start_with(None)
    }

    /// One that lets in only clients with a certificate of this CA, which signed its own.
    pub fn start_secure(authority: Authority) -> Option<Etcd> {
        Etcd::start_with(Some(authority))
    }

    fn start_with(authority: Option<Authority>) -> Option<Etcd> {
        let Some(programs) = paths::fetched("etcd-3.4", "etcd") else {
            skip::skip("there is no etcd in out/cache: run `make image`");
            return None;
        };
        let folder = tempfile::tempdir().expect("the folder of temporary files is writable");
        let mut etcd = Etcd { programs, folder, port: free_port(), authority, process: None };
        etcd.restart();
        Some(etcd)
    }

    pub fn endpoint(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// While it runs.
    pub fn pid(&self) -> i32 {
        let process = self.process.as_ref().expect("it runs");
        i32::try_from(process.id()).expect("a PID")
    }

    /// # Panics
    /// When it does not run.
    pub fn signal(&self, signal: i32) {
        // SAFETY: a system call on numbers; the process is a child that nobody has waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0, "{}", std::io::Error::last_os_error());
    }

    /// Ends it in order; its data stay.
    pub fn stop(&mut self) {
        self.signal(libc::SIGTERM);
        let mut process = self.process.take().expect("it runs");
        process.wait().expect("it is a child");
    }

    /// Starts it again after [`Etcd::stop`], and waits until it answers.
    pub fn restart(&mut self) {
        let log = File::options().create(true).append(true).open(self.path("log")).expect("a log");
        let own = self.endpoint();
        let peer = format!("http://127.0.0.1:{}", free_port());
        let mut command = Command::new(self.programs.join("etcd"));
        command
            .arg("--data-dir")
            .arg(self.path("data"))
            .args(["--listen-client-urls", &own, "--advertise-client-urls", &own])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(log);
        if let Some(authority) = &self.authority {
            command
                .args(["--client-cert-auth", "--trusted-ca-file"])
                .arg(authority.path("ca.pem"))
                .arg("--cert-file")
                .arg(authority.path("machine.pem"))
                .arg("--key-file")
                .arg(authority.path("machine.key"));
        }
        // SAFETY: between fork and exec only a system call is made. The signal comes when the thread of the test ends.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        self.process = Some(command.spawn().expect("etcd can be executed"));
        let answers = || {
            TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            self.try_ctl(&["get", "/"]).map(drop)
        };
        deadline::until("etcd answers", deadline::PATIENCE, answers);
    }

    /// What `etcdctl` prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn ctl(&self, words: &[&str]) -> String {
        self.try_ctl(words).unwrap_or_else(|| panic!("etcdctl {words:?} has failed"))
    }

    fn try_ctl(&self, words: &[&str]) -> Option<String> {
        let mut command = Command::new(self.client());
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint()]);
        if let Some(authority) = &self.authority {
            for (word, file) in [("--cacert", "ca.pem"), ("--cert", "machine.pem"), ("--key", "machine.key")]
            {
                command.arg(word).arg(authority.path(file));
            }
        }
        let output =
            command.args(words).stdin(Stdio::null()).stderr(Stdio::null()).output().expect("etcdctl");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Where `etcdctl` is.
    pub fn client(&self) -> PathBuf {
        self.programs.join("etcdctl")
    }

    /// The keys that begin so.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let text = self.ctl(&["get", "--prefix", "--keys-only", prefix]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The values of the keys that begin so, each on a line of its own.
    pub fn values(&self, prefix: &str) -> Vec<String> {
        let text = self.ctl(&["get", "--prefix", "--print-value-only", prefix]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The value of a key; empty: there is none.
    pub fn value(&self, key: &str) -> String {
        self.ctl(&["get", "--print-value-only", key]).trim_end().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::join(self.folder.path(), name)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
