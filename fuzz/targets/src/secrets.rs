//! Sealed secrets: a file of the state folder, and what is in it once the seal is open.

use kelson_secrets::{Key, Opened, open, seal};

/// A file that somebody else has sealed opens for nobody; a content that makes sense is sealed and opened as it is.
pub fn sealed(data: &[u8]) {
    let key = Key::new(&[7; 32]).expect("a key");
    assert!(open(&key, "db", data).is_err());
    if let Some(opened) = Opened::read(data) {
        assert_eq!(usize::try_from(opened.about.size), Ok(opened.value.len()));
        let sealed = seal(&key, "db", &opened).expect("it is no longer than the input");
        assert_eq!(open(&key, "db", &sealed).expect("it was just sealed"), opened);
        assert!(open(&key, "web", &sealed).is_err());
    }
}
