//! Credentials of the hypervisor, under the names that systemd gave them.
//!
//! SMBIOS type 11 has strings `io.systemd.credential:NAME=VALUE` and `io.systemd.credential.binary:NAME=BASE64`; QEMU's fw_cfg
//! has files `opt/io.systemd.credentials/NAME`. Credentials of other programs stand beside ours.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kelson_load::{TREE_MAX, name_mistake};
use kelson_secrets::given::Given;
use kelson_spec::applied::TreeFile;
use kelson_spec::names::{GROUPS, MACHINE, SERVICES, VOLUMES};
use kelson_sys::ordered;

use crate::{SourceError, bundle};

/// The tables of SMBIOS, as the kernel keeps them.
pub const SMBIOS: &str = "/sys/firmware/dmi/tables/DMI";
/// The files of QEMU's fw_cfg that are credentials, each as a folder with its content in `raw`.
pub const FW_CFG: &str = "/sys/firmware/qemu_fw_cfg/by_name/opt/io.systemd.credentials";

const TEXT: &str = "io.systemd.credential:";
const BINARY: &str = "io.systemd.credential.binary:";
/// The beginning of the names that are for Kelson.
const OURS: &str = "kelson.";

/// A credential for Kelson. Nothing shows its value, which may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Without `kelson.`.
    name: String,
    value: Vec<u8>,
}

/// Reads one string of SMBIOS type 11. `None`: it is no credential for Kelson.
///
/// # Errors
/// A binary one that is not base64.
pub fn from_smbios(text: &[u8]) -> Result<Option<Credential>, SourceError> {
    let text = String::from_utf8_lossy(text);
    let (pair, is_binary) = match (text.strip_prefix(TEXT), text.strip_prefix(BINARY)) {
        (Some(pair), _) => (pair, false),
        (None, Some(pair)) => (pair, true),
        (None, None) => return Ok(None),
    };
    let Some((name, value)) = pair.split_once('=') else { return Ok(None) };
    let Some(name) = name.strip_prefix(OURS) else { return Ok(None) };
    let value = match is_binary {
        true => BASE64_STANDARD
            .decode(value.trim())
            .map_err(|error| wrong(name, format!("no base64: {error}")))?,
        false => value.as_bytes().to_vec(),
    };
    Ok(Some(Credential { name: name.to_owned(), value }))
}

/// Reads the credentials for Kelson of fw_cfg, from a folder such as [`FW_CFG`]. A host without it has none.
///
/// # Errors
/// One that cannot be read.
pub fn from_fw_cfg(folder: &Path) -> Result<Vec<Credential>, SourceError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let Some(name) = file.to_str().and_then(|name| name.strip_prefix(OURS)) else { continue };
        let path = entry.path().join("raw");
        let mut value = Vec::new();
        let limit = u64::try_from(TREE_MAX).unwrap_or(u64::MAX).saturating_add(1);
        let read = fs::File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut value));
        read.map_err(|error| SourceError::Read { path, error })?;
        found.push(Credential { name: name.to_owned(), value });
    }
    ordered::sort_by(&mut found, |one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The table of SMBIOS; empty where the machine has none.
///
/// # Errors
/// When it cannot be read.
pub fn smbios_table() -> Result<Vec<u8>, SourceError> {
    match fs::read(SMBIOS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|error| SourceError::Read { path: SMBIOS.into(), error }),
    }
}

