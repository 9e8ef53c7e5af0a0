//! Carries the kernel's randomness from one run to the next.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::errno::Errno;

use crate::failure::at;

/// As much as the kernel's generator holds.
const LENGTH: usize = 512;
const URANDOM: &str = "/dev/urandom";
/// `_IOW('R', 0x03, int[2])` and `_IO('R', 0x07)` of linux/random.h.
const RNDADDENTROPY: libc::c_ulong = nix::request_code_write!(b'R', 0x03, 8);
const RNDRESEEDCRNG: libc::c_ulong = nix::request_code_none!(b'R', 0x07);

/// Stirs the seed in without crediting it: it may have been copied with the disk. A new one is saved at once, so
/// that no seed is ever used twice, also after a power cut.
pub fn load(path: &Path) -> Result<String, String> {
    let seed = read(path)?;
    let urandom = Path::new(URANDOM);
    std::fs::OpenOptions::new()
        .write(true)
        .open(urandom)
        .and_then(|mut file| file.write_all(&seed))
        .map_err(|error| at(urandom, error))?;
    let found = if seed.is_empty() { "there was no seed" } else { "stirred in" };
    match write(path, &seed) {
        Ok(()) => Ok(found.to_owned()),
        Err(text) => Err(format!("{found}, but no new one could be saved: {text}")),
    }
}

/// `struct rand_pool_info` of linux/random.h.
#[repr(C)]
struct PoolInfo {
    /// In bits.
    credit: libc::c_int,
    /// Of `bytes`, how many count.
    length: libc::c_int,
    bytes: [u8; LENGTH],
}

/// Credits the bytes of `source`, [`LENGTH`] at most, and has the kernel's generator draw from its pool at once. A write to
/// the device alone reaches only the pool, from which the generator draws again at most a minute later.
pub fn reseed(source: OwnedFd) -> Result<String, String> {
    let urandom = Path::new(URANDOM);
    let mut entropy = Vec::new();
    let taken = File::from(source).take(LENGTH as u64).read_to_end(&mut entropy);
    taken.map_err(|error| format!("the new entropy: {error}"))?;
    let device = std::fs::OpenOptions::new().write(true).open(urandom).map_err(|error| at(urandom, error))?;
    let length = libc::c_int::try_from(entropy.len()).unwrap_or(0);
    let mut info = PoolInfo { credit: length.saturating_mul(8), length, bytes: [0; LENGTH] };
    info.bytes.iter_mut().zip(&entropy).for_each(|(to, from)| *to = *from);
    // SAFETY: the kernel reads the two numbers and `length` bytes after them, all of which `info` holds.
    let added = unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &raw const info) };
    Errno::result(added).map_err(|errno| at(urandom, format_args!("RNDADDENTROPY: {}", errno.desc())))?;
    // SAFETY: this request has no argument.
    let drawn = unsafe { libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG) };
    Errno::result(drawn).map_err(|errno| at(urandom, format_args!("RNDRESEEDCRNG: {}", errno.desc())))?;
    Ok(format!("{} bytes credited", entropy.len()))
}

/// The seed on the disk; nothing where there is none.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut seed = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(LENGTH as u64).read_to_end(&mut seed).map_err(|error| at(path, error))?,
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return Err(at(path, error)),
    };
    Ok(seed)
}

/// The old seed and fresh bytes of the kernel, hashed together: what either holds is in each part of the new one, so a
/// kernel that has gathered nothing yet does not make the seed worse than it was.
fn next(old: &[u8], fresh: &[u8]) -> Vec<u8> {
    let block = |number: u8| {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA512);
        let length = (old.len() as u64).to_le_bytes();
        [b"kelson random seed".as_slice(), &[number], &length, old, fresh]
            .into_iter()
            .for_each(|part| hash.update(part));
        hash.finish()
    };
    let blocks = (0..=u8::MAX).map(block).flat_map(|digest| digest.as_ref().to_vec());
    blocks.take(LENGTH).collect()
}

/// Random bytes as good as the kernel has them now. Early in a boot `/dev/urandom` would make a reader wait for seconds
/// until it has gathered some; what is saved here is mixed with later seeds and never credited.
fn fill_at_once(bytes: &mut [u8]) -> std::io::Result<()> {
    // SAFETY: the buffer is ours and has the given length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_INSECURE) };
    if usize::try_from(got).is_ok_and(|got| got == bytes.len()) {
        return Ok(());
    }
    // Kernels before 5.6 do not know the flag.
    File::open(URANDOM)?.read_exact(bytes)
}

/// Saves a new one for the next boot.
pub fn save(path: &Path) -> Result<String, String> {
    // One that cannot be read is replaced all the same.
    write(path, &read(path).unwrap_or_default()).map(|()| String::new())
}

fn write(path: &Path, old: &[u8]) -> Result<(), String> {
    let mut fresh = [0; LENGTH];
    fill_at_once(&mut fresh).map_err(|error| at(Path::new("getrandom"), error))?;
    let seed = next(old, &fresh);
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(|error| at(folder, error))?;
    let new = path.with_extension("new");
    kelson_sys::replace(path, &new, 0o600, &seed).map_err(|error| at(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_new_after_each_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib/random-seed");
        assert_eq!(load(&path).unwrap(), "there was no seed");
        let first = std::fs::read(&path).unwrap();
        assert_eq!(first.len(), LENGTH);
        assert_eq!(load(&path).unwrap(), "stirred in");
        assert_ne!(std::fs::read(&path).unwrap(), first);
    }

    #[test]
    fn the_kernel_takes_new_entropy() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        File::from(writer).write_all(&[7; 40]).unwrap();
        assert_eq!(reseed(reader).unwrap(), "40 bytes credited");
    }

    #[test]
    fn a_new_seed_holds_what_the_old_one_and_the_kernel_gave() {
        let (old, fresh) = ([1; LENGTH], [2; LENGTH]);
        let seed = next(&old, &fresh);
        assert_eq!(seed.len(), LENGTH);
        assert_eq!(next(&old, &fresh), seed);
        for other in [next(&[], &fresh), next(&old, &[3; LENGTH]), next(&fresh, &old)] {
            let same = seed.iter().zip(&other).filter(|(one, other)| one == other).count();
            assert!(same < 32, "{same} bytes are the same");
        }
        let blocks: std::collections::HashSet<&[u8]> = seed.chunks(64).collect();
        assert_eq!(blocks.len(), LENGTH / 64);
    }
}
