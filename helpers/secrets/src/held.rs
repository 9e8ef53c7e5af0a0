//! The secrets that sources of the configuration gave, held for this boot: files in memory that is never swapped.
//!
//! They are not sealed on the disk: the firmware or the disk that gave them gives them again at the next boot. Those of a source
//! that is remembered are sealed in the state folder, by [`remember`].

use std::collections::BTreeSet;
use std::path::Path;

use kelson_spec::secrets::{
    LONGEST_VALUE, MOST_BYTES_OF_SOURCE, MOST_OF_SOURCE, SecretUse, is_name, source_folder,
};
use kelson_spec::sources::SourceKind;

use crate::given::{Given, read_folder};
use crate::place::place_opened;
use crate::sealed::Opened;
use crate::{Owner, SecretError, Store, withdraw};

/// Holds what a source gave, in the place of what it gave before. `sources`: the folder of what the sources gave.
///
/// # Errors
/// Something that can be no secret, or no memory. Then nothing of the source is held.
pub fn hold(sources: &Path, kind: SourceKind, given: Vec<Given>) -> Result<(), SecretError> {
    let folder = source_folder(sources, kind);
    withdraw(&folder)?;
    check(&given)?;
    if given.is_empty() {
        return Ok(());
    }
    let uses: Vec<SecretUse> = given.iter().map(|one| SecretUse::of(&one.name)).collect();
    let opened = given.into_iter().map(|one| Opened::now(one.value, "", kind.name()));
    let opened: Vec<(&SecretUse, Opened)> = uses.iter().zip(opened).collect();
    place_opened(&folder, Owner { uid: 0, gid: 0 }, &opened).map(drop)
}

fn check(given: &[Given]) -> Result<(), SecretError> {
    let mut names = BTreeSet::new();
    for Given { name, value } in given {
        if !is_name(name) {
            return Err(SecretError::Name(name.clone()));
        }
        if value.len() > LONGEST_VALUE {
            return Err(SecretError::TooLong(name.clone()));
        }
        if !names.insert(name) {
            return Err(SecretError::Twice(name.clone()));
        }
    }
    let bytes = given.iter().fold(0_usize, |sum, one| sum.saturating_add(one.value.len()));
    if given.len() > MOST_OF_SOURCE || bytes > MOST_BYTES_OF_SOURCE {
        return Err(SecretError::TooMuch);
    }
    Ok(())
}

/// Whether what is held of a source is what is remembered of it. What cannot be opened is not.
///
/// # Errors
/// When what is held cannot be read.
pub fn is_remembered(sources: &Path, kind: SourceKind, state: &Path) -> Result<bool, SecretError> {
    let given = read_folder(&source_folder(sources, kind))?;
    Ok(remembered(&Store::remembered(state, kind)).is_ok_and(|before| before == given))
}

/// Seals what is held of a source for later boots.
///
/// # Errors
/// When it cannot be read or sealed.
pub fn remember(sources: &Path, kind: SourceKind, state: &Path) -> Result<(), SecretError> {
    let store = Store::remembered(state, kind);
    let mut given = read_folder(&source_folder(sources, kind))?.into_iter();
    given.try_for_each(|one| store.set(&one.name, &Opened::now(one.value, "", kind.name())))
}

/// Holds what is remembered of a source.
///
/// # Errors
/// When it cannot be opened or held.
pub fn recall(sources: &Path, kind: SourceKind, state: &Path) -> Result<(), SecretError> {
    hold(sources, kind, remembered(&Store::remembered(state, kind))?)
}

