//! A machine in QEMU: what `make image` built, booted by `hack/vm` with the test's configuration.
//!
//! Boots are heavy, so three tests at most have machines on this computer at the same time, whatever runs the tests: locks
//! on files see to it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::ctl::{Ctl, Output, Service};
use crate::deadline::until;
use crate::host::{fill_in, new_dir, process, with_name};
use crate::port::free_port;
use crate::{paths, remote};

/// How long a boot may take under software emulation, with other tests beside it.
pub const BOOT_PATIENCE: Duration = Duration::from_secs(120);

/// Where the test's own folder and its program are on the machine.
const MACHINE_DIR: &str = "/etc/kelson";

/// How a machine is to be, before it boots.
#[derive(Debug, Default)]
pub struct VmBuilder {
    name: String,
    services: BTreeMap<String, String>,
    machine: Option<String>,
    demo: bool,
    images: Option<PathBuf>,
    programs: Vec<(String, PathBuf)>,
    binaries: Vec<&'static str>,
    /// Further files of `$DIR`, with their permissions and texts.
    files: Vec<(String, u32, String)>,
    /// Files of this computer, by their names below `$DIR`.
    copies: Vec<(&'static str, &'static str)>,
    archives: Vec<(String, Vec<u8>)>,
    forwards: BTreeMap<u16, u16>,
    /// More arguments of `hack/vm`.
    arguments: Vec<OsString>,
    console_reader: bool,
    longest: Option<Duration>,
    root_disk: Option<PathBuf>,
    /// Of the root disk.
    packages: Option<PathBuf>,
    reboots: bool,
}

impl VmBuilder {
    /// Adds a service file, as for a host; `$DIR` is `/etc/kelson` on the machine.
    pub fn service(mut self, name: &str, yaml: &str) -> VmBuilder {
        self.services.insert(name.to_owned(), yaml.to_owned());
        self
    }

    /// Adds a service that runs these steps of `kelson-test-program`.
    pub fn runs(self, name: &str, steps: &str) -> VmBuilder {
        self.runs_with(name, steps, "")
    }

    /// As [`VmBuilder::runs`], with more lines in its file.
    pub fn runs_with(self, name: &str, steps: &str, more: &str) -> VmBuilder {
        self.service(name, &process(steps, more))
    }

    /// The machine file; its network and API are added where it has none.
    pub fn machine(mut self, yaml: &str) -> VmBuilder {
        self.machine = Some(yaml.to_owned());
        self
    }

    /// The demo as it is in the image; services and machine file of the builder are not used.
    pub fn demo(mut self) -> VmBuilder {
        self.demo = true;
        self
    }

    /// The service images of this folder.
    pub fn images(mut self, folder: &Path) -> VmBuilder {
        self.images = Some(folder.to_owned());
        self
    }

    /// Adds a service image of this name that holds `kelson-test-program` alone, at `/kelson-test-program`.
    pub fn program_image(mut self, reference: &str) -> VmBuilder {
        self.programs.push((reference.to_owned(), paths::binary("kelson-test-program")));
        self
    }

    /// Brings one more binary of the tests along, into `$DIR`.
    pub fn binary(mut self, name: &'static str) -> VmBuilder {
        self.binaries.push(name);
        self
    }

    /// Adds a file of this computer below `$DIR`.
    pub fn copy(mut self, name: &'static str, from: &'static str) -> VmBuilder {
        self.copies.push((name, from));
        self
    }

    /// Adds a file below `$DIR`.
    pub fn file(mut self, name: impl Into<String>, mode: u32, text: impl Into<String>) -> VmBuilder {
        self.files.push((name.into(), mode, text.into()));
        self
    }

    /// Adds an archive of service images, under this name of a file.
    pub fn archive(mut self, name: &str, bytes: Vec<u8>) -> VmBuilder {
        self.archives.push((name.to_owned(), bytes));
        self
    }

    /// The machine has containerd, also where the image has none.
    pub fn with_containerd(self) -> VmBuilder {
        self.arguments(["--containerd".as_ref(), "1.6".as_ref()])
    }

    /// The machine has no containerd.
    pub fn without_containerd(self) -> VmBuilder {
        self.arguments(["--containerd".as_ref(), "none".as_ref()])
    }

    /// The machine has nft.
    pub fn nft(self) -> VmBuilder {
        self.arguments(["--nft".as_ref()])
    }

    /// Lets the test reach this port of the machine: [`Vm::get`].
    pub fn forward(mut self, port: u16) -> VmBuilder {
        self.forwards.insert(port, free_port());
        self
    }

