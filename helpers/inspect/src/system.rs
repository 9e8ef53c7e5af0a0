//! Where proc and sys are, and the small things that all readers of them need.

use std::fs;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_sys::ordered;
use kelson_sys::process;
use prost_types::Duration as Lasting;

/// The longest file that is read whole, in bytes: `/proc/net/tcp` of many connections.
const MOST: u64 = 16 << 20;

/// The places that are read.
#[derive(Debug, Clone)]
pub struct System {
    pub proc: PathBuf,
    pub sys: PathBuf,
    /// The kernel's unit of a processor's time, in a second.
    pub ticks: u64,
    /// In bytes.
    pub page: u64,
    /// What the hypervisor says of itself; `None`: the processor says that there is none.
    pub hypervisor: Option<[u8; 12]>,
    /// Where clouds answer their machines.
    pub metadata: SocketAddr,
}

impl System {
    /// Those of this machine.
    pub fn real() -> System {
        let metadata = SocketAddr::from(([169, 254, 169, 254], 80));
        System { hypervisor: hypervisor(), metadata, ..System::below(Path::new("/")) }
    }

    /// `proc` and `sys` in this folder, of a machine without a hypervisor and a cloud.
    pub fn below(root: &Path) -> System {
        // SAFETY: questions for numbers.
        let ask = |name| u64::try_from(unsafe { libc::sysconf(name) }).unwrap_or(0);
        System {
            proc: root.join("proc"),
            sys: root.join("sys"),
            ticks: ask(libc::_SC_CLK_TCK).max(1),
            page: ask(libc::_SC_PAGESIZE).max(1),
            hypervisor: None,
            metadata: SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }

    /// A time in the kernel's unit.
    pub fn ticks(&self, ticks: u64) -> Duration {
        let whole = ticks.checked_div(self.ticks).unwrap_or(0);
        let rest = ticks.checked_rem(self.ticks).unwrap_or(0);
        let nanos = u128::from(rest).saturating_mul(1_000_000_000).checked_div(u128::from(self.ticks));
        Duration::new(whole, nanos.and_then(|nanos| u32::try_from(nanos).ok()).unwrap_or(0))
    }

    /// A file of proc.
    ///
    /// # Errors
    /// As the system says.
    pub fn proc(&self, name: &str) -> io::Result<String> {
        whole(&self.proc.join(name))
    }
}

/// The signature of the hypervisor: 12 bytes of leaf 0x4000_0000, if bit 31 of ECX of leaf 1 says that there is one.
#[cfg(target_arch = "x86_64")]
fn hypervisor() -> Option<[u8; 12]> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let mut signature = [0; 12];
    for (part, register) in signature.chunks_exact_mut(4).zip([leaf.ebx, leaf.ecx, leaf.edx]) {
        part.copy_from_slice(&register.to_le_bytes());
    }
    Some(signature)
}

/// Other processors have no such instruction.
#[cfg(not(target_arch = "x86_64"))]
fn hypervisor() -> Option<[u8; 12]> {
    None
}

/// A text of the kernel: strange bytes become marks.
///
/// # Errors
/// As the system says.
pub fn whole(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

/// # Errors
/// As the system says.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file of one line; empty: it is not there.
pub fn line(path: &Path) -> String {
    whole(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// A file of one number.
pub fn number(path: &Path) -> Option<u64> {
    line(path).parse().ok()
}

pub fn lasting(duration: Duration) -> Lasting {
    duration.try_into().unwrap_or(Lasting { seconds: i64::MAX, nanos: 0 })
}

/// The numbers that are the names of folders in proc, in order.
pub fn pids(proc: &Path) -> io::Result<Vec<i32>> {
    let mut pids: Vec<i32> = process::numbers(proc)?;
    ordered::sort(&mut pids);
    Ok(pids)
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// A machine of files that a test writes.
    pub struct Played {
        folder: tempfile::TempDir,
        pub system: System,
    }

    impl Played {
        pub fn new(files: &[(&str, &str)]) -> Played {
            let folder = tempfile::tempdir().unwrap();
            let system = System { ticks: 100, page: 4096, ..System::below(folder.path()) };
            let played = Played { folder, system };
            for (name, text) in files {
                played.write(name, text.as_bytes());
            }
            played
        }

        pub fn write(&self, name: &str, bytes: &[u8]) {
            let path = self.folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }

        pub fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_times() {
        let system = testing::Played::new(&[]).system;
        assert_eq!(system.ticks(1234), Duration::from_millis(12_340));
        assert!(lasting(system.ticks(u64::MAX)).seconds > 0);
        assert!(System::real().ticks >= 1);
    }
}
