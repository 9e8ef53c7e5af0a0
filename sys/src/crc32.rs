//! The checksum CRC-32 of IEEE 802.3, as GPT and gzip have it.
//!
//! The crates for it are faster, and carry 16 KiB of tables, which is more than all that Kelson sums up in a day.

/// The checksum of each byte.
#[expect(clippy::indexing_slicing, reason = "the compiler makes the table: a wrong index does not compile")]
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256_u32 {
        let mut sum = byte;
        let mut bit = 0;
        while bit < u8::BITS {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[byte as usize] = sum;
        byte += 1;
    }
    table
};

/// The checksum of these bytes.
pub fn crc32(bytes: &[u8]) -> u32 {
    let next = |sum: u32, byte: &u8| {
        let [low, ..] = sum.to_le_bytes();
        sum >> 8 ^ TABLE.get(usize::from(low ^ byte)).copied().unwrap_or_default()
    };
    !bytes.iter().fold(u32::MAX, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(&[0xff; 32]), 0xff6c_ab0b);
    }
}
