//! The kernel log.

use kelson_devices::firmware;

#[path = "../../../api/src/server/kmsg/record.rs"]
mod record;

/// One record, as a read of `/dev/kmsg` gives it, for `kelsonctl dmesg` and for what it reports of firmware.
pub fn one(data: &[u8]) {
    if let Some(missing) = firmware::parse(data) {
        let text = missing.to_string();
        assert!(text.len() <= 600 && text.contains("its firmware "), "{text:?}");
    }
    if let Some(record) = record::parse(data) {
        assert!(record.level <= 7);
        assert!(!record.text.contains('\0') || data.contains(&0), "{:?}", record.text);
        // A byte that is no text becomes a sign of three.
        assert!(record.text.len() <= data.len().saturating_mul(3));
    }
}
