//! The sealed values of a host: a file each, in a folder of the state folder.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kelson_spec::secrets::{self, FOLDER, KEY, StoredSecret, is_name};
use kelson_spec::sources::{self, SourceKind};
use kelson_sys::ordered;
use libc::O_NOFOLLOW;

use crate::folder::names_in;
use crate::sealed::{self, Key, LONGEST_SEALED, Opened};
use crate::{SecretError, given, host_key};

/// What a file is named until it is whole. No secret has such a name.
const HALF: &str = ".new-";

/// The secrets of a host.
pub struct Store {
    folder: PathBuf,
    state: PathBuf,
    key: PathBuf,
    /// Where the sources of the configuration may have given some that count more.
    runtime: Option<PathBuf>,
}

impl Store {
    /// In the state folder. The runtime folder has what sources gave.
    pub fn new(state: &Path, runtime: &Path) -> Store {
        Store { runtime: Some(runtime.to_owned()), ..Store::in_folder(state, state.join(FOLDER)) }
    }

    /// Those that a source gave at an earlier boot.
    pub fn remembered(state: &Path, kind: SourceKind) -> Store {
        Store::in_folder(state, state.join(sources::FOLDER).join(kind.name()).join(FOLDER))
    }

    fn in_folder(state: &Path, folder: PathBuf) -> Store {
        Store { folder, state: state.to_owned(), key: state.join(KEY), runtime: None }
    }

