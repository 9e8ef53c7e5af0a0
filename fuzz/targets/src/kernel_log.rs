//! The kernel log.

#[path = "../../../api/src/server/kmsg/record.rs"]
mod record;

/// One record, as a read of `/dev/kmsg` gives it.
pub fn one(data: &[u8]) {
    if let Some(record) = record::parse(data) {
        assert!(record.level <= 7);
        assert!(!record.text.contains('\0') || data.contains(&0), "{:?}", record.text);
        // A byte that is no text becomes a sign of three.
        assert!(record.text.len() <= data.len().saturating_mul(3));
    }
}
