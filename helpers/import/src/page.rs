//! The tables of keys as pages of the documents.

use std::fmt::Write as _;

use crate::compose::keys::PARTS as COMPOSE;
use crate::finding::Fate;
use crate::format::Format;
use crate::key::Key;
use crate::keys::PARTS;
use crate::part::Part;
use crate::talos::keys::PARTS as TALOS;

/// The keys of a table.
fn table<R>(page: &mut String, keys: &[Key<R>], sign: &str) {
    page.push_str("| key | | in Kelson, or what is lost |\n|---|---|---|\n");
    for key in keys {
        // Writing into a String does not fail.
        let _ = writeln!(page, "| `{}{sign}` | {} | {} |", key.name, key.fate.name(), key.sentence);
    }
}

/// The number of keys of each fate.
fn counts(fates: &[Fate]) -> String {
    let count = |fate: Fate| fates.iter().filter(|one| **one == fate).count();
    let counts: Vec<String> =
        Fate::ALL.iter().map(|fate| format!("{} {}", count(*fate), fate.name())).collect();
    format!("Of {} keys, as a rule: {}.\n", fates.len(), counts.join(", "))
}

/// `docs/coming-from/systemd-keys.md`.
pub fn keys() -> String {
    let fates: Vec<Fate> = PARTS.iter().flat_map(|part| part.keys).map(|key| key.fate).collect();
    let mut page = format!("{HEAD}{}", counts(&fates));
    for part in PARTS {
        let _ = writeln!(page, "\n## {}\n\nSee {}.\n", part.title, part.page);
        table(&mut page, part.keys, "=");
    }
    page
}

/// `docs/coming-from/compose-keys.md`.
pub fn compose_keys() -> String {
    of_parts(COMPOSE_HEAD, &COMPOSE)
}

/// `docs/coming-from/talos-keys.md`.
pub fn talos_keys() -> String {
    of_parts(TALOS_HEAD, &TALOS)
}

/// The page of a format of YAML files.
fn of_parts<F: Format>(head: &str, parts: &[Part<F>]) -> String {
    let fates: Vec<Fate> = parts.iter().flat_map(|part| part.keys).map(|key| key.fate).collect();
    let mut page = format!("{head}{}", counts(&fates));
    for part in parts {
        let _ = writeln!(page, "\n## {}\n", part.title);
        table(&mut page, part.keys, "");
    }
    page
}

const TALOS_HEAD: &str = "# Keys of Talos's services

<!-- Written by hack/docs --renew, from the tables of helpers/import/src/talos. -->

This is what [`kelsonctl import talos`](talos.md#translate-the-files) makes of each key of an extension service, of its `ExtensionServiceConfig`, and of a `ContainerConfig`.
The keys are those of Talos's main branch in August 2026, before the release of Talos 1.15.

- **kept**: the service file does what the key asks for, or the key asks for nothing that a service could miss.
- **approximated**: it does so with the difference that the table names.
- **rejected**: something is lost, and the table says what.

The table tells what becomes of most values.
The command judges the values of the files that it reads, and says so.

Talos does these things without a key, and the translation writes them into the service file:

- A service starts again after 5 seconds: `restart: {delay: 5s, maxDelay: 5s}`.
- An extension service has a read-only root, all capabilities but `sys_module` and `sys_boot`, and `oomScoreAdjust: -600`.
  If the service needs fewer capabilities, take the others out.
- A `ContainerConfig` has no network, no capabilities and a read-only root.

These differ, and no key changes them:

- An extension service of Talos can open every device, and a container of Kelson the usual ones and those in `container: {devices: …}`.
- An extension service of Talos shares the IPC namespace of the host, and a container of Kelson has one of its own.

";

const COMPOSE_HEAD: &str = "# Keys of compose files

<!-- Written by hack/docs --renew, from the table of helpers/import/src/compose/keys.rs. -->

This is what [`kelsonctl import compose`](../howto/compose.md) makes of each key of the Compose specification.

- **kept**: the service file does what the key asks for, or the key asks for nothing that a service could miss.
- **approximated**: it does so with the difference that the table names.
- **rejected**: something is lost, and the table says what.

The table tells what becomes of most values.
The command judges the values of the file that it reads, and says so.
Keys that begin with `x-` are kept: Docker does not read them either.

";

const HEAD: &str = "# Keys of systemd's service units

<!-- Written by hack/docs --renew, from the table of helpers/import/src/keys. -->

This is what [`kelsonctl import systemd`](../howto/import.md) makes of each key of a service unit of systemd 252, that of Debian 12.

- **kept**: the service file does what the key asks for, or the key asks for nothing that a service could miss.
- **approximated**: it does so with the difference that the table names.
- **rejected**: something is lost, and the table says what.

The table tells what becomes of most values.
A value may fare differently: `PrivateDevices=no` is kept, and `KillMode=none` is rejected.
The command judges the values of the unit that it reads, and says so.

Some defaults of systemd differ from those of Kelson.
The translation writes them into the service file, so that the service gets what it had:

- systemd restarts nothing without `Restart=`, restarts after 100 ms, and no more than five times within 10 s.
- A start and a stop have 90 s, and a stop sends its signal to every process: `stop: {mode: cgroup}`.
- Nothing is confined that the unit does not confine: `noNewPrivileges: false`, `seccomp: unconfined`.
  If the service needs neither, take both lines out.

These defaults stay those of Kelson:

- SIGPIPE ends a program; systemd's default is that a service ignores it.
- A service has the limit on open files of PID 1; systemd's default is 1024, and 524288 at most.

";
