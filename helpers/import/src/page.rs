//! The table of keys as a page of the documents.

use std::fmt::Write as _;

use crate::finding::Fate;
use crate::keys::PARTS;

/// What stands in a line of a column.
fn row(page: &mut String, name: &str, fate: Fate, sentence: &str) {
    // Writing into a String does not fail.
    let _ = writeln!(page, "| `{name}=` | {} | {sentence} |", fate.name());
}

/// `docs/coming-from/systemd-keys.md`.
pub fn keys() -> String {
    let mut page = String::from(HEAD);
    let all = || PARTS.iter().flat_map(|part| part.keys);
    let count = |fate: Fate| all().filter(|key| key.fate == fate).count();
    let counts: Vec<String> =
        Fate::ALL.iter().map(|fate| format!("{} {}", count(*fate), fate.name())).collect();
    let _ = writeln!(page, "Of {} keys, as a rule: {}.", all().count(), counts.join(", "));
    for part in PARTS {
        let _ = writeln!(page, "\n## {}\n\nSee {}.\n", part.title, part.page);
        page.push_str("| key | | in Kelson, or what is lost |\n|---|---|---|\n");
        for key in part.keys {
            row(&mut page, key.name, key.fate, key.sentence);
        }
    }
    page
}

const HEAD: &str = "# Keys of systemd's service units

<!-- Written by hack/docs --renew, from the table of helpers/import/src/keys. -->

This is what [`kelsonctl import systemd`](../howto/import.md) makes of each key of a service unit of systemd 252, that of Debian 12.

- **kept**: the service file does what the key asks for, or the key asks for nothing that a service could miss.
- **approximated**: it does so with the difference that the table names.
- **rejected**: something is lost, and the table says what.

The table tells what becomes of most values.
A value may fare differently: `PrivateDevices=no` is kept, and `Type=forking` is rejected.
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
