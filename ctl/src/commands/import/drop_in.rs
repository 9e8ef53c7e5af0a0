//! Which drop-ins a unit of systemd has.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folders of units of a host; those of the first count before those of the others.
const HIERARCHY: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// The drop-ins of a unit in the order of their names, whatever folder they are in. Of those of the same name the first
/// counts: of a folder of the hierarchy before the others, and there that of the most particular unit.
///
/// # Errors
/// A folder that is there cannot be read.
pub fn drop_ins(path: &Path, name: &str, instance: Option<&str>) -> Result<Vec<PathBuf>, String> {
    let mut found = BTreeMap::<OsString, PathBuf>::new();
    for folder in hierarchy(path) {
        for name in names(name, instance) {
            let folder = folder.join(name);
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    continue;
                }
                Err(error) => return Err(format!("{}: {error}", folder.display())),
            };
            for entry in entries.flatten() {
                if entry.path().extension().is_some_and(|end| end == "conf") {
                    found.entry(entry.file_name()).or_insert_with(|| entry.path());
                }
            }
        }
    }
    Ok(found.into_values().collect())
}

/// The folder of the unit; if it is one of the folders of units of a host, all of these.
fn hierarchy(path: &Path) -> Vec<PathBuf> {
    let own = path.parent().unwrap_or(Path::new("")).to_owned();
    let whole = own.canonicalize().unwrap_or_else(|_| own.clone());
    let Some(place) = HIERARCHY.into_iter().find(|place| whole.ends_with(place)) else { return vec![own] };
    let Some(root) = whole.ancestors().nth(place.split('/').count()) else { return vec![own] };
    // The paths of its own files stay as they were given.
    HIERARCHY.into_iter().map(|other| if other == place { own.clone() } else { root.join(other) }).collect()
}

/// The names of the folders of drop-ins, the most particular first: of the instance, of its template, of all units that
/// begin as it does up to a `-`, and of all units of its kind.
fn names(name: &str, instance: Option<&str>) -> Vec<String> {
    let Some((stem, kind)) = name.rsplit_once('.') else { return vec![format!("{name}.d")] };
    let (mut prefix, is_template) = stem.strip_suffix('@').map_or((stem, false), |prefix| (prefix, true));
    let mut names = Vec::new();
    loop {
        if let Some(instance) = instance.filter(|_| is_template) {
            names.push(format!("{prefix}@{instance}.{kind}.d"));
        }
        names.push(format!("{prefix}{}.{kind}.d", if is_template { "@" } else { "" }));
        let shorter = prefix.strip_suffix('-').unwrap_or(prefix).rfind('-');
        let Some(shorter) = shorter.and_then(|at| prefix.get(..=at)) else { break };
        prefix = shorter;
    }
    names.push(format!("{kind}.d"));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_share_drop_ins_with_those_that_begin_as_they_do() {
        let own = ["a-b-c.socket.d", "a-b-.socket.d", "a-.socket.d", "socket.d"];
        assert_eq!(names("a-b-c.socket", None), own);
        let instance = ["a-b@i.service.d", "a-b@.service.d", "a-@i.service.d", "a-@.service.d", "service.d"];
        assert_eq!(names("a-b@.service", Some("i")), instance);
    }

    #[test]
    fn of_two_of_one_name_that_of_the_host_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        write("usr/lib/systemd/system/a-b.service.d/10-both.conf");
        write("usr/lib/systemd/system/a-b.service.d/20-own.conf");
        write("usr/lib/systemd/system/service.d/20-own.conf");
        write("etc/systemd/system/a-.service.d/10-both.conf");
        write("etc/systemd/system/a-b.service.d/05-host.conf");
        write("etc/systemd/system/a-b.service.d/05-host.txt");
        let found = |folder: &str| {
            let unit = root.path().join(folder).join("a-b.service");
            let found = drop_ins(&unit, "a-b.service", None).unwrap();
            let whole = root.path().canonicalize().unwrap();
            let bare = |path: &PathBuf| {
                let bare = path.strip_prefix(&whole).or(path.strip_prefix(root.path()));
                bare.unwrap().display().to_string()
            };
            found.iter().map(bare).collect::<Vec<_>>()
        };
        let all = [
            "etc/systemd/system/a-b.service.d/05-host.conf",
            "etc/systemd/system/a-.service.d/10-both.conf",
            "usr/lib/systemd/system/a-b.service.d/20-own.conf",
        ];
        assert_eq!(found("usr/lib/systemd/system"), all);
        assert_eq!(found("etc/systemd/system"), all);
        assert_eq!(found("elsewhere"), [""; 0]);
    }
}
