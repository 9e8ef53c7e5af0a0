//! `kelson-net` on one end of a cable, udhcpd of busybox on the other, each in a network namespace of its own.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kelson_tests::paths::binary;
use kelson_tests::{PATIENCE, eventually, until};

/// A process that ends with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that a process has written.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn of(pipe: impl std::io::Read + Send + 'static) -> Log {
        let lines = Log::default();
        let kept = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                kept.0.lock().expect("nobody panics with it").push(line);
            }
        });
        lines
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("nobody panics with it").clone()
    }

    fn count(&self, part: &str) -> usize {
        self.all().iter().filter(|line| line.contains(part)).count()
    }
}

/// A network namespace: a process that holds it.
struct Namespace(Guard);

impl Namespace {
    fn new() -> Namespace {
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

    fn id(&self) -> String {
        self.0.0.id().to_string()
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.id(), "--"]).arg(program);
        command
    }

    fn ip(&self, words: &str) -> String {
        let done = self.command("ip").args(words.split(' ')).output().expect("ip is installed");
        assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    }

    /// Runs `make` in the namespace, and returns its socket.
    fn socket<T: Send + 'static>(&self, make: impl FnOnce() -> T + Send + 'static) -> T {
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

/// `eth0` of a host, and `srv` of its server, which has 192.0.2.1.
struct Cable {
    host: Namespace,
    server: Namespace,
    folder: PathBuf,
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Cable {
    fn new() -> Cable {
        let (host, server) = (Namespace::new(), Namespace::new());
        let folder = std::env::temp_dir().join(format!("kelson-dhcp-{}", host.id()));
        fs::create_dir(&folder).expect("a new folder");
        // Also for a user who is not root.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
        host.ip("link set lo up");
        host.ip(&format!("link add eth0 type veth peer name srv netns {}", server.id()));
        server.ip("address add 192.0.2.1/24 dev srv");
        server.ip("link set srv up");
        Cable { host, server, folder }
    }

    /// A server that gives 192.0.2.`last` for some seconds, and its messages.
    fn serve(&self, last: u8, seconds: u32) -> (Guard, Log) {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let (leases, pid) = (path(&format!("leases-{last}")), path("pid"));
        fs::write(&leases, "").expect("a file");
        let text = format!(
            "start 192.0.2.{last}\nend 192.0.2.{last}\ndecline_time 1\ninterface srv\nlease_file {leases}\npidfile {pid}\nmin_lease 1\n\
             opt lease {seconds}\nopt subnet 255.255.255.0\nopt router 192.0.2.1\nopt dns 192.0.2.53\n\
             opt domain example.test\nopt mtu 1400\nopt ntpsrv 192.0.2.123\n"
        );
        fs::write(path("udhcpd.conf"), text).expect("a file");
        let server = self
            .server
            .command("busybox")
            .args(["udhcpd", "-f", "-a", "1", &path("udhcpd.conf")])
            .stderr(Stdio::piped())
            .spawn();
        let mut server = Guard(server.expect("busybox is installed"));
        let lines = Log::of(server.0.stderr.take().expect("piped"));
        eventually("udhcpd to have started", || lines.count("started") > 0);
        (server, lines)
    }

    /// `kelson-net`, and what it logs.
    fn client(&self, word: &str) -> (Guard, Log) {
        let mut command = self.host.command("bash");
        // nsenter cannot change the name under which a program runs.
        let shell = format!(
            "exec -a kelson-net {} {} dns=192.0.2.54 {word}",
            binary("init").display(),
            self.state().display()
        );
        command.args(["-c", &shell]).stdout(Stdio::piped());
        let mut client = Guard(command.spawn().expect("nsenter is installed"));
        let lines = Log::of(client.0.stdout.take().expect("piped"));
        (client, lines)
    }

    fn state(&self) -> PathBuf {
        self.folder.join("net")
    }

    /// The IPv4 addresses of `eth0`.
    fn addresses(&self) -> Vec<String> {
        let text = self.host.ip("-4 -oneline address show dev eth0");
        text.lines().filter_map(|line| line.split_whitespace().nth(3)).map(str::to_owned).collect()
    }

    fn wait_for(&self, address: &str) {
        until(address, PATIENCE, || (self.addresses() == [address]).then_some(()));
    }

    /// What changes from now on.
    fn monitor(&self) -> (Guard, Log) {
        let monitor = self
            .host
            .command("ip")
            .args(["-4", "monitor", "address", "route"])
            .stdout(Stdio::piped())
            .spawn();
        let mut monitor = Guard(monitor.expect("ip is installed"));
        let lines = Log::of(monitor.0.stdout.take().expect("piped"));
        // It listens once it sees this.
        eventually("ip to listen", || {
            self.host.ip("address replace 198.51.100.1/32 dev lo");
            self.host.ip("address del 198.51.100.1/32 dev lo");
            lines.count("198.51.100.1") > 0
        });
        (monitor, lines)
    }
}

/// The changes of a kind, except those that show that the monitor listens.
fn deleted(lines: &Log) -> Vec<String> {
    let own = |line: &String| line.starts_with("Deleted") && !line.contains("198.51.100.1");
    lines.all().into_iter().filter(own).collect()
}

fn survives_renewals(count: usize) {
    let cable = Cable::new();
    let (_server, requests) = cable.serve(50, 2);
    let (_client, log) = cable.client("unprobed=eth0");
    cable.wait_for("192.0.2.50/24");
    let listener = cable.server.socket(|| TcpListener::bind("192.0.2.1:7000").expect("a port"));
    let mut near = cable.host.socket(|| TcpStream::connect("192.0.2.1:7000").expect("a connection"));
    let (mut far, _) = listener.accept().expect("it has connected");
    let (_monitor, changes) = cable.monitor();
    let before = requests.count("sending ACK");
    let patience = PATIENCE + Duration::from_secs(2) * u32::try_from(count).expect("few");
    until("the renewals", patience, || (requests.count("sending ACK") >= before + count).then_some(()));
    near.write_all(b"x").expect("it is connected");
    let mut byte = [0];
    far.read_exact(&mut byte).expect("it is connected");
    assert_eq!(deleted(&changes), [""; 0]);
    assert_eq!(log.count("192.0.2.50/24 for "), 1, "{:?}", log.all());
    assert_eq!(requests.count("sending OFFER"), 1, "{:?}", requests.all());
}

#[test]
fn n1_a_connection_survives_renewals_and_nothing_is_deleted() {
    survives_renewals(5);
}

#[test]
fn long_n1_a_connection_survives_a_hundred_renewals() {
    survives_renewals(100);
}

#[test]
fn n1_all_that_the_server_gives_is_configured() {
    let cable = Cable::new();
    let (_server, _) = cable.serve(50, 600);
    let began = Instant::now();
    let (_client, log) = cable.client("dhcp=eth0");
    cable.wait_for("192.0.2.50/24");
    assert!(began.elapsed() > Duration::from_secs(4), "it asks the link first");
    let address = cable.host.ip("-4 address show dev eth0");
    let left = address.split("valid_lft ").nth(1).and_then(|text| text.split("sec").next()?.parse().ok());
    let left: u32 = left.unwrap_or_else(|| panic!("{address}"));
    assert!(address.contains("mtu 1400") && (560..=602).contains(&left), "{address}");
    let routes = cable.host.ip("-4 route show");
    assert!(routes.contains("default via 192.0.2.1 dev eth0 proto dhcp metric "), "{routes}");
    let resolver = cable.folder.join("resolv.conf");
    let text = until("the name servers", PATIENCE, || {
        fs::read_to_string(&resolver).ok().filter(|text| text.contains("192.0.2.53"))
    });
    assert!(text.ends_with("nameserver 192.0.2.54\nnameserver 192.0.2.53\nsearch example.test\n"), "{text}");
    assert_eq!(fs::read_to_string(cable.state().join("ntp-servers")).expect("a file"), "192.0.2.123\n");
    eventually("the log", || {
        log.count("eth0: 192.0.2.50/24 for 9m5") == 1
            && log.count(" from 192.0.2.1, default route by 192.0.2.1") == 1
    });
}

#[test]
fn n2_without_its_server_the_address_lasts_to_the_end_of_the_lease() {
    let cable = Cable::new();
    let (server, requests) = cable.serve(50, 4);
    let (_client, log) = cable.client("unprobed=eth0");
    cable.wait_for("192.0.2.50/24");
    let last =
        until("an acknowledgement", PATIENCE, || (requests.count("sending ACK") > 0).then(Instant::now));
    drop(server);
    eventually("the address to go", || cable.addresses().is_empty());
    assert!(last.elapsed() >= Duration::from_secs(2), "{:?}", last.elapsed());
    eventually("its reason", || log.count("192.0.2.50/24 is removed: no server has extended it") == 1);
    assert_eq!(cable.host.ip("-4 route show"), "");

    let (_server, _) = cable.serve(70, 600);
    cable.wait_for("192.0.2.70/24");
}

#[test]
fn n2_another_address_is_there_before_the_last_one_goes() {
    let cable = Cable::new();
    let (server, _) = cable.serve(50, 600);
    let (_client, log) = cable.client("unprobed=eth0");
    cable.wait_for("192.0.2.50/24");
    let (_monitor, changes) = cable.monitor();
    drop(server);
    let (_server, _) = cable.serve(70, 600);
    cable.server.ip("link set srv down");
    cable.server.ip("link set srv up");
    cable.wait_for("192.0.2.70/24");
    eventually("the change", || !deleted(&changes).is_empty());
    let all = changes.all();
    let place = |part: &str| all.iter().position(|line| line.contains(part));
    let (added, gone) = (
        place("inet 192.0.2.70/24"),
        all.iter().position(|line| line.starts_with("Deleted") && line.contains("192.0.2.50/24")),
    );
    assert!(added.is_some() && added < gone, "{all:?} {:?}", log.all());
    assert!(cable.host.ip("-4 route show").contains("default via 192.0.2.1"));
}

#[test]
fn n3_a_client_that_was_killed_asks_for_the_address_that_it_had() {
    let cable = Cable::new();
    let (_server, requests) = cable.serve(50, 600);
    let (client, _) = cable.client("unprobed=eth0");
    cable.wait_for("192.0.2.50/24");
    let (_monitor, changes) = cable.monitor();
    drop(client);
    assert_eq!(cable.addresses(), ["192.0.2.50/24"], "it is the kernel's");
    let before = requests.count("sending ACK");
    let (_client, log) = cable.client("unprobed=eth0");
    eventually("an acknowledgement", || requests.count("sending ACK") > before);
    eventually("the log", || log.count("192.0.2.50/24 for ") == 1);
    assert_eq!(requests.count("sending OFFER"), 1, "{:?}", requests.all());
    assert_eq!(deleted(&changes), [""; 0]);
}

#[test]
fn n5_a_cable_is_pulled_and_plugged_again_and_an_interface_gets_another_name() {
    // The kernel reports such a change once a second.
    survives_cables(10);
}

#[test]
fn long_n5_a_cable_is_pulled_and_plugged_again_fifty_times() {
    survives_cables(50);
}

fn survives_cables(count: usize) {
    let cable = Cable::new();
    let (_server, requests) = cable.serve(50, 600);
    let (_client, log) = cable.client("unprobed=eth0 unprobed=lan0");
    cable.wait_for("192.0.2.50/24");
    let (_monitor, changes) = cable.monitor();
    for _ in 0..count {
        let before = requests.count("sending ACK");
        cable.server.ip("link set srv down");
        cable.server.ip("link set srv up");
        eventually("the request after the cable", || requests.count("sending ACK") > before);
    }
    assert_eq!(cable.addresses(), ["192.0.2.50/24"]);
    let addresses = deleted(&changes).into_iter().filter(|line| line.contains("inet "));
    assert_eq!(addresses.collect::<Vec<_>>(), [""; 0]);
    assert_eq!(requests.count("sending OFFER"), 1);

    cable.host.ip("link set eth0 down");
    cable.host.ip("link set eth0 name lan0");
    cable.host.ip("link set lan0 up");
    eventually("the interface by its new name", || log.count("lan0: ") > 0);
    let text = cable.host.ip("-4 -oneline address show dev lan0");
    assert!(text.contains("192.0.2.50/24"), "{text}");
}

#[test]
fn an_address_that_another_host_has_is_declined() {
    let cable = Cable::new();
    cable.server.ip("address add 192.0.2.50/32 dev srv");
    let (_server, requests) = cable.serve(50, 600);
    let (_client, log) = cable.client("dhcp=eth0");
    eventually("the conflict", || log.count("192.0.2.50 is declined: ") == 1);
    assert_eq!(cable.addresses(), [""; 0]);
    cable.server.ip("address del 192.0.2.50/32 dev srv");
    // It begins again after ten seconds.
    cable.wait_for("192.0.2.50/24");
    assert_eq!(requests.count("sending OFFER"), 2, "{:?}", requests.all());
}