    /// More words for the kernel's command line.
    pub fn append(self, words: &str) -> VmBuilder {
        self.arguments(["--append".as_ref(), words.as_ref()])
    }

    /// More words for QEMU.
    pub fn qemu(self, words: &str) -> VmBuilder {
        self.arguments(["--qemu".as_ref(), words.as_ref()])
    }

    /// One processor and a clock that counts its instructions, a nanosecond each: how long something takes on the
    /// machine does not depend on this computer.
    pub fn instructions(self) -> VmBuilder {
        self.arguments(["--instructions".as_ref()])
    }

    /// As [`VmBuilder::instructions`], and the clock skips the time in which the machine rests. Nothing outside keeps up with
    /// it: the test reads the console.
    pub fn skip_idle(self) -> VmBuilder {
        self.arguments(["--skip-idle".as_ref()])
    }

    /// Lets the test decide whether the console is read: [`Vm::read_console`].
    pub fn console_reader(mut self) -> VmBuilder {
        self.console_reader = true;
        self
    }

    /// For how long it may run; ten minutes otherwise.
    pub fn longest(mut self, longest: Duration) -> VmBuilder {
        self.longest = Some(longest);
        self
    }

    /// Continues from the snapshot of a machine that was built in the same way: [`Vm::snapshot`].
    pub fn incoming(self, file: &Path) -> VmBuilder {
        self.arguments(["--incoming".as_ref(), file.as_os_str()])
    }

    /// Gives QEMU a monitor at this socket.
    pub fn monitor(self, socket: &Path) -> VmBuilder {
        self.qemu(&format!("-monitor unix:{},server=on,wait=off", socket.display()))
    }

    /// A disk that keeps what is written; made when the file does not exist.
    pub fn disk(self, file: &Path) -> VmBuilder {
        self.arguments(["--disk".as_ref(), file.as_os_str()])
    }

    /// Writes down all that is written to that disk: see [`crate::Drive`].
    pub fn disk_log(self, file: &Path) -> VmBuilder {
        self.arguments(["--disk-log".as_ref(), file.as_os_str()])
    }

    /// Another disk, after that one: a file, or `unix:SOCKET` of an NBD server.
    pub fn second_disk(self, source: &str) -> VmBuilder {
        self.arguments(["--second-disk".as_ref(), source.as_ref()])
    }

    fn arguments<const N: usize>(mut self, words: [&OsStr; N]) -> VmBuilder {
        self.arguments.extend(words.map(OsStr::to_owned));
        self
    }

    /// Boots from an ext4 disk with Debian on it, through Debian's own initramfs. The file is
    /// made here, with the builder's configuration.
    pub fn root_disk(mut self, file: &Path) -> VmBuilder {
        self.root_disk = Some(file.to_owned());
        self
    }

    /// The packages of Debian on the root disk: a list for `hack/disk`.
    pub fn packages(mut self, list: &Path) -> VmBuilder {
        self.packages = Some(list.to_owned());
        self
    }

    /// The memory of the machine in MiB.
    pub fn memory(self, mebibytes: u32) -> VmBuilder {
        self.arguments(["--memory".as_ref(), mebibytes.to_string().as_ref()])
    }

    /// A reboot boots it again; otherwise one ends it.
    pub fn reboots(mut self) -> VmBuilder {
        self.reboots = true;
        self
    }

    /// Boots it and returns once it answers over TLS.
    #[track_caller]
    pub fn boot(self) -> Vm {
        let mut vm = self.start();
        vm.wait_answer();
        vm
    }

    /// Begins to boot it.
    #[track_caller]
    pub fn start(self) -> Vm {
        self.start_in(turn())
    }

