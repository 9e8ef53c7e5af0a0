//! Numbers of which no two services have the same one: places in the network of containers, ranges of ids.
//!
//! A number that a service has is a link in a folder of `/run`: the number is its name, and it leads to the name of the service.
//! So a service keeps its own while the host runs, over a crash and a re-execution of PID 1.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::Path;

/// Claims one of the `choices` for a service: the one that it has or had, else a free one, else one that another had.
/// `None`: all are taken.
///
/// # Errors
/// When the folder cannot be read or written.
pub fn claim(
    folder: &Path,
    choices: impl Iterator<Item = u32> + Clone,
    service: &str,
) -> io::Result<Option<u32>> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let link = |place: u32| folder.join(place.to_string());
    let owner = |place| fs::read_link(link(place)).map(|owner| owner.to_string_lossy().into_owned());
    for place in choices.clone() {
        match symlink(service, link(place)) {
            Ok(()) => return Ok(Some(place)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let owner = owner(place)?;
        if owner == service {
            return Ok(Some(place));
        }
        if owner.strip_prefix(FREE) == Some(service) {
            replace(folder, place, service)?;
            return Ok(Some(place));
        }
    }
    for place in choices {
        if owner(place)?.starts_with(FREE) {
            replace(folder, place, service)?;
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Stands before the name of a service that had the number. It is the first character of no name.
const FREE: char = '-';

/// Lets others have the number of a service, if there is no other one.
pub fn release(folder: &Path, place: u32, service: &str) {
    // Without it they do not get it.
    let _ = replace(folder, place, &format!("{FREE}{service}"));
}

fn replace(folder: &Path, place: u32, owner: &str) -> io::Result<()> {
    let new = folder.join("new");
    kelson_sys::removed(fs::remove_file(&new))?;
    symlink(owner, &new)?;
    fs::rename(&new, folder.join(place.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_keeps_its_place_and_another_gets_it_only_if_none_is_free() {
        let folder = std::env::temp_dir().join(format!("kelson-places-{}", std::process::id()));
        let claim = |service: &str| claim(&folder, kelson_spec::places::places(service, 5), service).unwrap();
        let names = ["a", "b", "c", "d", "e"];
        let mut places: Vec<u32> = names.into_iter().filter_map(claim).collect();
        assert_eq!(names.into_iter().filter_map(claim).collect::<Vec<_>>(), places, "each has its own");
        assert_eq!(claim("f"), None);
        let of_c = places[2];
        release(&folder, of_c, "c");
        // It is remembered as long as nobody else needs it.
        assert_eq!(claim("c"), Some(of_c));
        release(&folder, of_c, "c");
        assert_eq!(claim("f"), Some(of_c));
        assert_eq!((claim("c"), claim("f"), claim("e")), (None, Some(of_c), Some(places[4])));
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 3, 4]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
