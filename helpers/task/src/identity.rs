//! The identity of this machine: its host name and its machine id.

use std::io::Read;
use std::path::{Path, PathBuf};

use kelson_spec::names::hosts_file;
use nix::mount::{MsFlags, mount};

/// The name of a machine that was given none.
const USUAL_NAME: &str = "kelson";
const HOST_NAME: &str = "/etc/hostname";
const HOSTS: &str = "/etc/hosts";
const MACHINE_ID: &str = "/etc/machine-id";

/// Sets the host name: the given one, else that of `/etc/hostname`, else "kelson". The file `hosts` gets it, too.
pub fn set_host_name(given: Option<&str>, hosts: &Path) -> Result<String, String> {
    let file = || std::fs::read_to_string(HOST_NAME).ok().and_then(|text| first_word(&text));
    let name = given.map(str::to_owned).or_else(file).unwrap_or_else(|| USUAL_NAME.to_owned());
    nix::unistd::sethostname(&name).map_err(|errno| format!("\"{name}\": {}", errno.desc()))?;
    match write_hosts(&name, hosts, Path::new(HOSTS)) {
        Ok(()) => Ok(name),
        Err(error) => Ok(format!("{name}; there is no {HOSTS}: {error}")),
    }
}

/// Writes the file `hosts`, and makes `public` lead to it where there is nothing: a file is its operator's.
fn write_hosts(name: &str, hosts: &Path, public: &Path) -> Result<(), String> {
    let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::write(hosts, hosts_file(name)).map_err(|error| at(hosts, error))?;
    match std::os::unix::fs::symlink(hosts, public) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(at(public, error)),
        _ => Ok(()),
    }
}

/// The first line that is neither empty nor a comment.
fn first_word(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    Some(line.to_owned())
}

/// Makes sure that `/etc/machine-id` holds a valid id: the present one, else a new one. The new one is kept on the disk
/// where that can be written; where not, the file `transient` is mounted over it for this run.
pub fn set_machine_id(transient: &Path) -> Result<String, String> {
    set_id(Path::new(MACHINE_ID), transient)
}

/// Replaces the id, as [`set_machine_id`] does with one that is not valid.
pub fn renew_machine_id(transient: &Path) -> Result<String, String> {
    new_id_in(Path::new(MACHINE_ID), transient)
}

fn set_id(path: &Path, transient: &Path) -> Result<String, String> {
    if std::fs::read_to_string(path).is_ok_and(|text| is_valid(text.trim_end())) {
        return Ok("it is set".to_owned());
    }
    new_id_in(path, transient)
}

fn new_id_in(path: &Path, transient: &Path) -> Result<String, String> {
    let id = format!("{}\n", new_id()?);
    let temporary = path.with_extension("new");
    // Where one is mounted already, the rename fails.
    let replaced = kelson_sys::replace(path, &temporary, 0o644, id.as_bytes());
    let Err(error) = replaced else { return Ok("a new one, kept".to_owned()) };
    std::fs::write(transient, &id).map_err(|error| format!("{}: {error}", transient.display()))?;
    if !std::fs::read_to_string(path).is_ok_and(|text| text == id) {
        mount(Some(transient), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(|errno| format!("{}: {error}; laying one over it: {}", path.display(), errno.desc()))?;
    }
    Ok("a new one, for this run only".to_owned())
}

/// 32 lower-case hexadecimal digits, not all of them 0.
fn is_valid(id: &str) -> bool {
    id.len() == 32
        && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && id.bytes().any(|byte| byte != b'0')
}

/// A random UUID of version 4, without its dashes, from the kernel's own source of them.
fn new_id() -> Result<String, String> {
    let path = PathBuf::from("/proc/sys/kernel/random/uuid");
    let mut text = String::new();
    std::fs::File::open(&path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim().replace('-', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked() {
        assert!(is_valid("0123456789abcdef0123456789abcdef"));
        for bad in
            ["", "uninitialized", "0123456789ABCDEF0123456789ABCDEF", "00000000000000000000000000000000"]
        {
            assert!(!is_valid(bad), "{bad}");
        }
        assert!(is_valid(&new_id().unwrap()));
    }

    #[test]
    fn a_missing_or_wrong_id_is_replaced_once() {
        let folder = std::env::temp_dir().join(format!("kelson-machine-id-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("machine-id");
        std::fs::write(&path, "uninitialized\n").unwrap();
        assert_eq!(set_id(&path, &folder.join("t")).unwrap(), "a new one, kept");
        let id = std::fs::read_to_string(&path).unwrap();
        assert!(is_valid(id.trim_end()));
        assert_eq!(set_id(&path, &folder.join("t")).unwrap(), "it is set");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), id);
        assert_eq!(new_id_in(&path, &folder.join("t")).unwrap(), "a new one, kept");
        let renewed = std::fs::read_to_string(&path).unwrap();
        assert!(is_valid(renewed.trim_end()) && renewed != id, "{renewed}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_host_without_a_file_of_hosts_gets_one_and_one_that_has_it_keeps_it() {
        let folder = std::env::temp_dir().join(format!("kelson-hosts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (hosts, public) = (folder.join("hosts"), folder.join("etc-hosts"));
        for name in ["edge-1", "edge-2"] {
            write_hosts(name, &hosts, &public).unwrap();
            assert!(std::fs::read_to_string(&public).unwrap().contains(&format!("127.0.1.1 {name}\n")));
        }
        std::fs::remove_file(&public).unwrap();
        std::fs::write(&public, "192.0.2.9 db\n").unwrap();
        write_hosts("edge-3", &hosts, &public).unwrap();
        assert_eq!(std::fs::read_to_string(&public).unwrap(), "192.0.2.9 db\n");
        let error = write_hosts("edge-3", &hosts, &folder.join("no/hosts")).unwrap_err();
        assert!(error.contains("no/hosts: No such file"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_host_name_file_may_have_comments() {
        assert_eq!(first_word("# a\n\n edge-1 \nx\n").as_deref(), Some("edge-1"));
        assert_eq!(first_word("\n"), None);
    }
}