    #[track_caller]
    fn start_in(self, turn: Arc<File>) -> Vm {
        let top = paths::top();
        let dir = new_dir();
        let config = dir.join("config");
        if !self.demo {
            self.write_config(&config);
        }
        let log = paths::test_logs().join(format!("{}.console", self.name));
        let port = free_port();
        // Messages of an earlier boot must not be taken for this one's.
        let _ = fs::remove_file(&log);
        let mut command = Command::new(top.join("hack/vm"));
        let longest = self.longest.unwrap_or(Duration::from_secs(600)).as_secs();
        command.args(["--port", &port.to_string(), "--timeout", &longest.to_string()]).arg("--log").arg(&log);
        if let Some(file) = &self.root_disk {
            let config = (!self.demo).then(|| ["--config".as_ref(), config.as_os_str()]);
            make_disk(self.packages.as_deref(), config.iter().flatten().copied().chain([file.as_os_str()]));
            command.arg("--root-disk").arg(file);
        } else if !self.demo {
            command.arg("--config").arg(&config);
        }
        if let Some(images) = self.all_images(&dir) {
            command.arg("--images").arg(images);
        }
        for (machine, here) in &self.forwards {
            command.args(["--forward", &format!("{here}:{machine}")]);
        }
        command.args(&self.arguments);
        if !self.reboots {
            command.arg("--no-reboot");
        }
        if self.console_reader {
            command.arg("--console-reader").arg(dir.join("reader"));
        }
        let said = dir.join("said");
        let output = File::create(&said).expect("the test's folder is writable");
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("a descriptor")).stderr(output);
        // SAFETY: between fork and exec only prctl(2), which allocates nothing.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        let child = command.spawn().expect("hack/vm can be started");

        let contexts = dir.join("kelsonconfig");
        remote::contexts(port, &contexts);
        Vm {
            child,
            ctl: Ctl::with_config(contexts),
            port,
            log,
            dir,
            forwards: self.forwards,
            ended: false,
            _turn: turn,
        }
    }

    /// One folder with the images of the given one and those of the builder; `None` when there are none.
    fn all_images(&self, dir: &Path) -> Option<PathBuf> {
        if self.programs.is_empty() && self.archives.is_empty() {
            return self.images.clone();
        }
        let all = dir.join("images");
        fs::create_dir_all(&all).expect("the test's folder is writable");
        for archive in
            self.images.iter().flat_map(|folder| fs::read_dir(folder).expect("the folder of images"))
        {
            let archive = archive.expect("the folder of images").path();
            fs::copy(&archive, all.join(archive.file_name().expect("a file")))
                .expect("an archive can be copied");
        }
        for (name, bytes) in &self.archives {
            fs::write(all.join(name), bytes).expect("the test's folder is writable");
        }
        for (number, (reference, program)) in self.programs.iter().enumerate() {
            let mut make = Command::new(paths::top().join("hack/images"));
            make.arg("--program").arg(program).arg(reference).arg(all.join(format!("program-{number}.tar")));
            let made = make.output().expect("hack/images can be started");
            assert!(made.status.success(), "hack/images: {}", String::from_utf8_lossy(&made.stderr));
        }
        Some(all)
    }

    fn write_config(&self, config: &Path) {
        let folder = Path::new(MACHINE_DIR);
        let program = folder.join("kelson-test-program");
        fs::create_dir_all(config.join("services")).expect("the test's folder is writable");
        for (name, yaml) in &self.services {
            let text = with_name(name, &fill_in(yaml, &program, folder));
            fs::write(config.join(format!("services/{name}.yaml")), text).expect("the folder is writable");
        }
        let machine = fill_in(self.machine.as_deref().unwrap_or_default(), &program, folder);
        fs::write(config.join("machine.yaml"), machine).expect("the folder is writable");
        for (name, mode, text) in &self.files {
            let file = config.join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("the test's folder is writable");
            fs::write(&file, text).expect("the folder is writable");
            fs::set_permissions(&file, fs::Permissions::from_mode(*mode)).expect("the file is ours");
        }
        for (name, from) in &self.copies {
            fs::copy(from, config.join(name)).unwrap_or_else(|error| panic!("{from}: {error}"));
        }
        // They travel with the configuration.
        for name in self.binaries.iter().chain(&["kelson-test-program"]) {
            fs::copy(paths::binary(name), config.join(name)).expect("a program can be copied");
        }
    }
}

/// A running machine. When it is dropped, QEMU is ended; if the test fails, the console's end is printed.
#[derive(Debug)]
pub struct Vm {
    child: Child,
    ctl: Ctl,
    port: u16,
    log: PathBuf,
    dir: PathBuf,
    forwards: BTreeMap<u16, u16>,
    ended: bool,
    _turn: Arc<File>,
}

impl Vm {
    /// `name` names the console's file in `out/test-logs`.
    pub fn builder(name: &str) -> VmBuilder {
        VmBuilder { name: name.to_owned(), ..VmBuilder::default() }
    }

    /// Boots these at the same time and returns once all answer.
    #[track_caller]
    pub fn together<const N: usize>(builders: [VmBuilder; N]) -> [Vm; N] {
        let turn = turn();
        let mut machines = builders.map(|builder| builder.start_in(Arc::clone(&turn)));
        machines.iter_mut().for_each(Vm::wait_answer);
        machines
    }

