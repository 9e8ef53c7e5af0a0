//! Messages with keys: what shows them for debugging shows no key.

use std::fmt::{Debug, Formatter, Result};

use crate::v1::{RecoveryKeyResponse, SetSecretRequest, UnlockDiskRequest};

impl Debug for UnlockDiskRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("UnlockDiskRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Debug for SetSecretRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("SetSecretRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Debug for RecoveryKeyResponse {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("RecoveryKeyResponse").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown() {
        let request = UnlockDiskRequest { name: "data".to_owned(), key: b"hush".to_vec() };
        assert_eq!(format!("{request:?}"), "UnlockDiskRequest { name: \"data\", .. }");
        let request = SetSecretRequest { name: "db".to_owned(), value: b"hush".to_vec() };
        assert_eq!(format!("{request:?}"), "SetSecretRequest { name: \"db\", .. }");
        let response = RecoveryKeyResponse { key: "hush".to_owned() };
        assert_eq!(format!("{response:?}"), "RecoveryKeyResponse { .. }");
    }
}
