//! A network namespace beside that of this computer, and the processes of a test in it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A process that ends with the test.
pub struct Guard(pub Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that a process has written.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn of(pipe: impl std::io::Read + Send + 'static) -> Log {
        let lines = Log::default();
        let kept = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                kept.0.lock().expect("nobody panics with it").push(line);
            }
        });
        lines
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().expect("nobody panics with it").clone()
    }

    pub fn count(&self, part: &str) -> usize {
        self.all().iter().filter(|line| line.contains(part)).count()
    }
}

/// A network namespace: a process that holds it.
pub struct Namespace(Guard);

impl Default for Namespace {
    fn default() -> Namespace {
        Namespace::new()
    }
}

impl Namespace {
    pub fn new() -> Namespace {
        let holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo there; exec sleep 3600"])
            .stdout(Stdio::piped())
            .spawn();
        let mut holder = holder.expect("unshare is installed");
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, "there\n");
        Namespace(Guard(holder))
    }

    pub fn id(&self) -> String {
        self.0.0.id().to_string()
    }

    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.id(), "--"]).arg(program);
        command
    }

    pub fn ip(&self, words: &str) -> String {
        let done = self.command("ip").args(words.split(' ')).output().expect("ip is installed");
        assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    }

    /// Gives a kernel parameter of its network this value.
    pub fn sysctl(&self, key: &str, value: &str) {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        let done = self.command("sh").args(["-c", &format!("echo {value} >{path}")]).status();
        assert!(done.expect("nsenter is installed").success(), "{key}");
    }

    pub fn read_sysctl(&self, key: &str) -> String {
        let read = self.command("cat").arg(format!("/proc/sys/{}", key.replace('.', "/"))).output();
        String::from_utf8_lossy(&read.expect("nsenter is installed").stdout).trim().to_owned()
    }

    /// Runs `make` in the namespace, and returns its socket.
    pub fn socket<T: Send + 'static>(&self, make: impl FnOnce() -> T + Send + 'static) -> T {
        let namespace = fs::File::open(format!("/proc/{}/ns/net", self.id())).expect("it is held");
        let thread = std::thread::spawn(move || {
            let raw = std::os::fd::AsRawFd::as_raw_fd(&namespace);
            // SAFETY: it changes this thread alone, which ends here.
            assert_eq!(unsafe { libc::setns(raw, libc::CLONE_NEWNET) }, 0);
            make()
        });
        thread.join().expect("the namespace is there")
    }
}
