//! Random numbers of the kernel.

/// A number that nobody guesses. It never waits: `None` as long as the kernel has gathered no randomness.
pub fn number() -> Option<u64> {
    let mut bytes = [0_u8; 8];
    // SAFETY: the buffer has the length that is passed.
    let read = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    (usize::try_from(read) == Ok(bytes.len())).then(|| u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_differ() {
        assert!(super::number().is_some());
        assert_ne!(super::number(), super::number());
    }
}
