//! Signatures of archives by minisign: `FILE.minisig` beside `FILE`.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use minisign_verify::{Error, PublicKey, Signature};

use super::error::TrustError;
use super::{key_file, key_name};

/// Bytes that are read at once.
const BUFFER: usize = 128 << 10;

/// A public key of minisign.
pub struct MinisignKey {
    path: PathBuf,
    key: PublicKey,
}

impl MinisignKey {
    /// # Errors
    /// The file has none.
    pub fn read(path: &Path) -> Result<MinisignKey, TrustError> {
        let bytes =
            key_file::read(path).map_err(|error| TrustError::KeyFile { path: path.to_owned(), error })?;
        let what = "a file as `minisign -G` writes it would be right";
        let wrong = || TrustError::Key { path: path.to_owned(), kind: "minisign", what };
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong())?;
        let key = PublicKey::decode(text).map_err(|_| wrong())?;
        Ok(MinisignKey { path: path.to_owned(), key })
    }

    /// The name of its file.
    pub fn name(&self) -> String {
        key_name(&self.path)
    }

    /// Proves that the archive at `path`, which is open as `file`, is as it was signed.
    ///
    /// # Errors
    /// It is not, or has no signature.
    pub fn prove(&self, path: &Path, file: &File) -> Result<(), TrustError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".minisig");
        let beside = PathBuf::from(beside);
        let bytes = key_file::read(&beside)
            .map_err(|error| TrustError::SignatureFile { path: beside.clone(), error })?;
        let wrong = |what| TrustError::Minisign { path: beside.clone(), what };
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("it is no text"))?;
        let signature = Signature::decode(text).map_err(|_| wrong("`minisign -S` writes such a file"))?;
        let mut stream = self.key.verify_stream(&signature).map_err(|error| match error {
            Error::UnexpectedKeyId => wrong("another key made it"),
            _ => wrong("it is of the legacy form; sign with minisign 0.10 or newer, without -l"),
        })?;
        let (mut at, mut buffer) = (0_u64, vec![0; BUFFER]);
        loop {
            let read = file
                .read_at(&mut buffer, at)
                .map_err(|error| TrustError::Archive { path: path.to_owned(), error })?;
            if read == 0 {
                break;
            }
            stream.update(buffer.get(..read).unwrap_or_default());
            at = at.saturating_add(read as u64);
        }
        stream.finalize().map_err(|_| wrong("the archive is not the one that was signed"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// `minisign -G -W`, and what `minisign -S -W` says of `an archive` with that key, also with `-l`.
    const KEY: &str = "untrusted comment: minisign public key D72455DED917E5BC\n\
                       RWS85RfZ3lUk1xQ+x2CqZ4sPc1mglLgqzhyj+C/hP8vLiCKA93dKsxmP\n";
    const OTHER: &str = "untrusted comment: minisign public key 1BCFEAAC810157AA\n\
                         RWSqVwGBrOrPG4h/I28uDrils2ELKDJT6sFP4lxjhuk95G8iZHHDcpIP\n";
    const GOOD: &str = "untrusted comment: signature from minisign secret key\n\
        RUS85RfZ3lUk10pJeyOW/lffuFlYvbnS++5CL0D0LmZFkw5oNVDptYzeNGBK/bfM+OH/upwIOFXY7jWn+4+iCUIEmua8t7+7FwQ=\n\
        trusted comment: an archive\n\
        IBxN6dl/YbbPR/57ONz3KmaaKIEmCw5WXct8rA9eF0JWlp+o5doYPjvJWJm1SQqG3zchw7gnYbz9FYnTfJhEAQ==\n";
    const LEGACY: &str = "untrusted comment: signature from minisign secret key\n\
        RWS85RfZ3lUk10y5O4+OI5sB7wxfJvWMSgfuE8gUBvem+th1NrSLQw5PkdGwh12aOQ/3KZSXKr4dGWNimn+FKrRq/DztafQXIAU=\n\
        trusted comment: timestamp:1795698517\tfile:a.tar\n\
        bJQHLGelJN/NqV2W0/WA/zN4Raqf/ee9zvC77TXwAXeC58o7JxT9oBlgfG9xuGtvwIYK7I/k/6MIw0gB12tCCA==\n";

    fn judge(key: &str, archive: &str, signature: Option<&str>) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("release.pub"), key).unwrap();
        fs::write(at("a.tar"), archive).unwrap();
        if let Some(signature) = signature {
            fs::write(at("a.tar.minisig"), signature).unwrap();
        }
        let key = MinisignKey::read(&at("release.pub")).map_err(|error| error.to_string())?;
        assert_eq!(key.name(), "release.pub");
        let file = File::open(at("a.tar")).unwrap();
        key.prove(&at("a.tar"), &file).map_err(|error| error.to_string())
    }

    #[test]
    fn an_archive_is_what_was_signed() {
        assert_eq!(judge(KEY, "an archive", Some(GOOD)), Ok(()));
        for (key, archive, signature, why) in [
            (KEY, "an archivf", Some(GOOD), "not the one that was signed"),
            (KEY, "an archive", None, "a.tar.minisig cannot be read: No such file"),
            (OTHER, "an archive", Some(GOOD), "another key made it"),
            (KEY, "an archive", Some(LEGACY), "without -l"),
            (KEY, "an archive", Some(KEY), "`minisign -S` writes such a file"),
            (
                KEY,
                "an archive",
                Some(&GOOD.replace("an archive", "another one")),
                "not the one that was signed",
            ),
            (GOOD, "an archive", Some(GOOD), "`minisign -G` writes it would be right"),
            ("", "an archive", Some(GOOD), "`minisign -G` writes it would be right"),
        ] {
            let error = judge(key, archive, signature).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