fn remembered(store: &Store) -> Result<Vec<Given>, SecretError> {
    let names = store.names()?.into_iter();
    names.map(|name| store.open(&name).map(|opened| Given { name, value: opened.value })).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use kelson_spec::{secrets, sources};

    use super::*;
    use crate::place::testing::in_a_namespace;

    fn given(pairs: &[(&str, &str)]) -> Vec<Given> {
        let given = |(name, value): &(&str, &str)| Given { name: (*name).to_owned(), value: (*value).into() };
        pairs.iter().map(given).collect()
    }

    #[test]
    fn a_secret_of_a_source_counts_more_than_one_that_was_set() {
        in_a_namespace(|folder, store| {
            let run = folder.parent().and_then(Path::parent).unwrap();
            let sources = run.join(sources::FOLDER);
            hold(&sources, SourceKind::Disk, given(&[("db", "of-disk"), ("api", "key")])).unwrap();
            hold(&sources, SourceKind::Credentials, given(&[("db", "of-firmware")])).unwrap();
            let opened = store.open("db").unwrap();
            assert_eq!(
                (opened.value.as_slice(), opened.about.source.as_str()),
                (&b"of-firmware"[..], "credentials")
            );
            let list = store.list().unwrap().into_iter();
            let list: Vec<(String, String)> = list.map(|one| (one.name, one.found.unwrap().source)).collect();
            let pair = |name: &str, source: &str| (name.to_owned(), source.to_owned());
            assert_eq!(list, [pair("api", "disk"), pair("db", "credentials"), pair("tls-key", "")]);
            let why = "secret db comes from the source credentials, which counts more than a value that is set here; \
                       change it there";
            let refused = store.set("db", &Opened::now(b"x".to_vec(), "uid 0", ""));
            assert_eq!(refused.unwrap_err().to_string(), why);
            assert!(
                store
                    .remove("api")
                    .unwrap_err()
                    .to_string()
                    .starts_with("secret api comes from the source disk")
            );
            // A service gets it with the time at which it was given.
            crate::place(store, folder, Owner { uid: 0, gid: 0 }, &[SecretUse::of("db")]).unwrap();
            assert_eq!(fs::read(folder.join("db")).unwrap(), b"of-firmware");
            assert_eq!(fs::metadata(folder.join("db")).unwrap().modified().unwrap(), opened.about.set_at);
            // What the next boot does not give is that of the operator again, who may have removed it.
            hold(&sources, SourceKind::Credentials, Vec::new()).unwrap();
            hold(&sources, SourceKind::Disk, given(&[("api", "key")])).unwrap();
            assert_eq!(store.open("db").unwrap().value, b"hush");
            assert_eq!((secrets::given(run, "db"), secrets::given(run, "../disk/api")), (None, None));
            assert_eq!(secrets::given(run, "api").unwrap().0, SourceKind::Disk);
            crate::withdraw(folder).unwrap();
        });
    }

    #[test]
    fn what_is_remembered_is_sealed_and_held_again() {
        in_a_namespace(|folder, _| {
            let state = folder.parent().and_then(Path::parent).and_then(Path::parent).unwrap().join("state");
            let (sources, kind) = (folder.with_file_name("sources"), SourceKind::NoCloud);
            hold(&sources, kind, given(&[("db", "hush-hush")])).unwrap();
            assert!(!is_remembered(&sources, kind, &state).unwrap());
            remember(&sources, kind, &state).unwrap();
            assert!(is_remembered(&sources, kind, &state).unwrap());
            let sealed = fs::read(state.join("sources/noCloud/secrets/db")).unwrap();
            assert!(!sealed.windows(9).any(|part| part == b"hush-hush"));
            hold(&sources, kind, Vec::new()).unwrap();
            recall(&sources, kind, &state).unwrap();
            assert!(read_folder(&source_folder(&sources, kind)).unwrap() == given(&[("db", "hush-hush")]));
            // The key is that of the host, and is not made again for these while others are sealed with it.
            fs::remove_file(state.join("secrets.key")).unwrap();
            fs::remove_dir_all(state.join("sources")).unwrap();
            assert!(matches!(remember(&sources, kind, &state), Err(SecretError::NoKey { .. })));
        });
    }

    #[test]
    fn what_can_be_no_secret_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(LONGEST_VALUE + 1);
        let names: Vec<String> = (0..=MOST_OF_SOURCE).map(|number| number.to_string()).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let large: Vec<(&str, &str)> =
            names.iter().take(17).map(|name| (name.as_str(), &long[1..])).collect();
        for (pairs, what) in [
            (&[("../db", "x")][..], "\"../db\" is not the name of a secret"),
            (&[("db", "x"), ("db", "y")], "secret db is there twice"),
            (&[("db", &long)], "secret db: it has more than 65536 bytes"),
            (&many, "a source has at most 200 secrets"),
            (&large, "a source has at most 200 secrets, with 1000000 bytes together"),
        ] {
            let error = hold(folder.path(), SourceKind::Disk, given(pairs)).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert!(!folder.path().join("secrets").exists());
        }
    }
}
