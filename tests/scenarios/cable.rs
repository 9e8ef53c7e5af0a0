//! A host and its neighbour, each in a network namespace of its own, with a cable between them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use kelson_spec::network::InterfaceSpec;
pub use kelson_tests::namespace::{Guard, Log, Namespace};
use kelson_tests::paths::binary;
use kelson_tests::{PATIENCE, eventually, until};

/// Interfaces of the machine file, as kelson-spec has them.
pub const PROBED: &str = r#"{"matches":{"Name":"eth0"},"dhcp":{"probe":true},"dns":["192.0.2.54"]}"#;
pub const UNPROBED: &str = r#"{"matches":{"Name":"eth0"},"dhcp":{"probe":false},"dns":["192.0.2.54"]}"#;

/// As PID 1 passes it to `kelson-net`.
fn word(json: &str) -> String {
    serde_json::from_str::<InterfaceSpec>(json).expect("an interface").to_word()
}

/// `eth0` of a host, and `srv` of its server, which has 192.0.2.1.
pub struct Cable {
    pub host: Namespace,
    pub server: Namespace,
    pub folder: PathBuf,
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Cable {
    pub fn new() -> Cable {
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
    pub fn serve(&self, last: u8, seconds: u32) -> (Guard, Log) {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let (leases, pid) = (path(&format!("leases-{last}")), path("pid"));
        fs::write(&leases, "").expect("a file");
        let text = format!(
            "start 192.0.2.{last}\nend 192.0.2.{last}\ndecline_time 1\ninterface srv\nlease_file {leases}\npidfile {pid}\nmin_lease 1\n\
             opt lease {seconds}\nopt subnet 255.255.255.0\nopt router 192.0.2.1\nopt dns 192.0.2.53\n\
             opt domain example.test\nopt mtu 1400\nopt ntpsrv 192.0.2.123\nopt hostname edge-7\n"
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

    /// `kelson-net` for these interfaces, and what it logs.
    pub fn client(&self, interfaces: &[&str]) -> (Guard, Log) {
        let mut command = self.host.command("bash");
        // nsenter cannot change the name under which a program runs.
        command.args(["-c", "exec -a kelson-net \"$@\"", "bash"]).arg(binary("init")).arg(self.state());
        command.args(interfaces.iter().map(|spec| word(spec))).stdout(Stdio::piped());
        // Where a test listens as PID 1 does.
        let notify = self.folder.join("notify");
        if notify.exists() {
            command.env("NOTIFY_SOCKET", notify);
        }
        let mut client = Guard(command.spawn().expect("nsenter is installed"));
        let lines = Log::of(client.0.stdout.take().expect("piped"));
        (client, lines)
    }

    /// Whether the host has this link.
    pub fn has_link(&self, name: &str) -> bool {
        self.host.ip("-oneline link show").contains(&format!(" {name}: "))
    }

    pub fn state(&self) -> PathBuf {
        self.folder.join("net")
    }

    /// The IPv4 addresses of `eth0`.
    pub fn addresses(&self) -> Vec<String> {
        let text = self.host.ip("-4 -oneline address show dev eth0");
        text.lines().filter_map(|line| line.split_whitespace().nth(3)).map(str::to_owned).collect()
    }

    pub fn wait_for(&self, address: &str) {
        until(address, PATIENCE, || (self.addresses() == [address]).then_some(()));
    }

    /// What changes from now on.
    pub fn monitor(&self) -> (Guard, Log) {
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
pub fn deleted(lines: &Log) -> Vec<String> {
    let own = |line: &String| line.starts_with("Deleted") && !line.contains("198.51.100.1");
    lines.all().into_iter().filter(own).collect()
}
