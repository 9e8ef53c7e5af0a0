//! Service units of well-known packages of Debian 12 as `kelsonctl import systemd` translates them. No number falls.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use kelson_tests::paths;
use serde::Deserialize;

#[derive(Deserialize)]
struct Imported {
    service: Option<String>,
    file: Option<String>,
    error: Option<String>,
    fate: String,
    #[serde(default)]
    beside: Vec<Beside>,
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Beside {
    service: String,
    file: String,
}

#[derive(Deserialize)]
struct Finding {
    key: String,
    fate: String,
    sentence: String,
}

/// A unit of a package.
struct Unit {
    package: String,
    name: String,
    done: Imported,
}

impl Unit {
    fn is_whole(&self) -> bool {
        self.done.fate != "rejected"
    }

    /// The keys that are lost, each once.
    fn lost(&self) -> Vec<&str> {
        let rejected = self.done.findings.iter().filter(|finding| finding.fate == "rejected");
        let mut keys: Vec<&str> = rejected.map(|finding| finding.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// The page of the documents.
fn page_path() -> PathBuf {
    paths::top().join("docs/coming-from/debian-units.md")
}

/// The folder with a folder of units of each package.
fn fetched() -> PathBuf {
    let done = Command::new(paths::top().join("hack/debian-units")).output().expect("hack/debian-units runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("it prints a path").trim().into()
}

/// The units below a folder. A link is another name of a unit.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of units") {
        let entry = entry.expect("an entry of it");
        let kind = entry.file_type().expect("its kind");
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() && entry.path().extension().is_some_and(|end| end == "service") {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// The socket units of a unit: that of its name, and those that it names.
fn sockets(path: &Path) -> Vec<PathBuf> {
    let own = path.with_extension("socket");
    let text = std::fs::read_to_string(path).expect("a unit is text");
    let named = text.split([' ', '=', '\n']).filter(|word| word.ends_with(".socket"));
    let mut sockets: Vec<PathBuf> = named.map(|name| path.with_file_name(name)).chain([own]).collect();
    sockets.sort();
    sockets.dedup();
    sockets.retain(|path| path.is_file());
    sockets
}

fn translated(package: &str, path: &Path) -> Unit {
    let mut command = Command::new(paths::binary("kelsonctl"));
    // Only the host knows its name.
    command.args(["import", "systemd", "-o", "json", "--specifier", "H=edge-1"]).arg(path);
    let name = path.file_name().expect("a file").to_str().expect("its name").to_owned();
    if name.ends_with("@.service") {
        command.args(["--instance", "main"]);
    }
    command.args(sockets(path));
    let done = command.output().expect("kelsonctl runs");
    let all: Vec<Imported> =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Unit { package: package.to_owned(), name, done: all.into_iter().next().expect("one unit") }
}

/// What `kelsonctl validate` says against the service files.
fn mistakes(units: &[Unit]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut said = String::new();
    for unit in units {
        let (Some(service), Some(file)) = (&unit.done.service, &unit.done.file) else { continue };
        let beside = unit.done.beside.iter().map(|one| (&one.service, &one.file));
        for (service, file) in std::iter::once((service, file)).chain(beside) {
            said += &mistake(folder.path(), &unit.name, service, file);
        }
    }
    said
}

fn mistake(folder: &Path, unit: &str, service: &str, file: &str) -> String {
    let path = folder.join(format!("{service}.yaml"));
    std::fs::write(&path, file).expect("a service file");
    let done = Command::new(paths::binary("kelsonctl")).arg("validate").arg(&path).output();
    let done = done.expect("kelsonctl runs");
    match done.status.success() {
        true => String::new(),
        false => format!("{unit}: {}\n{file}", String::from_utf8_lossy(&done.stdout)),
    }
}

#[test]
fn long_the_units_of_debian_are_translated_and_no_fewer_without_loss() {
    let folder = fetched();
    let mut units = Vec::new();
    let mut packages = 0;
    for package in std::fs::read_dir(&folder).expect("the packages") {
        let package = package.expect("a package").path();
        let files = files(&package);
        let name = package.file_name().expect("its name").to_str().expect("its name").to_owned();
        assert!(!files.is_empty(), "{name} of hack/debian-packages has no service unit");
        units.extend(files.iter().map(|path| translated(&name, path)));
        packages += 1;
    }
    units.sort_by(|one, other| (&one.package, &one.name).cmp(&(&other.package, &other.name)));
    assert_eq!(mistakes(&units), "", "every translation is a service file");
    let whole = units.iter().filter(|unit| unit.is_whole()).count();
    println!("{whole} of {} units of {packages} packages are translated without loss", units.len());
    for (key, count) in blocking(&units).iter().take(20) {
        println!("{count:4} {key}");
    }
    let page = page(&units, packages);
    let kept = std::fs::read_to_string(page_path()).expect("the page");
    let number = kept.split("**").nth(1).and_then(|number| number.parse::<usize>().ok());
    let number = number.expect("the page has the number");
    assert!(whole >= number, "{whole} units are translated without loss, and {number} were");
    if std::env::var_os("KELSON_RENEW").is_some() {
        std::fs::write(page_path(), page).expect("the page can be written");
    } else if page != kept {
        println!("docs/coming-from/debian-units.md is old: hack/docs --renew-units");
    }
}

/// The keys that are lost, and of how many units; the most frequent first.
fn blocking(units: &[Unit]) -> Vec<(&str, usize)> {
    let mut counts = BTreeMap::<&str, usize>::new();
    units.iter().flat_map(Unit::lost).for_each(|key| *counts.entry(key).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
    counts
}

fn page(units: &[Unit], packages: usize) -> String {
    let whole: Vec<&Unit> = units.iter().filter(|unit| unit.is_whole()).collect();
    let mut page = String::from(
        "# Units of Debian\n\n<!-- Written by hack/docs --renew-units, from tests/scenarios/units.rs. -->\n\n\
         `make test-long` translates the service units of well-known packages of Debian 12 (`hack/debian-packages`) with \
         [`kelsonctl import systemd`](../howto/import.md), each with its socket units, and fails if fewer than before come out without loss.\n\
         Every translation is a service file that `kelsonctl validate` takes.\n\n",
    );
    let count = |page: &mut String, text: &str| writeln!(page, "{text}").expect("a String takes all");
    count(
        &mut page,
        &format!(
            "Of {} units of {packages} packages, **{}** lose nothing: no key of theirs is rejected.\n\
             Of these, {} keep every key as it is; the others have keys that are approximated.",
            units.len(),
            whole.len(),
            units.iter().filter(|unit| unit.done.fate == "kept").count(),
        ),
    );
    count(&mut page, "[Keys of systemd's service units](systemd-keys.md) tells what becomes of each key.\n");
    page += "## Keys that are lost\n\n| key | units |\n|---|---|\n";
    for (key, number) in blocking(units) {
        count(&mut page, &format!("| `{key}=` | {number} |"));
    }
    page += "\n## Without loss\n\n| package | units |\n|---|---|\n";
    let mut by_package = BTreeMap::<&str, Vec<String>>::new();
    for unit in &whole {
        by_package.entry(&unit.package).or_default().push(format!("`{}`", unit.name));
    }
    for (package, names) in by_package {
        count(&mut page, &format!("| {package} | {} |", names.join(", ")));
    }
    page += "\n## With a loss\n\n| package | unit | lost |\n|---|---|---|\n";
    for unit in units.iter().filter(|unit| !unit.is_whole()) {
        let lost: Vec<String> = unit.lost().iter().map(|key| format!("`{key}=`")).collect();
        let lost = unit.done.error.clone().map_or(lost.join(", "), |error| error.replace('|', "\\|"));
        count(&mut page, &format!("| {} | `{}` | {lost} |", unit.package, unit.name));
    }
    page
}

#[test]
fn a_unit_is_whole_if_no_key_is_lost() {
    let finding =
        |key: &str, fate: &str| Finding { key: key.into(), fate: fate.into(), sentence: "a".into() };
    let unit = |fate: &str, findings| Unit {
        package: "p".into(),
        name: "a.service".into(),
        done: Imported {
            service: None,
            file: None,
            error: None,
            fate: fate.into(),
            beside: Vec::new(),
            findings,
        },
    };
    let units = [
        unit("rejected", vec![finding("B", "rejected"), finding("A", "rejected"), finding("B", "rejected")]),
        unit("approximated", vec![finding("A", "approximated")]),
        unit("rejected", vec![finding("B", "rejected")]),
    ];
    assert!(units[1].is_whole() && !units[0].is_whole());
    assert_eq!(blocking(&units), [("B", 2), ("A", 1)]);
    assert!(page(&units, 1).contains("Of 3 units of 1 packages, **1** lose nothing"));
    assert!(units.iter().flat_map(|unit| &unit.done.findings).all(|finding| !finding.sentence.is_empty()));
}
