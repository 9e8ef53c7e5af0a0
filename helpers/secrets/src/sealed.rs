//! The form of a sealed value.
//!
//! ```text
//! version (1 byte: 1)  nonce (12 bytes)  sealed content  tag (16 bytes)
//! ```
//!
//! The content is sealed with ChaCha20-Poly1305. The version and the name of the secret are authenticated with it, so a file
//! under another name does not open. It begins with what is known of the value, so nobody without the key learns that either:
//!
//! ```text
//! set at (8 bytes, milliseconds since 1970)  length (1 byte) and source  length (2 bytes) and author  the value
//! ```
//!
//! Numbers are little-endian.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_spec::secrets::{About, LONGEST_VALUE};
use kelson_sys::text::start_of;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::SecretError;

const VERSION: u8 = 1;
/// Bytes of the key of the host.
pub const KEY_LENGTH: usize = 32;
/// Longest text of a source or an author, in bytes.
const LONGEST_TEXT: usize = 200;
/// Longest sealed value, in bytes.
pub const LONGEST_SEALED: usize = LONGEST_VALUE + 1024;

/// The key of a host.
pub struct Key(LessSafeKey);

impl Key {
    /// `None`: this is no key.
    pub fn new(bytes: &[u8]) -> Option<Key> {
        UnboundKey::new(&CHACHA20_POLY1305, bytes).ok().map(LessSafeKey::new).map(Key)
    }
}

/// A secret that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub about: About,
    pub value: Vec<u8>,
}

/// Seals a value for the secret of this name.
///
/// # Errors
/// A value that is too long, or no randomness.
pub fn seal(key: &Key, name: &str, opened: &Opened) -> Result<Vec<u8>, SecretError> {
    if opened.value.len() > LONGEST_VALUE {
        return Err(SecretError::TooLong(name.to_owned()));
    }
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| SecretError::NoRandomness)?;
    let mut content = write(opened);
    let sealed = key.0.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(bound(name)),
        &mut content,
    );
    sealed.map_err(|_| SecretError::TooLong(name.to_owned()))?;
    Ok([&[VERSION], &nonce[..], &content].concat())
}

/// Opens what was sealed for the secret of this name.
///
/// # Errors
/// It was sealed with another key, or for another name, or is damaged.
pub fn open(key: &Key, name: &str, sealed: &[u8]) -> Result<Opened, SecretError> {
    let unopened = || SecretError::Unopened(name.to_owned());
    let (version, rest) = sealed.split_first().ok_or_else(unopened)?;
    if *version != VERSION {
        return Err(SecretError::Version(name.to_owned()));
    }
    let (nonce, content) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(unopened)?;
    let mut content = content.to_vec();
    let content = key
        .0
        .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(bound(name)), &mut content)
        .map_err(|_| unopened())?;
    Opened::read(content).ok_or_else(unopened)
}

/// What is authenticated besides the content.
fn bound(name: &str) -> Vec<u8> {
    [b"kelson secret ", &[VERSION][..], name.as_bytes()].concat()
}

fn write(Opened { about, value }: &Opened) -> Vec<u8> {
    let since = about.set_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let mut content = millis.to_le_bytes().to_vec();
    let source = start_of(&about.source, LONGEST_TEXT);
    content.push(u8::try_from(source.len()).unwrap_or(u8::MAX));
    content.extend(source.as_bytes());
    let author = start_of(&about.author, LONGEST_TEXT);
    content.extend(u16::try_from(author.len()).unwrap_or(u16::MAX).to_le_bytes());
    content.extend(author.as_bytes());
    content.extend(value);
    content
}

impl Opened {
    /// Reads the content of a sealed value. `None`: it is none.
    pub fn read(content: &[u8]) -> Option<Opened> {
        let (millis, rest) = content.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first()?;
        let (source, rest) = rest.split_at_checked(usize::from(*length))?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (author, value) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let text =
            |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok().filter(|text| text.len() <= LONGEST_TEXT);
        let about = About {
            size: u64::try_from(value.len()).ok()?,
            set_at: UNIX_EPOCH.checked_add(Duration::from_millis(u64::from_le_bytes(*millis)))?,
            author: text(author)?,
            source: text(source)?,
        };
        Some(Opened { about, value: value.to_vec() })
    }

    /// A value that is set now.
    pub fn now(value: Vec<u8>, author: &str, source: &str) -> Opened {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // What the form keeps of it.
        let now = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let about = About {
            size: value.len() as u64,
            set_at: UNIX_EPOCH.checked_add(now).unwrap_or(UNIX_EPOCH),
            author: author.to_owned(),
            source: source.to_owned(),
        };
        Opened { about, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Key::new(&[byte; KEY_LENGTH]).unwrap()
    }

    fn refusal(key: &Key, name: &str, sealed: &[u8]) -> String {
        open(key, name, sealed).unwrap_err().to_string()
    }

    #[test]
    fn what_was_sealed_is_opened_under_its_name() {
        for value in [vec![], b"hush\n".to_vec(), vec![0xFF; LONGEST_VALUE]] {
            let opened = Opened::now(value, "uid 0", "disk");
            let sealed = seal(&key(1), "db", &opened).unwrap();
            assert!(sealed.len() <= LONGEST_SEALED);
            assert_eq!(open(&key(1), "db", &sealed).unwrap(), opened);
            assert_ne!(sealed, seal(&key(1), "db", &opened).unwrap(), "each has a nonce of its own");
        }
        let long = Opened::now(vec![0; LONGEST_VALUE + 1], "", "");
        assert!(matches!(seal(&key(1), "db", &long), Err(SecretError::TooLong(_))));
        let wordy = Opened::now(b"x".to_vec(), &"ä".repeat(300), "");
        let sealed = seal(&key(1), "db", &wordy).unwrap();
        assert_eq!(open(&key(1), "db", &sealed).unwrap().about.author, "ä".repeat(100));
    }

    #[test]
    fn another_key_name_or_byte_does_not_open_it() {
        let sealed = seal(&key(1), "db", &Opened::now(b"hush".to_vec(), "uid 0", "")).unwrap();
        assert!(!sealed.windows(4).any(|part| part == b"hush" || part == b"uid "));
        let damaged = "secret db: it is damaged, or sealed with the key of another host; set it again";
        assert_eq!(refusal(&key(2), "db", &sealed), damaged);
        assert_eq!(refusal(&key(1), "web", &sealed), damaged.replace("db", "web"));
        for at in 1..sealed.len() {
            let mut other = sealed.clone();
            other[at] ^= 1;
            assert_eq!(refusal(&key(1), "db", &other), damaged, "byte {at}");
            assert_eq!(refusal(&key(1), "db", &sealed[..at]), damaged, "{at} bytes");
        }
        assert_eq!(refusal(&key(1), "db", &[]), damaged);
        let later = [&[2], &sealed[1..]].concat();
        assert_eq!(refusal(&key(1), "db", &later), "secret db: it is sealed by a later version of Kelson");
    }

    #[test]
    fn a_content_that_ends_early_is_none() {
        let content = write(&Opened::now(Vec::new(), "uid 0", "disk"));
        assert!(Opened::read(&content).is_some());
        assert!((0..content.len()).all(|length| Opened::read(&content[..length]).is_none()));
    }
}
