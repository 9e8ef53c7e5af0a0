//! The seed of a virtual machine as cloud-init's data source NoCloud has it: the files `meta-data` and `user-data` on a disk
//! with the label `cidata`.
//!
//! `meta-data` names the instance and its host name. `user-data` is for Kelson unless it begins as cloud-init's own do.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use kelson_load::{TREE_MAX, scalars};
use kelson_spec::applied::TreeFile;
use kelson_spec::names::{MACHINE, is_hostname};
use kelson_spec::quote::quoted;

use crate::{SourceError, bundle};

/// The labels of the disk.
pub const LABELS: [&str; 2] = ["cidata", "CIDATA"];
const META_DATA: &str = "meta-data";
const USER_DATA: &str = "user-data";

/// The longest instance id, in characters.
const LONGEST_ID: usize = 255;
/// The beginnings of user data that is for cloud-init, such as its configuration, a script or several parts. A packed one
/// begins with a byte that is no text.
const CLOUD_INIT: [&str; 8] = [
    "#cloud-config",
    "#cloud-boothook",
    "#include",
    "#part-handler",
    "## template:",
    "#!",
    "Content-Type:",
    "MIME-Version:",
];

/// What the seed says.
#[derive(Debug, PartialEq, Eq)]
pub struct Seed {
    /// Another machine, or one that is to begin again, has another.
    pub instance: String,
    pub files: Vec<TreeFile>,
    /// There is user data, which is not for Kelson.
    pub of_cloud_init: bool,
}

/// Reads the seed in the root of a disk.
///
/// # Errors
/// Files that cannot be read, or make no sense.
pub fn read(folder: &Path) -> Result<Seed, SourceError> {
    let meta_data = file(&folder.join(META_DATA))?.ok_or_else(|| {
        SourceError::Files(format!("there is no {META_DATA}, which names the instance: `instance-id: NAME`"))
    })?;
    let user_data = file(&folder.join(USER_DATA))?.unwrap_or_default();
    parse(&meta_data, &user_data)
}

fn file(path: &Path) -> Result<Option<Vec<u8>>, SourceError> {
    let limit = u64::try_from(TREE_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SourceError::Read { path: path.to_owned(), error }),
    }
}

/// Reads the two files of a seed.
///
/// # Errors
/// Meta data without an instance id, a host name that is none, or a mistake in a bundle.
pub fn parse(meta_data: &[u8], user_data: &[u8]) -> Result<Seed, SourceError> {
    let meta_data = std::str::from_utf8(meta_data).map_err(|_| wrong("it is not UTF-8"))?;
    let values = scalars(meta_data).map_err(|why| wrong(&why))?;
    let hostname = values.get("local-hostname").or_else(|| values.get("hostname"));
    let instance = values.get("instance-id").map(String::as_str).unwrap_or_default();
    seed(instance, hostname.map(String::as_str), user_data)
}

/// The seed of an instance of which the meta data says this.
///
/// # Errors
/// No instance id, a host name that is none, or a mistake in a bundle.
pub fn seed(instance: &str, hostname: Option<&str>, user_data: &[u8]) -> Result<Seed, SourceError> {
    let is_id = !instance.is_empty() && instance.len() <= LONGEST_ID && !instance.contains(char::is_control);
    if !is_id {
        return Err(wrong("it names no instance; write instance-id: NAME"));
    }
    if let Some(name) = hostname.filter(|name| !is_hostname(name)) {
        return Err(wrong(&format!("local-hostname: {} is not a host name", quoted(name))));
    }
    let user_data = std::str::from_utf8(user_data).ok();
    let ours = user_data.filter(|text| !CLOUD_INIT.iter().any(|begin| text.starts_with(begin)));
    let mut files = match ours {
        Some(text) if !text.trim().is_empty() => bundle::split(USER_DATA, text)?,
        _ => Vec::new(),
    };
    if let Some(name) = hostname {
        put_hostname(&mut files, name);
    }
    Ok(Seed { instance: instance.to_owned(), files, of_cloud_init: ours.is_none() })
}

fn wrong(what: &str) -> SourceError {
    SourceError::Files(format!("{META_DATA}: {what}"))
}

