//! Removing what may be gone already.

use std::io::{self, ErrorKind};

/// The result of a removal, of which only the end counts: what was not there is removed.
///
/// # Errors
/// Any other failure of it.
pub fn removed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_there_is_removed() {
        assert!(removed(std::fs::remove_file("/no/such/file")).is_ok());
        assert!(removed(std::fs::remove_file("/proc")).is_err());
    }
}
