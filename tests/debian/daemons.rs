//! Units of Debian's packages, unchanged: what `kelsonctl import systemd` makes of them starts, runs and stops.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_tests::vm::debian;
use kelson_tests::{Disk, Service, Vm, VmBuilder, paths};

use crate::{import, packages};

/// The unit of a daemon; `NAME@INSTANCE.service` of a template. Then the units that are parts of it.
type Unit = (&'static str, &'static [&'static str], Sign);

/// How it is seen that a daemon does its work.
#[derive(Clone, Copy)]
enum Sign {
    /// It was ready, as its unit has it, and is running still.
    Up,
    /// It answers on this port of TCP, without being asked.
    Greets(u16),
    /// It answers on this port of TCP with this, asked this.
    Answers(u16, &'static str, &'static str),
    /// A command of it says this.
    Says(&'static str, &'static str),
}
use Sign::{Answers, Greets, Says, Up};

/// Daemons that run at the same time. Those of one port are in different rounds, and those of `STAY` run in all.
const ROUNDS: [&[Unit]; 5] = [
    &[
        ("redis-server.service", &[], Says("redis-cli ping", "PONG")),
        ("memcached.service", &[], Answers(11211, "version", "VERSION 1.6")),
        ("nginx.service", &[], GET_80),
        ("haproxy.service", &[], Answers(8080, "GET / HTTP/1.0\r\n\r", " 200 OK")),
        ("postgresql@15-main.service", &[], Says("runuser -u postgres -- psql -Atc 'SELECT 6 * 7'", "42")),
    ],
    &[
        ("acpid.service", &["acpid.socket"], Up),
        ("atd.service", &[], Up),
        ("cron.service", &[], Up),
        ("haveged.service", &[], Up),
        ("irqbalance.service", &[], Up),
        ("lighttpd.service", &[], GET_80),
        ("mosquitto.service", &[], Up),
        ("named.service", &[], Up),
    ],
    &[
        ("apache2.service", &[], GET_80),
        ("dnsmasq.service", &[], Up),
        ("lldpd.service", &[], Says("lldpcli -f keyvalue show chassis", "local-chassis.chassis.name")),
        ("php8.2-fpm.service", &[], Up),
        ("privoxy.service", &[], Up),
        ("snmpd.service", &[], Up),
        ("ssh.service", &[], Greets(22)),
        ("tor@default.service", &[], Up),
    ],
    &[
        ("avahi-daemon.service", &["avahi-daemon.socket"], Up),
        ("bird.service", &[], Says("birdc show status", "BIRD 2")),
        ("etcd.service", &[], Up),
        ("fail2ban.service", &[], Says("fail2ban-client ping", "Server replied: pong")),
        ("freeradius.service", &[], Up),
        ("nsd.service", &[], Up),
        ("opendkim.service", &[], Up),
    ],
    &[
        ("prometheus-node-exporter.service", &[], Answers(9100, "GET / HTTP/1.0\r\n\r", " 200 OK")),
        ("rpcbind.service", &["rpcbind.socket"], Says("rpcinfo -p 127.0.0.1", "portmapper")),
        ("supervisor.service", &[], Says("supervisorctl version", "4.")),
        ("varnish.service", &[], Answers(6081, "GET / HTTP/1.0\r\n\r", " 503 ")),
        ("vsftpd.service", &[], Greets(21)),
    ],
];

const GET_80: Sign = Answers(80, "GET / HTTP/1.0\r\n\r", " 200 OK");

/// What the others need.
const STAY: [Unit; 2] = [("dbus.service", &["dbus.socket"], Up), ("rsyslog.service", &[], Up)];

/// Of bash: the first line that a port answers, to the line in `$2`.
const ANSWER: &str =
    "exec 3<>/dev/tcp/127.0.0.1/$1 && { [[ ! $2 ]] || printf '%b\\n' \"$2\" >&3; } && head -n1 <&3";

/// What is lost all the same; docs/coming-from/debian-units.md has it too.
const LOST: [&str; 3] = ["haveged.service Before", "haveged.service SecureBits", "rpcbind.service Before"];

/// What systemd does by itself, and a service of the user's own does here.
const FOLDERS: &str = "type: oneshot
process: {command: [/bin/systemd-tmpfiles, --create, --remove, --boot, --exclude-prefix=/dev]}
";

/// A web server is nothing without somebody's configuration; haproxy has none of its own.
const FRONTEND: &str = "type: oneshot
process:
  command:
    - sh
    - -c
    - |
      cat >>/etc/haproxy/haproxy.cfg <<END
      frontend hello
        bind 127.0.0.1:8080
        http-request return status 200 content-type text/plain string hello
      END
";

/// How long a round may take to start under software emulation, beside other tests.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a daemon that is up may take to answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(45);

/// The services of a unit: its own and those beside it.
struct Daemon {
    name: String,
    sign: Sign,
    files: Vec<(String, String)>,
}

/// Reads the unit as its package brings it.
#[track_caller]
fn daemon(tree: &Path, (unit, parts, sign): Unit, lost: &mut Vec<String>) -> Daemon {
    let folder = tree.join("usr/lib/systemd/system");
    let whole = folder.join(unit);
    let (file, instance) = match unit.split_once('@') {
        Some((template, instance)) if !whole.is_file() => {
            (folder.join(format!("{template}@.service")), instance.strip_suffix(".service"))
        }
        _ => (whole, None),
    };
    let files: Vec<PathBuf> = [file].into_iter().chain(parts.iter().map(|part| folder.join(part))).collect();
    let done = import(instance, &files);
    lost.extend(done.lost().iter().map(|what| format!("{unit} {what}")));
    let manual = |text: &str| match text.lines().any(|line| line.starts_with("start:")) {
        true => text.to_owned(),
        false => format!("{text}start: manual\n"),
    };
    let files: Vec<_> = done.files().map(|(name, text)| (name.to_owned(), manual(text))).collect();
    Daemon { name: files[0].0.clone(), sign, files }
}

fn with(vm: VmBuilder, daemon: &Daemon) -> VmBuilder {
    daemon.files.iter().fold(vm, |vm, (name, text)| vm.service(name, text))
}

fn names(daemons: &[Daemon]) -> Vec<&str> {
    daemons.iter().map(|daemon| daemon.name.as_str()).collect()
}

/// Whether it does its work, and the answer.
fn signs(vm: &Vm, sign: Sign) -> Result<(), String> {
    let port;
    let (command, expected): (Vec<&str>, &str) = match sign {
        Up => return Ok(()),
        Greets(number) => {
            port = number.to_string();
            (vec!["bash", "-c", ANSWER, "answer", &port, ""], "")
        }
        Answers(number, question, answer) => {
            port = number.to_string();
            (vec!["bash", "-c", ANSWER, "answer", &port, question], answer)
        }
        Says(command, answer) => (vec!["bash", "-c", command], answer),
    };
    let done = vm.ctl(&[&["exec", "look", "--"], command.as_slice()].concat());
    let is_so = done.status == 0 && done.stdout.contains(expected) && !done.stdout.trim().is_empty();
    is_so.then_some(()).ok_or(format!("{} {:?} {:?}", done.status, done.stdout, done.stderr))
}

fn runs(service: &Service) -> bool {
    service.up && service.state == "running" && service.restarts == 0
}

/// Starts the daemons of a round, waits until all do their work, and stops them. What fails is returned.
fn round(vm: &Vm, daemons: &[Daemon]) -> Vec<String> {
    let mut failed = Vec::new();
    let timeout = format!("{}s", PATIENCE.as_secs());
    let all = names(daemons);
    vm.ctl(&[&["start", "--wait", "--timeout", &timeout], all.as_slice()].concat());
    for daemon in daemons {
        let mut last = Err(String::new());
        let began = std::time::Instant::now();
        while last.is_err() && began.elapsed() < ANSWER_PATIENCE {
            last = signs(vm, daemon.sign);
        }
        failed.extend(last.err().map(|answer| format!("{} does not answer: {answer}", daemon.name)));
    }
    // The others have taken their time meanwhile: a daemon that ended at once would be down by now.
    let state = |services: &[Service], name: &str| services.iter().find(|one| one.name == name).cloned();
    let during = vm.services();
    for name in &all {
        let service = state(&during, name);
        if !service.as_ref().is_some_and(runs) {
            let log = vm.ctl(&["logs", "--tail", "5", name]).stdout;
            failed.push(format!("{name} does not run: {service:?}\n{log}"));
        }
    }
    vm.ctl(&[&["stop", "--wait", "--timeout", &timeout], all.as_slice()].concat());
    let after = vm.services();
    failed.extend(all.iter().filter_map(|name| {
        let service = state(&after, name);
        let is_down = service.as_ref().is_some_and(|service| service.state == "stopped");
        (!is_down).then(|| format!("{name} does not stop: {service:?}"))
    }));
    failed
}

#[test]
fn long_thirty_units_of_debian_run_unchanged() {
    let tree = debian(&packages());
    let mut lost = Vec::new();
    let stay = STAY.map(|unit| daemon(&tree, unit, &mut lost));
    let rounds = ROUNDS
        .map(|units| -> Vec<Daemon> { units.iter().map(|unit| daemon(&tree, *unit, &mut lost)).collect() });
    lost.sort_unstable();
    assert_eq!(lost, LOST);
    let count = stay.len() + rounds.iter().map(Vec::len).sum::<usize>();
    assert!(count >= 30, "{count}");
    let disk = Disk::new("debian-daemons");
    let vm = Vm::builder("debian-daemons")
        .packages(&packages())
        .root_disk(&disk.0)
        .memory(2048)
        .longest(Duration::from_secs(1500))
        .machine("builtins: {devlog: {enabled: true}}\n")
        .service("tmpfiles", FOLDERS)
        .service("frontend", FRONTEND)
        .runs("look", "serve");
    let vm = stay.iter().chain(rounds.iter().flatten()).fold(vm, with);
    let mut vm = vm.start();
    vm.wait_answer_for(Duration::from_secs(400));
    vm.wait_up(&["tmpfiles", "frontend", "look"]);
    vm.ctl(&[&["start", "--wait"], names(&stay).as_slice()].concat()).ok();
    let mut failed = Vec::new();
    for daemons in &rounds {
        let began = std::time::Instant::now();
        failed.extend(round(&vm, daemons));
        println!("{:?}: {} s", names(daemons), began.elapsed().as_secs());
    }
    for name in names(&stay) {
        let service = vm.client().service(name);
        failed.extend((!runs(&service)).then(|| format!("{name} does not run: {service:?}")));
    }
    assert!(failed.is_empty(), "{} things fail of {count} daemons:\n{}", failed.len(), failed.join("\n"));
    vm.poweroff();
}

#[test]
fn the_documents_name_the_units_that_run() {
    let page = std::fs::read_to_string(paths::top().join("docs/coming-from/systemd.md")).expect("the page");
    let named = page.lines().filter_map(|line| line.strip_prefix("- `")?.strip_suffix("`"));
    let named: Vec<&str> = named.filter(|name| name.ends_with(".service")).collect();
    let mut units: Vec<&str> = STAY.iter().chain(ROUNDS.into_iter().flatten()).map(|unit| unit.0).collect();
    units.sort_unstable();
    assert_eq!(named, units, "docs/coming-from/systemd.md");
}
