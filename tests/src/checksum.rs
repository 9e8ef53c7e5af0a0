//! FNV-1a of 64 bits: enough to tell a file that is whole from one that is not. The test and its program share it.

pub fn of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