/// The files and the secrets that the credentials hold.
///
/// # Errors
/// A name that Kelson does not know, a text that is not UTF-8, or a mistake in a bundle.
pub fn sort(credentials: Vec<Credential>) -> Result<(Vec<TreeFile>, Vec<Given>), SourceError> {
    let (mut files, mut secrets) = (Vec::new(), Vec::new());
    for Credential { name, value } in credentials {
        let file = match name.split_once('.') {
            None if name == "config" => {
                let text =
                    String::from_utf8(value).map_err(|_| wrong(&name, "it is not UTF-8".to_owned()))?;
                files.extend(bundle::split(&format!("credential {OURS}{name}"), &text)?);
                continue;
            }
            None if name == "machine" => MACHINE.to_owned(),
            Some(("service", service)) => format!("{SERVICES}/{service}.yaml"),
            Some(("group", group)) => format!("{GROUPS}/{group}.yaml"),
            Some(("volume", volume)) => format!("{VOLUMES}/{volume}.yaml"),
            Some(("secret", secret)) => {
                secrets.push(Given { name: secret.to_owned(), value });
                continue;
            }
            _ => {
                let known = "kelson.config, kelson.machine, kelson.service.NAME, kelson.group.NAME, \
                             kelson.volume.NAME and kelson.secret.NAME";
                return Err(wrong(&name, format!("this name is not known; known are {known}")));
            }
        };
        if let Some(mistake) = name_mistake(&file) {
            return Err(wrong(&name, mistake));
        }
        files.push(TreeFile { name: file, content: value });
    }
    Ok((files, secrets))
}

fn wrong(name: &str, what: String) -> SourceError {
    SourceError::Credential { name: format!("{OURS}{name}"), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(strings: &[&str]) -> Result<Vec<(String, String)>, String> {
        let credentials = strings.iter().filter_map(|text| from_smbios(text.as_bytes()).transpose());
        let credentials: Result<Vec<Credential>, SourceError> = credentials.collect();
        let (files, secrets) = credentials.and_then(sort).map_err(|error| error.to_string())?;
        let files = files.into_iter().map(|file| (file.name, file.content));
        let secrets = secrets.into_iter().map(|secret| (format!("secret {}", secret.name), secret.value));
        Ok(files.chain(secrets).map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect())
    }

    #[test]
    fn credentials_for_kelson_are_files() {
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(
            named(&[
                "io.systemd.credential:kelson.machine=hostname: a=b",
                "io.systemd.credential.binary:kelson.service.web=bmFtZTogd2ViCg==",
                "io.systemd.credential:kelson.group.shop=health: []",
                "io.systemd.credential:kelson.secret.db.password=hush=",
                "io.systemd.credential:ssh.authorized_keys.root=ssh-rsa x",
                "io.systemd.stub:x=y",
                "io.systemd.credential:novalue",
            ]),
            Ok(vec![
                pair("machine.yaml", "hostname: a=b"),
                pair("services/web.yaml", "name: web\n"),
                pair("groups/shop.yaml", "health: []"),
                pair("secret db.password", "hush=")
            ])
        );
        let bundle = named(&["io.systemd.credential:kelson.config=--- # groups/a.yaml\nx: y"]);
        assert_eq!(bundle, Ok(vec![pair("groups/a.yaml", "\nx: y\n")]));
    }

    #[test]
    fn one_that_makes_no_sense_is_named() {
        let mistake = |text: &str| named(&[text]).unwrap_err();
        let base64 = mistake("io.systemd.credential.binary:kelson.machine=%");
        assert!(base64.starts_with("credential kelson.machine: no base64: "), "{base64}");
        let name = mistake("io.systemd.credential:kelson.hostname=a");
        assert!(
            name.starts_with("credential kelson.hostname: this name is not known; known are kelson.config")
        );
        let path = mistake("io.systemd.credential:kelson.service.../x=a");
        assert!(
            path.starts_with("credential kelson.service.../x: \"services/../x.yaml\" is no file"),
            "{path}"
        );
    }

    #[test]
    fn fw_cfg_is_a_folder_of_folders() {
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in [("kelson.machine", "hostname: b"), ("other", "x")] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("raw"), value).unwrap();
        }
        let found = from_fw_cfg(folder.path()).unwrap();
        assert!(found == [Credential { name: "machine".to_owned(), value: b"hostname: b".to_vec() }]);
        assert!(from_fw_cfg(&folder.path().join("none")).unwrap().is_empty());
        fs::create_dir(folder.path().join("kelson.empty")).unwrap();
        let error = from_fw_cfg(folder.path()).err().unwrap().to_string();
        assert!(error.contains("kelson.empty/raw cannot be read"), "{error}");
    }
}
