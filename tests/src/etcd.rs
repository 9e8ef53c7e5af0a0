//! An etcd of a test's own, on the loopback: one member, or three.

use std::fs::File;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::authority::Authority;
use crate::{deadline, free_port, paths, skip};

/// The most changes of a transaction.
const AT_ONCE: usize = 100;

/// A member. It ends with the value, with all that it has stored.
pub struct Etcd {
    programs: PathBuf,
    folder: TempDir,
    name: &'static str,
    /// Beside the loopback.
    address: Option<&'static str>,
    port: u16,
    /// For the other members.
    peer: u16,
    /// All members, as etcd wants them.
    cluster: String,
    authority: Option<Authority>,
    /// The certificate of `etcdctl` with its key. `None`: that of the machine, if it needs one.
    client: Option<[PathBuf; 2]>,
    process: Option<Child>,
}

impl Etcd {
    /// Waits until it answers. `None`, and the test is skipped, where `make image` has not fetched it.
    pub fn start() -> Option<Etcd> {
        Etcd::new("default").map(Etcd::alone)
    }

    /// One that lets in only clients with a certificate of this CA, which signed its own.
    pub fn start_secure(authority: Authority) -> Option<Etcd> {
        let mut etcd = Etcd::new("default")?;
        etcd.authority = Some(authority);
        Some(etcd.alone())
    }

    /// One that also listens at this address, with the same port.
    pub fn start_at(address: &'static str) -> Option<Etcd> {
        let mut etcd = Etcd::new("default")?;
        etcd.address = Some(address);
        Some(etcd.alone())
    }

    /// One that has its data in this folder.
    pub fn start_in(folder: &Path) -> Option<Etcd> {
        let mut etcd = Etcd::new("default")?;
        etcd.folder = tempfile::tempdir_in(folder).expect("the folder is writable");
        Some(etcd.alone())
    }

    /// The members of one store. Waits until each answers.
    pub fn start_three() -> Option<[Etcd; 3]> {
        let mut members = [Etcd::new("one")?, Etcd::new("two")?, Etcd::new("three")?];
        let cluster = members.each_ref().map(Etcd::membership).join(",");
        for member in &mut members {
            member.cluster.clone_from(&cluster);
            member.spawn();
        }
        members.iter().for_each(Etcd::wait);
        Some(members)
    }

    fn new(name: &'static str) -> Option<Etcd> {
        let Some(programs) = paths::fetched("etcd-3.4", "etcd") else {
            skip::skip("there is no etcd in out/cache: run `make image`");
            return None;
        };
        Some(Etcd {
            programs,
            folder: tempfile::tempdir().expect("the folder of temporary files is writable"),
            name,
            address: None,
            port: free_port(),
            peer: free_port(),
            cluster: String::new(),
            authority: None,
            client: None,
            process: None,
        })
    }

    fn alone(mut self) -> Etcd {
        self.cluster = self.membership();
        self.restart();
        self
    }

    fn membership(&self) -> String {
        format!("{}={}", self.name, self.peer())
    }

    fn peer(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer)
    }

    pub fn endpoint(&self) -> String {
        self.endpoint_at("127.0.0.1")
    }

    pub fn endpoint_at(&self, address: &str) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}:{}", self.port)
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

    /// Ends it at once; its data stay.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().expect("it is a child");
        process.wait().expect("it is a child");
    }

    /// Starts it again after [`Etcd::stop`] or [`Etcd::kill`], and waits until it answers.
    pub fn restart(&mut self) {
        self.spawn();
        self.wait();
    }

    fn spawn(&mut self) {
        let log = File::options().create(true).append(true).open(self.path("log")).expect("a log");
        let (own, peer) = (self.endpoint(), self.peer());
        let all =
            self.address.map_or_else(|| own.clone(), |more| format!("{own},{}", self.endpoint_at(more)));
        let mut command = Command::new(self.programs.join("etcd"));
        command
            .args(["--name", self.name, "--data-dir"])
            .arg(self.path("data"))
            .args(["--listen-client-urls", &all, "--advertise-client-urls", &own])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.cluster])
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
    }

    fn wait(&self) {
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

    /// Has `etcdctl` come with this certificate and this key from now on.
    pub fn come_with(&mut self, certificate: &Path, key: &Path) {
        self.client = Some([certificate.to_owned(), key.to_owned()]);
    }

    /// What `etcdctl` says of an error, with this certificate and this key. `Ok`: there is none.
    ///
    /// # Errors
    /// Its last lines.
    pub fn ctl_as(&self, certificate: &Path, key: &Path, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.client());
        let authority = self.authority.as_ref().expect("it asks for certificates");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint()]);
        command.arg("--cacert").arg(authority.path("ca.pem"));
        command.arg("--cert").arg(certificate).arg("--key").arg(key).args(words);
        let output = command.stdin(Stdio::null()).output().expect("etcdctl");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    fn try_ctl(&self, words: &[&str]) -> Option<String> {
        let mut command = self.command(words);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().expect("etcdctl");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Writes these keys, which need no quotes, with these values.
    ///
    /// # Panics
    /// When the store does not take them.
    pub fn put_all(&self, pairs: &[(String, String)]) {
        for some in pairs.chunks(AT_ONCE) {
            let puts: String = some.iter().map(|(key, value)| format!("put {key} {value:?}\n")).collect();
            let mut command = self.command(&["txn"]);
            let mut child =
                command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("etcdctl can be executed");
            let mut input = child.stdin.take().expect("a pipe");
            // No condition, what is done, and nothing otherwise.
            input.write_all(format!("\n{puts}\n\n").as_bytes()).expect("etcdctl reads");
            drop(input);
            assert!(child.wait().expect("it is a child").success(), "etcdctl txn has failed");
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.client());
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint()]);
        if let Some(authority) = &self.authority {
            let machine = || ["machine.pem", "machine.key"].map(|file| authority.path(file));
            let [certificate, key] = self.client.clone().unwrap_or_else(machine);
            command.arg("--cacert").arg(authority.path("ca.pem"));
            command.arg("--cert").arg(certificate).arg("--key").arg(key);
        }
        command.args(words);
        command
    }

    /// The number of the member, and that of the leader.
    pub fn ids(&self) -> (u64, u64) {
        let text = self.ctl(&["endpoint", "status", "-w", "json"]);
        let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let status = &all[0]["Status"];
        let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
        (number(&status["header"]["member_id"]), number(&status["leader"]))
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

    /// The value of a key; empty: there is none.
    pub fn value(&self, key: &str) -> String {
        self.ctl(&["get", "--print-value-only", key]).trim_end().to_owned()
    }

    /// How often anything in the store was changed.
    pub fn revision(&self) -> u64 {
        let answer: serde_json::Value =
            serde_json::from_str(&self.ctl(&["get", "/", "-w", "json"])).expect("JSON");
        answer["header"]["revision"].as_u64().expect("a number")
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