/// Adds the host name to the machine file, unless that has one of its own.
fn put_hostname(files: &mut Vec<TreeFile>, name: &str) {
    let key = format!("hostname: {}", quoted(name));
    let Some(file) = files.iter_mut().find(|file| file.name == MACHINE) else {
        let content = format!("{key}\n").into_bytes();
        files.push(TreeFile { name: MACHINE.to_owned(), content });
        return;
    };
    let text = String::from_utf8_lossy(&file.content).into_owned();
    // One with a mistake is reported as it is.
    if !scalars(&text).is_ok_and(|values| !values.contains_key("hostname")) {
        return;
    }
    file.content = match text.trim_start().strip_prefix('{') {
        Some(rest) => {
            let before = "\n".repeat(text.len().saturating_sub(text.trim_start().len()));
            format!("{before}{{{key}, {rest}")
        }
        None if text.ends_with('\n') || text.is_empty() => format!("{text}{key}\n"),
        None => format!("{text}\n{key}\n"),
    }
    .into_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(meta_data: &str, user_data: &str) -> Vec<(String, String)> {
        let seed = parse(meta_data.as_bytes(), user_data.as_bytes()).unwrap();
        let text = |file: TreeFile| (file.name, String::from_utf8(file.content).unwrap());
        seed.files.into_iter().map(text).collect()
    }

    fn machine(user_data: &str) -> String {
        let files = files("instance-id: i-1\nlocal-hostname: edge-1\n", user_data);
        files.into_iter().find(|(name, _)| name == "machine.yaml").unwrap().1
    }

    #[test]
    fn the_host_name_of_the_meta_data_counts_where_the_user_data_has_none() {
        assert_eq!(machine(""), "hostname: \"edge-1\"\n");
        assert_eq!(machine("modules: [a]"), "modules: [a]\nhostname: \"edge-1\"\n");
        assert_eq!(machine("hostname: b\n"), "hostname: b\n");
        assert_eq!(machine("{modules: [a]}\n"), "{hostname: \"edge-1\", modules: [a]}\n");
        assert_eq!(machine("modules: [\n"), "modules: [\n", "its mistake is reported with its line");
        let bundle =
            files("{\"instance-id\": \"i\", \"hostname\": \"c\"}", "--- # services/web.yaml\nname: web\n");
        assert_eq!(bundle[0].0, "services/web.yaml");
        assert_eq!(bundle[1], ("machine.yaml".to_owned(), "hostname: \"c\"\n".to_owned()));
    }

    #[test]
    fn user_data_for_cloud_init_is_left_to_it() {
        for text in
            ["#cloud-config\nusers: []\n", "#!/bin/sh\n", "Content-Type: multipart/mixed\n", "\u{1f}\u{8b}"]
        {
            let packed = if text.starts_with('#') || text.starts_with('C') {
                text.as_bytes()
            } else {
                &[0x1f, 0x8b, 8]
            };
            let seed = parse(b"instance-id: i-1\n", packed).unwrap();
            assert_eq!((seed.files.len(), seed.of_cloud_init), (0, true), "{text}");
        }
        assert!(!parse(b"instance-id: i-1\n", b"# mine\nhostname: a\n").unwrap().of_cloud_init);
    }

    #[test]
    fn meta_data_that_makes_no_sense_is_named() {
        for (text, what) in [
            ("local-hostname: a\n", "meta-data: it names no instance; write instance-id: NAME"),
            ("instance-id: [a]\n", "meta-data: it names no instance; write instance-id: NAME"),
            ("instance-id: i\nlocal-hostname: -a\n", "meta-data: local-hostname: \"-a\" is not a host name"),
            ("- a\n", "meta-data: line 1: it is no mapping of keys to values"),
        ] {
            assert_eq!(parse(text.as_bytes(), b"").unwrap_err().to_string(), what);
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().starts_with("there is no meta-data"));
        std::fs::write(folder.path().join("meta-data"), "instance-id: i-1\n").unwrap();
        assert_eq!(read(folder.path()).unwrap().instance, "i-1");
    }
}
