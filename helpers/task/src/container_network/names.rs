//! The names under which containers find each other: the file that each has as `/etc/hosts`.
//!
//! All containers see one file, so a name is known to those that run already. It is written in place, because a new file
//! would not reach them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use kelson_spec::container_network::{ContainerNetworkSpec, claims, hosts};
use kelson_spec::names::is_name;
use nix::fcntl::{Flock, FlockArg};

use crate::failure::at;

/// The file of the host, whose lines come first.
const OF_HOST: &str = "/etc/hosts";
/// No more than this of it is taken, in bytes.
const MOST: u64 = 1 << 20;

/// Writes the names of all containers that have an address, after those of the host.
pub fn publish(runtime_dir: &Path, network: &ContainerNetworkSpec) -> Result<(), String> {
    let path = hosts(runtime_dir);
    let failed = |error| at(&path, error);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .open(&path)
        .map_err(failed)?;
    // Another container may join at the same time; with the lock, the last one to look writes.
    let mut file = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| failed(errno.into()))?;
    let text = text(&of_host(), &owners(&claims(runtime_dir))?, network);
    let mut known = String::new();
    // What is no text any more is written again.
    let _ = file.read_to_string(&mut known);
    if known != text { write(&file, &text).map_err(failed) } else { Ok(()) }
}

fn write(file: &File, text: &str) -> io::Result<()> {
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len().try_into().unwrap_or(u64::MAX))
}

fn of_host() -> String {
    let mut text = String::new();
    if let Ok(file) = File::open(OF_HOST) {
        // A host without one, or with one that is no text, adds nothing.
        let _ = file.take(MOST).read_to_string(&mut text);
    }
    text
}

/// The places that services have now, by their names.
fn owners(claims: &Path) -> Result<BTreeMap<String, u32>, String> {
    let mut owners = BTreeMap::new();
    let found = match fs::read_dir(claims) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(owners),
        Err(error) => return Err(at(claims, error)),
    };
    for claim in found {
        let claim = claim.map_err(|error| at(claims, error))?;
        let place = claim.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        // The place may be given away at this moment.
        let owner =
            fs::read_link(claim.path()).ok().and_then(|owner| owner.into_os_string().into_string().ok());
        if let (Some(place), Some(owner)) = (place, owner.filter(|owner| is_name(owner))) {
            owners.insert(owner, place);
        }
    }
    Ok(owners)
}

/// Names lead to addresses of IPv4 alone: many programs listen on no other, and many clients try one address.
fn text(of_host: &str, owners: &BTreeMap<String, u32>, network: &ContainerNetworkSpec) -> String {
    let mut text = of_host.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for (owner, place) in owners {
        let [address, _] = network.addresses(*place);
        // Writing into a String does not fail.
        let _ = writeln!(text, "{}\t{owner}", address.0);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    #[test]
    fn names_of_containers_follow_those_of_the_host() {
        let folder = tempfile::tempdir().unwrap();
        let network = ContainerNetworkSpec::default();
        let claims = claims(folder.path());
        fs::create_dir(&claims).unwrap();
        let claim = |place: &str, owner: &str| symlink(owner, claims.join(place)).unwrap();
        let added = || {
            publish(folder.path(), &network).unwrap();
            let text = fs::read_to_string(hosts(folder.path())).unwrap();
            text.strip_prefix(of_host().as_str()).unwrap().to_owned()
        };
        assert_eq!(added(), "");
        let inode = fs::metadata(hosts(folder.path())).unwrap().ino();
        claim("258", "web");
        claim("7", "db");
        // One that another may have, one that is being made, and one that no service has.
        claim("9", "-old");
        claim("new", "cache");
        claim("11", "Not A Name");
        assert_eq!(added(), "10.88.0.7\tdb\n10.88.1.2\tweb\n");
        fs::remove_file(claims.join("7")).unwrap();
        assert_eq!(added(), "10.88.1.2\tweb\n", "nothing is left of the longer text");
        assert_eq!(fs::metadata(hosts(folder.path())).unwrap().ino(), inode, "containers see this file");
    }

    #[test]
    fn a_last_line_of_the_host_without_its_end_is_no_start_of_another() {
        let owners = BTreeMap::from([("db".to_owned(), 7)]);
        let text = text("127.0.0.1 localhost", &owners, &ContainerNetworkSpec::default());
        assert_eq!(text, "127.0.0.1 localhost\n10.88.0.7\tdb\n");
    }
}