    /// Keeps a value. A power cut leaves the old one or the new one.
    ///
    /// # Errors
    /// A wrong name, one of a source, or a file that cannot be written.
    pub fn set(&self, name: &str, opened: &Opened) -> Result<(), SecretError> {
        let file = self.file(name)?;
        if let Some((kind, _)) = self.given(name) {
            return Err(of_source(name, kind));
        }
        let sealed = sealed::seal(&self.key_to_set()?, name, opened)?;
        let failed = SecretError::at(&self.folder);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed)?;
        let half = self.folder.join(format!("{HALF}{}-{name}", std::process::id()));
        kelson_sys::replace(&file, &half, 0o600, &sealed).map_err(SecretError::at(&file))
    }

    /// Opens a secret.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub fn open(&self, name: &str) -> Result<Opened, SecretError> {
        if let Some((kind, file)) = self.given(name) {
            return given::read(kind, &file);
        }
        let sealed = self.read(name)?;
        sealed::open(&self.key(name)?, name, &sealed)
    }

    /// All secrets by name, without their values.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Vec<StoredSecret>, SecretError> {
        let mut names = self.names()?;
        if let Some(runtime) = &self.runtime {
            names.extend(given::names(runtime)?);
            ordered::sort(&mut names);
            names.dedup();
        }
        let about = |name: &str| self.open(name).map(|opened| opened.about);
        let stored =
            |name: String| StoredSecret { found: about(&name).map_err(|error| error.to_string()), name };
        Ok(names.into_iter().map(stored).collect())
    }

    /// Removes a secret.
    ///
    /// # Errors
    /// There is none, or its file stays.
    pub fn remove(&self, name: &str) -> Result<(), SecretError> {
        let file = self.file(name)?;
        match fs::remove_file(&file).and_then(|()| self.sync()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(match self.given(name) {
                Some((kind, _)) => of_source(name, kind),
                None => SecretError::Unknown(name.to_owned()),
            }),
            removed => removed.map_err(SecretError::at(&file)),
        }
    }

    /// The names of those that are sealed.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, SecretError> {
        names_in(&self.folder)
    }

    fn given(&self, name: &str) -> Option<(SourceKind, PathBuf)> {
        secrets::given(self.runtime.as_deref()?, name)
    }

    fn file(&self, name: &str) -> Result<PathBuf, SecretError> {
        if is_name(name) { Ok(self.folder.join(name)) } else { Err(SecretError::Name(name.to_owned())) }
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, SecretError> {
        let file = self.file(name)?;
        let mut sealed = Vec::new();
        let open = File::options().read(true).custom_flags(O_NOFOLLOW).open(&file);
        let read = open.and_then(|file| file.take(LONGEST_SEALED as u64).read_to_end(&mut sealed));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(SecretError::Unknown(name.to_owned())),
            read => read.map(|_| sealed).map_err(SecretError::at(&file)),
        }
    }

    fn key(&self, name: &str) -> Result<Key, SecretError> {
        let missing = || SecretError::NoKey { key: self.key.clone(), sealed: name.to_owned() };
        host_key::read(&self.key)?.ok_or_else(missing)
    }

    /// A new key would not open what is there.
    fn key_to_set(&self) -> Result<Key, SecretError> {
        let mut names = self.names()?;
        names.extend(names_in(&self.state.join(FOLDER))?);
        match names.first() {
            Some(name) => self.key(name),
            None => host_key::make(&self.key),
        }
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

fn of_source(name: &str, kind: SourceKind) -> SecretError {
    SecretError::OfSource { name: name.to_owned(), source_name: kind.name() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn set(store: &Store, name: &str, value: &str) -> Result<(), SecretError> {
        store.set(name, &Opened::now(value.as_bytes().to_vec(), "uid 0", ""))
    }

    fn names(store: &Store) -> Vec<String> {
        store.list().unwrap().into_iter().map(|stored| stored.name).collect()
    }

    #[test]
    fn a_value_is_kept_until_it_is_replaced_or_removed() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::new(state.path(), Path::new("/nonexistent"));
        assert_eq!(store.list().unwrap(), []);
        set(&store, "db", "one").unwrap();
        set(&store, "db", "two").unwrap();
        set(&store, "Api.Key", "three").unwrap();
        assert_eq!(store.open("db").unwrap().value, b"two");
        assert_eq!(names(&store), ["Api.Key", "db"]);
        let about = store.list().unwrap().remove(1).found.unwrap();
        assert_eq!((about.size, about.author.as_str(), about.source.as_str()), (3, "uid 0", ""));
        let mode = |path: &str| fs::metadata(state.path().join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("secrets"), mode("secrets/db"), mode("secrets.key")), (0o700, 0o600, 0o400));
        assert_eq!(fs::read_dir(state.path().join("secrets")).unwrap().count(), 2, "no half is left");
        store.remove("db").unwrap();
        assert_eq!(names(&store), ["Api.Key"]);
        let gone = "there is no secret db; kelsonctl secret list shows those of this host";
        assert_eq!(store.open("db").unwrap_err().to_string(), gone);
        assert_eq!(store.remove("db").unwrap_err().to_string(), gone);
    }

    #[test]
    fn a_name_does_not_lead_out_of_the_folder() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::new(state.path(), Path::new("/nonexistent"));
        set(&store, "db", "one").unwrap();
        for name in ["../secrets.key", "", ".", "..", ".new-1-db"] {
            for error in [store.open(name).map(drop), store.remove(name), set(&store, name, "x")] {
                assert!(matches!(error, Err(SecretError::Name(_))), "{name:?}");
            }
        }
        std::os::unix::fs::symlink(state.path().join("secrets/db"), state.path().join("secrets/link"))
            .unwrap();
        assert!(store.open("link").is_err());
    }

    #[test]
    fn files_that_were_swapped_or_cut_do_not_open() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::new(state.path(), Path::new("/nonexistent"));
        set(&store, "db", "one").unwrap();
        set(&store, "web", "two").unwrap();
        let file = |name: &str| state.path().join("secrets").join(name);
        fs::copy(file("web"), file("db")).unwrap();
        fs::write(file("web"), "").unwrap();
        for name in ["db", "web"] {
            assert!(matches!(store.open(name), Err(SecretError::Unopened(_))), "{name}");
        }
        let list = store.list().unwrap();
        assert!(list.iter().all(|stored| stored.found.as_ref().unwrap_err().contains("is damaged")));
        set(&store, "db", "three").unwrap();
        assert_eq!(store.open("db").unwrap().value, b"three");
    }

    #[test]
    fn a_lost_key_is_not_replaced_while_something_is_sealed_with_it() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::new(state.path(), Path::new("/nonexistent"));
        set(&store, "db", "one").unwrap();
        let key = state.path().join("secrets.key");
        fs::rename(&key, state.path().join("elsewhere")).unwrap();
        for error in [set(&store, "web", "two").unwrap_err(), store.open("db").unwrap_err()] {
            assert!(matches!(error, SecretError::NoKey { .. }), "{error}");
        }
        assert!(!key.exists());
        fs::rename(state.path().join("elsewhere"), &key).unwrap();
        assert_eq!(store.open("db").unwrap().value, b"one");
        fs::remove_file(&key).unwrap();
        store.remove("db").unwrap();
        set(&store, "web", "two").unwrap();
        assert_eq!(store.open("web").unwrap().value, b"two");
    }
}
