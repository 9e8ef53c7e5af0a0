//! Debian's systemd as the reference: the same units run under it and, translated, under Kelson, and say the same.
//!
//! systemd is PID 1 of one boot, and Kelson of the next one. Each unit runs `kelson-test-program`, whose lines are compared.

mod reading;
mod sandbox;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kelson_tests::{Disk, Service, Vm, VmBuilder, until};

use crate::import;

/// The program of the units.
const PROGRAM: &str = "/etc/kelson/kelson-test-program";

/// Before all others, on both sides.
const PREPARE: (&str, &str) = (
    "probe-prepare.service",
    "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh /etc/kelson/prepare\n",
);

/// An `EnvironmentFile=`.
const ENVIRONMENT: &str = r#"# A comment
FILE=one

SPACES=a b
DOUBLE="c \"d\""
SINGLE='e \ f'
A=of-file
  INDENTED= g

EMPTY=
HASH=a # b
"#;

/// The end of systemd's boot: what systemd makes of the units, and power off.
const COLLECT: &str = "cd /etc/kelson/systemd-units
for unit in $(ls /var/lib/reference | sed -n 's/\\.log$//p'); do
    systemctl show \"$unit\" >\"/var/lib/reference/$unit.show\"
done
sync
systemctl --no-block poweroff
";

/// A unit with its drop-ins, and what is to be compared.
pub struct Probe {
    /// `NAME.service`, or `NAME@INSTANCE.service`.
    pub unit: String,
    pub text: String,
    /// Names and texts.
    pub drop_ins: Vec<(String, String)>,
}

impl Probe {
    fn new(name: &str, text: &str) -> Probe {
        let text = text.replace("$PROGRAM", PROGRAM);
        Probe { unit: format!("probe-{name}.service"), text, drop_ins: Vec::new() }
    }

    fn drop_in(mut self, path: &str, text: &str) -> Probe {
        self.drop_ins.push((path.to_owned(), text.replace("$PROGRAM", PROGRAM)));
        self
    }

    /// The file of the unit, and its instance.
    fn file(&self) -> (String, Option<&str>) {
        match self.unit.split_once('@') {
            Some((template, instance)) => (format!("{template}@.service"), instance.strip_suffix(".service")),
            None => (self.unit.clone(), None),
        }
    }

    /// All its files below the folder of units.
    fn files(&self) -> impl Iterator<Item = (String, &str)> {
        let own = (self.file().0, self.text.as_str());
        let others = self.drop_ins.iter().map(|(path, text)| (path.clone(), text.as_str()));
        [own].into_iter().chain(others)
    }
}

/// What one side has said.
pub struct Side {
    /// The lines of each unit.
    pub said: BTreeMap<String, Vec<String>>,
    /// The properties of each unit, as `systemctl show` has them; the service file under Kelson.
    pub shown: BTreeMap<String, String>,
    /// Units with keys that are lost, and these.
    pub lost: Vec<String>,
}

/// A disk of ordinary Debian with these units in `/etc/kelson/systemd-units`.
fn machine(name: &str, prepare: &str, probes: &[Probe]) -> VmBuilder {
    let vm = Vm::builder(name)
        .file("prepare", 0o755, prepare)
        .file("environment", 0o644, ENVIRONMENT)
        .longest(Duration::from_secs(900));
    probes
        .iter()
        .flat_map(Probe::files)
        .fold(vm, |vm, (path, text)| vm.file(format!("systemd-units/{path}"), 0o644, text))
}

