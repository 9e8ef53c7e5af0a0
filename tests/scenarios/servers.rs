//! Servers of Debian on the other end of a cable: dnsmasq, and Kea for each family. `hack/deps` installs them.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use kelson_tests::{eventually, skip};

use super::cable::{Cable, Guard, Log};

/// The networks and the address of the server; the host gets what ends with the number of the test.
const V6: &str = "2001:db8:5::";

/// What a server gives, and for how many seconds.
#[derive(Clone, Copy)]
pub struct Gift {
    /// The last part of the address: of IPv4 as it is, of IPv6 behind `2001:db8:5::`.
    pub last: u8,
    /// How many addresses follow it.
    pub more: u8,
    /// When more time is asked for, and when the address ends.
    pub times: (u32, u32),
}

impl Gift {
    pub fn of(last: u8, renew: u32, end: u32) -> Gift {
        Gift { last, more: 0, times: (renew, end) }
    }
}

/// Whether these programs are there; the test says so if not.
pub fn are_installed(programs: &[&str]) -> bool {
    let is_there = |program: &&&str| {
        ["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(program).exists())
    };
    match programs.iter().find(|program| !is_there(program)) {
        None => true,
        Some(program) => {
            skip(&format!("{program} is not installed: hack/deps"));
            false
        }
    }
}

impl Cable {
    /// Gives the server an address of IPv6, at once, and waits until the kernel has asked for that of the link.
    pub fn with_v6(self) -> Cable {
        self.server.ip(&format!("-6 address add {V6}1/64 dev srv nodad"));
        self.host.ip("link set eth0 up");
        eventually("the address of the link", || {
            !self.server.ip("-6 address show dev srv scope link").contains("tentative")
        });
        self
    }

    /// The addresses of IPv6 that the host has on an interface, but those of the link.
    pub fn v6(&self, interface: &str) -> Vec<String> {
        let text = self.host.ip(&format!("-6 -oneline address show dev {interface} scope global"));
        text.lines().filter_map(|line| line.split_whitespace().nth(3)).map(str::to_owned).collect()
    }

    /// Kea for DHCPv4.
    pub fn kea4(&self, gift: Gift) -> (Guard, Log) {
        let Gift { last, more, times: (renew, end) } = gift;
        let text = format!(
            r#"{{"Dhcp4": {{"interfaces-config": {{"interfaces": ["srv"], "dhcp-socket-type": "raw"}},
            "lease-database": {{"type": "memfile", "persist": false}},
            "renew-timer": {renew}, "rebind-timer": {rebind}, "valid-lifetime": {end},
            "option-data": [{{"name": "routers", "data": "192.0.2.1"}},
                {{"name": "domain-name-servers", "data": "192.0.2.53"}}],
            "subnet4": [{{"subnet": "192.0.2.0/24", "pools": [{{"pool": "192.0.2.{last}-192.0.2.{}"}}]}}],
            "loggers": [{LOG}]}}}}"#,
            last + more,
            rebind = (renew + end) / 2,
        );
        self.kea("kea-dhcp4", &text.replace("NAME", "kea-dhcp4"), "DHCP4_STARTED")
    }

    /// Kea for DHCPv6, which also delegates prefixes of 56 bits.
    pub fn kea6(&self, gift: Gift) -> (Guard, Log) {
        let Gift { last, more, times: (renew, end) } = gift;
        let text = format!(
            r#"{{"Dhcp6": {{"interfaces-config": {{"interfaces": ["srv"]}},
            "data-directory": "{folder}", "server-id": {{"type": "LL", "persist": false}},
            "lease-database": {{"type": "memfile", "persist": false}},
            "renew-timer": {renew}, "rebind-timer": {rebind}, "preferred-lifetime": {end}, "valid-lifetime": {end},
            "option-data": [{{"name": "dns-servers", "data": "{V6}53"}},
                {{"name": "domain-search", "data": "example.test"}}],
            "subnet6": [{{"subnet": "{V6}/64", "interface": "srv", "pools": [{{"pool": "{V6}{last}-{V6}{}"}}],
                "pd-pools": [{{"prefix": "2001:db8:100::", "prefix-len": 48, "delegated-len": 56}}]}}],
            "loggers": [{LOG}]}}}}"#,
            last + more,
            rebind = (renew + end) / 2,
            folder = self.folder.display(),
        );
        self.kea("kea-dhcp6", &text.replace("NAME", "kea-dhcp6"), "DHCP6_STARTED")
    }

    fn kea(&self, program: &str, configuration: &str, started: &str) -> (Guard, Log) {
        let path = self.folder.join(format!("{program}.json"));
        fs::write(&path, configuration).expect("a file");
        let mut command = self.server.command(program);
        command.arg("-c").arg(path).env("KEA_PIDFILE_DIR", &self.folder).env("KEA_LOCKFILE_DIR", "none");
        command.stdout(Stdio::piped());
        let mut server = Guard(command.spawn().expect("Kea is installed"));
        let lines = Log::of(server.0.stdout.take().expect("piped"));
        eventually("Kea to have started", || lines.count(started) > 0);
        (server, lines)
    }

    /// dnsmasq with these options.
    pub fn dnsmasq(&self, options: &[&str]) -> (Guard, Log) {
        let mut command = self.server.command("dnsmasq");
        command.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--port=0",
        ]);
        command.args([
            "--log-facility=-",
            "--log-dhcp",
            "--interface=srv",
            "--bind-interfaces",
            "--pid-file=",
        ]);
        command.arg(format!("--dhcp-leasefile={}", self.folder.join("leases").display()));
        command.args(["--no-ping", "--user=root"]).args(options).stderr(Stdio::piped());
        let mut server = Guard(command.spawn().expect("dnsmasq is installed"));
        let lines = Log::of(server.0.stderr.take().expect("piped"));
        eventually("dnsmasq to have started", || lines.count("started") > 0);
        (server, lines)
    }

    /// Changes of addresses and routes of IPv6 from now on.
    pub fn monitor_v6(&self) -> (Guard, Log) {
        let mut command = self.host.command("ip");
        command.args(["-6", "monitor", "address"]).stdout(Stdio::piped());
        let mut monitor = Guard(command.spawn().expect("ip is installed"));
        let lines = Log::of(monitor.0.stdout.take().expect("piped"));
        eventually("ip to listen", || {
            self.host.ip("-6 address replace 2001:db8:ffff::1/128 dev lo");
            self.host.ip("-6 address del 2001:db8:ffff::1/128 dev lo");
            lines.count("2001:db8:ffff::1") > 0
        });
        (monitor, lines)
    }
}

/// Of Kea: its messages, on its standard output.
const LOG: &str = r#"{"name": "NAME", "severity": "DEBUG", "debuglevel": 45,
    "output_options": [{"output": "stdout", "flush": true}]}"#;

/// Addresses of IPv6 that went, except those that show that the monitor listens.
pub fn deleted_v6(lines: &Log) -> Vec<String> {
    let own =
        |line: &String| line.starts_with("Deleted") && line.contains("inet6") && !line.contains("ffff::1");
    lines.all().into_iter().filter(own).collect()
}