    /// The port of this computer at which it answers.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns once it answers over TLS.
    #[track_caller]
    pub fn wait_answer(&mut self) {
        self.wait_answer_for(BOOT_PATIENCE);
    }

    /// As [`Vm::wait_answer`], for a machine that takes longer to boot.
    #[track_caller]
    pub fn wait_answer_for(&mut self, patience: Duration) {
        until("the machine to answer", patience, || {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                panic!("the machine ended before it answered, {status}: {}", self.said());
            }
            (self.ctl(&["version"]).status == 0).then_some(())
        });
    }

    /// Cuts the machine's power, in the middle of what it does; returns once QEMU has let go of its disks. False: the
    /// machine was off already.
    #[track_caller]
    pub fn cut(&mut self) -> bool {
        self.signal(libc::SIGUSR1);
        assert!(self.wait_end(), "hack/vm: {}", self.said());
        self.said().contains("cut the power")
    }

    /// Saves the machine into this file, which stops it, and ends QEMU. Of a machine with a [monitor](VmBuilder::monitor).
    #[track_caller]
    pub fn snapshot(&mut self, monitor: &Path, file: &Path) {
        let mut socket = UnixStream::connect(monitor).expect("QEMU has a monitor");
        let save = format!("migrate \"exec:cat >'{}'\"\ninfo migrate\nquit\n", file.display());
        socket.write_all(save.as_bytes()).expect("the monitor takes commands");
        let mut said = String::new();
        // It closes the connection with its end.
        let _ = socket.read_to_string(&mut said);
        assert!(said.contains("Migration status: completed"), "{said}");
        let _ = self.child.wait();
        self.ended = true;
    }

    /// Gives QEMU a command and returns its answer. Of a machine with a [monitor](VmBuilder::monitor).
    #[track_caller]
    pub fn tell(&self, monitor: &Path, command: &str) -> String {
        const PROMPT: &str = "(qemu) ";
        let mut socket = UnixStream::connect(monitor).expect("QEMU has a monitor");
        socket.write_all(format!("{command}\n").as_bytes()).expect("the monitor takes commands");
        // A prompt stands before the command, and another after its answer.
        let (mut said, mut byte) = (Vec::new(), [0]);
        while String::from_utf8_lossy(&said).matches(PROMPT).count() < 2
            && socket.read(&mut byte).unwrap_or(0) == 1
        {
            said.push(byte[0]);
        }
        String::from_utf8_lossy(&said).into_owned()
    }

    fn signal(&self, signal: i32) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // SAFETY: kill(2) has no preconditions; the child is not reaped yet.
            unsafe { libc::kill(pid, signal) };
        }
    }

    /// Runs a command of kelsonctl over TLS.
    pub fn ctl(&self, args: &[&str]) -> Output {
        self.ctl.run(args)
    }

    /// The client itself: events, streams, waits.
    pub fn client(&self) -> &Ctl {
        &self.ctl
    }

    #[track_caller]
    pub fn services(&self) -> Vec<Service> {
        self.ctl.services()
    }

    /// Returns when all these services are up.
    #[track_caller]
    pub fn wait_up(&self, names: &[&str]) {
        let timeout = format!("{}s", BOOT_PATIENCE.as_secs());
        let mut args = vec!["wait"];
        args.extend(names);
        args.extend(["--for", "up", "--timeout", &timeout]);
        self.ctl(&args).ok();
    }

    /// Sends a GET to a web server at a forwarded port of the machine, and returns the status and the text.
    ///
    /// # Errors
    /// Nobody answers there, or not in time, or no HTTP.
    #[track_caller]
    pub fn get(&self, port: u16, path: &str) -> io::Result<(u16, String)> {
        let mut server = self.connect(port)?;
        server.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        server.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        match (status, answer.split_once("\r\n\r\n")) {
            (Some(status), Some((_, text))) => Ok((status, text.to_owned())),
            _ => Err(io::Error::other(format!("no HTTP: {answer:?}"))),
        }
    }

    /// The first line that a program says to who connects to a port of the machine.
    ///
    /// # Errors
    /// Nobody answers there, or not in time.
    #[track_caller]
    pub fn first_line(&self, port: u16) -> io::Result<String> {
        let mut line = String::new();
        BufReader::new(self.connect(port)?).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    #[track_caller]
    fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let here = self.forwards.get(&port).unwrap_or_else(|| panic!("port {port} is not forwarded"));
        let server = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], *here)))?;
        let patience = Some(Duration::from_secs(20));
        server.set_read_timeout(patience)?;
        server.set_write_timeout(patience)?;
        Ok(server)
    }

    /// The serial console so far.
    pub fn console(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).replace('\r', "")).unwrap_or_default()
    }

    /// From now on the console is read, or not: then it takes 64 KiB more. Of a machine with a
    /// [reader](VmBuilder::console_reader).
    #[track_caller]
    pub fn read_console(&self, reads: bool) {
        let reader = fs::read_to_string(self.dir.join("reader")).expect("hack/vm has written it");
        let reader = reader.trim().parse().expect("a PID");
        // SAFETY: a system call on numbers.
        let sent = unsafe { libc::kill(reader, if reads { libc::SIGCONT } else { libc::SIGSTOP }) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    }

    /// Returns the console once it holds this text.
    #[track_caller]
    pub fn wait_console(&self, text: &str) -> String {
        until(&format!("\"{text}\" on the console"), BOOT_PATIENCE, || {
            Some(self.console()).filter(|console| console.contains(text))
        })
    }

    /// Asks for a power off and returns once the machine is off; panics unless it was a clean one.
    #[track_caller]
    pub fn poweroff(&mut self) {
        self.ctl(&["poweroff"]).ok();
        assert!(self.wait_end(), "hack/vm did not see a clean power off: {}", self.said());
    }

    /// Returns once QEMU has ended; whether it was after a clean power off.
    #[track_caller]
    pub fn wait_end(&mut self) -> bool {
        self.wait_end_for(BOOT_PATIENCE)
    }

    /// As [`Vm::wait_end`], for a machine that runs longer.
    #[track_caller]
    pub fn wait_end_for(&mut self, patience: Duration) -> bool {
        self.wait_status_for(patience) == Some(0)
    }

    /// Returns once QEMU has ended, with the status of hack/vm: that of QEMU, where the machine has isa-debug-exit.
    #[track_caller]
    pub fn wait_status(&mut self) -> Option<i32> {
        self.wait_status_for(BOOT_PATIENCE)
    }

    #[track_caller]
    fn wait_status_for(&mut self, patience: Duration) -> Option<i32> {
        let child = &mut self.child;
        let status = until("the machine to end", patience, || child.try_wait().expect("it is our child"));
        self.ended = true;
        status.code()
    }

    /// The messages of hack/vm itself.
    pub fn said(&self) -> String {
        fs::read_to_string(self.dir.join("said")).unwrap_or_default()
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        if !self.ended {
            // Not SIGKILL: hack/vm ends QEMU and cleans up.
            self.signal(libc::SIGTERM);
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let console = self.console();
            let lines: Vec<&str> = console.lines().collect();
            eprintln!(
                "---- the end of the console ----\n{}\n---- all of it: {}; hack/vm said: {} ----",
                lines[lines.len().saturating_sub(150)..].join("\n"),
                self.log.display(),
                self.said()
            );
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The folder of Debian with the packages of a list, as `hack/disk` puts it on a root disk.
#[track_caller]
pub fn debian(packages: &Path) -> PathBuf {
    make_disk(Some(packages), ["--tree".as_ref()]).trim().into()
}

/// Runs `hack/disk` and returns its output.
#[track_caller]
fn make_disk<'a>(packages: Option<&Path>, arguments: impl IntoIterator<Item = &'a OsStr>) -> String {
    let mut make = Command::new(paths::top().join("hack/disk"));
    make.args(packages.iter().flat_map(|list| ["--packages".as_ref(), list.as_os_str()])).args(arguments);
    Output::of(make, "hack/disk").ok().stdout
}

/// At most this many tests have machines running at the same time: `.config/nextest.toml`. A machine waits for about half
/// of its time.
const MACHINES: u32 = 3;

/// Waits until fewer than [`MACHINES`] tests have machines running; the turn ends with the last copy.
#[track_caller]
fn turn() -> Arc<File> {
    let lock = |number: u32, wait: libc::c_int| {
        let file = paths::test_logs().join(format!(".boots.{number}.lock"));
        let lock = File::create(file).expect("a file to lock");
        // SAFETY: the descriptor is open; the lock goes with it.
        let taken = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | wait) };
        (taken == 0).then(|| Arc::new(lock))
    };
    let free = (0..MACHINES).find_map(|number| lock(number, libc::LOCK_NB));
    free.or_else(|| lock(std::process::id() % MACHINES, 0)).expect("flock(2)")
}