/// Runs them where systemd is PID 1.
#[track_caller]
pub fn under_systemd(name: &str, prepare: &str, probes: &[Probe]) -> Side {
    let disk = Disk::new(name);
    let units: Vec<&str> = probes.iter().map(|probe| probe.unit.as_str()).collect();
    let target = format!(
        "[Unit]\nWants={0}\nAfter={0}\n[Service]\nType=oneshot\nExecStart=/bin/sh /etc/kelson/collect\n",
        units.join(" "),
    );
    // What a unit says is in a file of systemd's own.
    let output = "[Unit]\nAfter=probe-prepare.service\nRequires=probe-prepare.service\n\
        [Service]\nStandardOutput=append:/var/lib/reference/%n.log\nStandardError=inherit\n";
    let vm = machine(name, &format!("mkdir -p /var/lib/reference\n{prepare}"), probes);
    let vm = probes.iter().fold(vm, |vm, probe| {
        vm.file(format!("systemd-units/{}.d/zz-output.conf", probe.file().0), 0o644, output)
    });
    let mut vm = vm
        .file("collect", 0o755, COLLECT)
        .file("systemd-units/reference.service", 0o644, target)
        .file(format!("systemd-units/{}", PREPARE.0), 0o644, PREPARE.1)
        .root_disk(&disk.0)
        // The kernel makes variables of init of such words.
        .append(
            "init=/lib/systemd/systemd SYSTEMD_UNIT_PATH=/etc/kelson/systemd-units: systemd.unit=reference.service",
        )
        .start();
    assert!(vm.wait_end_for(Duration::from_secs(600)), "{}\n{}", vm.said(), vm.console());
    let folder = tempfile::tempdir().expect("a folder");
    let dump = format!("rdump /var/lib/reference {}", folder.path().display());
    let done =
        Command::new("debugfs").args(["-R", &dump]).arg(&disk.0).output().expect("debugfs is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let read = |unit: &str, end: &str| {
        let file = folder.path().join(format!("reference/{unit}.{end}"));
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{unit}: {error}\n{}", vm.console()))
    };
    let said = probes.iter().map(|probe| (probe.unit.clone(), lines(&read(&probe.unit, "log"))));
    let shown = probes.iter().map(|probe| (probe.unit.clone(), read(&probe.unit, "show")));
    Side { said: said.collect(), shown: shown.collect(), lost: Vec::new() }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Runs what `kelsonctl import` makes of them where Kelson is PID 1.
#[track_caller]
pub fn under_kelson(name: &str, prepare: &str, probes: &[Probe]) -> Side {
    let disk = Disk::new(name);
    let folder = tempfile::tempdir().expect("a folder");
    let mut vm = machine(name, prepare, probes)
        .root_disk(&disk.0)
        .service("probe-prepare", "type: oneshot\nprocess: {command: [/bin/sh, /etc/kelson/prepare]}\n");
    let mut services = BTreeMap::new();
    let (mut shown, mut lost) = (BTreeMap::new(), Vec::new());
    for probe in probes {
        for (path, text) in probe.files() {
            write(&folder.path().join(path), text);
        }
        let (file, instance) = probe.file();
        let done = import(instance, &[folder.path().join(file)]);
        let (service, text) = done.files().next().unwrap_or_else(|| panic!("{}: {done:?}", probe.unit));
        let automatic = text.replace("start: manual\n", "");
        vm = vm.service(service, &with_need(&automatic));
        services.insert(probe.unit.clone(), service.to_owned());
        shown.insert(probe.unit.clone(), text.to_owned());
        lost.extend(done.lost().iter().map(|key| format!("{} {key}", probe.unit)));
    }
    let mut vm = vm.start();
    vm.wait_answer_for(Duration::from_secs(300));
    // Some of them are killed for what they try.
    let is_over = |service: &Service| matches!(service.state.as_str(), "finished" | "failed" | "skipped");
    until("all units to end", Duration::from_secs(300), || {
        let all = vm.services();
        let over = all.iter().filter(|service| service.name.starts_with("probe-")).all(is_over);
        over.then_some(())
    });
    let said = services
        .into_iter()
        .map(|(unit, service)| (unit, lines(&vm.ctl(&["logs", &service]).ok().stdout)))
        .collect();
    vm.poweroff();
    Side { said, shown, lost }
}

/// The need of [`PREPARE`], beside those that the file has.
fn with_need(text: &str) -> String {
    const NEED: &str = "  - {service: probe-prepare}\n";
    match text.contains("\ndepends:\n") {
        true => text.replace("\ndepends:\n", &format!("\ndepends:\n{NEED}")),
        false => format!("{text}depends:\n{NEED}"),
    }
}

fn write(path: &PathBuf, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
    std::fs::write(path, text).expect("a unit");
}

/// What differs between the two, each line with the unit before it.
pub fn differences(systemd: &Side, kelson: &Side) -> Vec<String> {
    let mut found = Vec::new();
    for (unit, lines) in &systemd.said {
        let others = &kelson.said[unit];
        let count = lines.len().max(others.len());
        let line = |lines: &[String], at: usize| lines.get(at).cloned().unwrap_or("nothing".to_owned());
        let pairs = (0..count).map(|at| (line(lines, at), line(others, at)));
        let pairs = pairs.filter(|(one, other)| one != other);
        found.extend(pairs.map(|(one, other)| format!("{unit}: {one} | {other}")));
    }
    found
}
