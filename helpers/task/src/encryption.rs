//! Encrypted disks, by cryptsetup(8). No key is an argument of it: it reads keys from files and from its standard input.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kelson_devices::{identify, modules};
use kelson_spec::encryption::{LUKS, MAPPINGS};

use crate::blank::{BlankDisk, END};
use crate::failure::at;
use crate::mapping;
use crate::program::{self, Ended, STANDARD_INPUT};
use crate::recovery_key;

/// The exit status of cryptsetup where no key fits.
const WRONG_KEY: i32 = 2;
/// A new disk is encrypted with no shorter key, because it is not stretched: that protects keys that can be guessed, and would
/// take a GiB of memory at each boot.
const SHORTEST_KEY: u64 = 32;
const UNSTRETCHED: [&str; 4] = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
/// The drivers: of encrypted disks, and of the cipher that most of them have. A kernel may have them in itself, and an image
/// another way to load them.
const DRIVERS: [&str; 3] = ["dm_crypt", "crypto-xts", "crypto-aes"];

/// The TPM of the machine, for several programs at a time.
const TPM: &str = "/dev/tpmrm0";
/// Keys of a TPM are those of systemd, because cryptsetup has no way of its own. systemd itself does not run.
const OF_TPM: [&str; 3] = ["--token-only", "--token-type", "systemd-tpm2"];
const ENROLL: &str = "systemd-cryptenroll";

/// Opens the disk on a device with the key in a file.
///
/// # Errors
/// A sentence, when the disk stays closed.
pub fn open(name: &str, device: &Path, key_file: &Path) -> Result<String, String> {
    let program = cryptsetup()?;
    // The message of cryptsetup names no reason.
    File::open(key_file).map_err(|error| format!("its key: {}", at(key_file, error)))?;
    let ended = run_open(&program, name, device, &["--key-file".as_ref(), key_file.as_os_str()], None)?;
    opened(name, device, &ended, &format!("the key in {}", key_file.display()))
}

/// As [`open`], with the key that `key` gives.
///
/// # Errors
/// As [`open`].
pub fn unlock(name: &str, device: &Path, key: OwnedFd) -> Result<String, String> {
    let ended = run_open(&cryptsetup()?, name, device, &["--key-file", "-"], Some(&File::from(key)))?;
    opened(name, device, &ended, "this key")
}

/// As [`open`], with a key that the TPM of the machine has.
///
/// # Errors
/// As [`open`].
pub fn open_by_tpm(name: &str, device: &Path) -> Result<String, String> {
    let program = cryptsetup()?;
    if !Path::new(TPM).exists() {
        return Err(at(device, "its key: this machine has no TPM"));
    }
    let ended = run_open(&program, name, device, &OF_TPM, None)?;
    opened(name, device, &ended, "the TPM")
}

/// The keys of a new disk.
pub struct Keys<'a> {
    pub recovery_file: &'a Path,
    /// The registers by which the TPM gives its key, with a `+` between them.
    pub registers: Option<&'a str>,
    pub file: Option<&'a Path>,
}

/// Encrypts the disk that `source` names, if it is blank, and opens it.
///
/// The recovery key is on the disk of its file before anything is written, and opens the disk before the other keys do: so a
/// power cut never leaves an encrypted disk without it.
///
/// # Errors
/// A sentence.
pub fn encrypt(name: &str, source: &str, keys: &Keys) -> Result<String, String> {
    let program = cryptsetup()?;
    if let Some(file) = keys.file {
        let length = fs::metadata(file).map_err(|error| at(file, error))?.len();
        if length < SHORTEST_KEY {
            let text =
                format!("{length} bytes are too few for a key; write {SHORTEST_KEY} random bytes at least");
            return Err(at(file, text));
        }
    }
    if keys.registers.is_some() && !Path::new(TPM).exists() {
        return Err("this machine has no TPM".to_owned());
    }
    let blank = BlankDisk::claim(source)?;
    recovery_key::make(keys.recovery_file)?;
    let path = blank.path.clone();
    let disk = blank.release()?;
    make_keys(&program, &disk, keys).map_err(|why| at(&path, why))?;
    let said = match keys.file {
        Some(file) if keys.registers.is_none() => open(name, &path, file)?,
        _ => open_by_tpm(name, &path)?,
    };
    blank_ends(&Path::new(MAPPINGS).join(name))?;
    Ok(format!(
        "{} was blank, and is encrypted; {said}; `kelsonctl disk recovery {name}` shows its recovery key",
        path.display()
    ))
}

/// Encrypts a disk with all keys, the recovery key first.
fn make_keys(program: &Path, disk: &File, keys: &Keys) -> Result<(), String> {
    let run = |program: &Path, words: &[&OsStr]| {
        let ended = program::run(program, words, Some(disk))?;
        if ended.status.success() { Ok(()) } else { Err(failure(program, &ended)) }
    };
    let length = recovery_key::LENGTH.to_string();
    let recovery = keys.recovery_file.as_os_str();
    let common = ["--batch-mode", "--keyfile-size", &length, "--key-file"].map(AsRef::as_ref);
    let options = [&common[..], &[recovery], &UNSTRETCHED.map(AsRef::as_ref)].concat();
    let words = |action: &[&'static str]| -> Vec<&OsStr> {
        let action = action.iter().map(|word| OsStr::new(*word));
        action.chain(options.iter().copied()).chain([STANDARD_INPUT.as_ref()]).collect()
    };
    run(program, &words(&["luksFormat", "--type", "luks2"]))?;
    if let Some(file) = keys.file {
        run(program, &[&words(&["luksAddKey"])[..], &[file.as_os_str()]].concat())?;
    }
    if let Some(registers) = keys.registers {
        let enroll = program::find(ENROLL).ok_or_else(|| format!("the host has no {ENROLL}; install it"))?;
        let (unlock, registers) = (
            format!("--unlock-key-file={}", keys.recovery_file.display()),
            format!("--tpm2-pcrs={registers}"),
        );
        run(&enroll, &[&unlock, &registers, "--tpm2-device=auto", STANDARD_INPUT].map(AsRef::as_ref))?;
    }
    disk.sync_all().map_err(|error| error.to_string())?;
    match identify(disk) {
        Some(found) if found.fs_type == LUKS => Ok(()),
        _ => Err(format!("{} left no encrypted disk", program.display())),
    }
}

/// Makes the ends of a new disk zero, as those of a blank one are: so that it is known to be blank, and gets a file system.
fn blank_ends(device: &Path) -> Result<(), String> {
    let write = || {
        let mut disk = File::options().write(true).custom_flags(libc::O_EXCL).open(device)?;
        let size = disk.seek(SeekFrom::End(0))?;
        let zeros = vec![0; usize::try_from(END.min(size)).unwrap_or(0)];
        disk.write_all_at(&zeros, 0)?;
        disk.write_all_at(&zeros, size.saturating_sub(zeros.len() as u64))?;
        disk.sync_all()
    };
    write().map_err(|error: std::io::Error| at(device, error))
}

fn cryptsetup() -> Result<PathBuf, String> {
    program::find("cryptsetup").ok_or_else(|| "the host has no cryptsetup; install it".to_owned())
}

fn run_open(
    program: &Path,
    name: &str,
    device: &Path,
    key: &[impl AsRef<OsStr>],
    input: Option<&File>,
) -> Result<Ended, String> {
    // One that the kernel lacks is missed by cryptsetup, whose message says more.
    for driver in DRIVERS {
        let _ = modules::load(&[driver.to_owned()]);
    }
    let mut words: Vec<&OsStr> = ["open", "--type", "luks", "--batch-mode"].map(AsRef::as_ref).to_vec();
    words.extend(key.iter().map(AsRef::as_ref));
    words.extend([device.as_os_str(), name.as_ref()]);
    program::run(program, &words, input)
}

fn opened(name: &str, device: &Path, ended: &Ended, key: &str) -> Result<String, String> {
    match ended.status.code() {
        Some(0) => {
            mapping::announce(name);
            Ok(format!("{} is open as {MAPPINGS}/{name}", device.display()))
        }
        Some(WRONG_KEY) => Err(at(device, format!("{key} does not open it"))),
        _ => Err(at(device, format!("with {key}: {}", failure(&cryptsetup()?, ended)))),
    }
}

fn failure(program: &Path, ended: &Ended) -> String {
    format!("{}: {}: {}", program.display(), ended.status, ended.last_line())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Tries a key, without a device mapper.
    fn tried(disk: &Path, key: &Path) -> Ended {
        let words: [&OsStr; 5] = [
            "open".as_ref(),
            "--test-passphrase".as_ref(),
            "--key-file".as_ref(),
            key.as_os_str(),
            disk.as_os_str(),
        ];
        program::run(&cryptsetup().unwrap(), &words, None).unwrap()
    }

    #[test]
    fn a_new_disk_is_opened_by_both_keys_and_by_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let [disk, key, recovery, other] =
            ["disk", "key", "recovery", "other"].map(|name| folder.path().join(name));
        let file = File::options().read(true).write(true).create_new(true).open(&disk).unwrap();
        file.set_len(32 << 20).unwrap();
        fs::write(&key, [7; 64]).unwrap();
        fs::write(&other, [8; 64]).unwrap();
        recovery_key::make(&recovery).unwrap();
        let keys = Keys { recovery_file: &recovery, registers: None, file: Some(&key) };
        make_keys(&cryptsetup().unwrap(), &file, &keys).unwrap();
        assert_eq!(identify(&file).unwrap().fs_type, LUKS);
        for key in [&key, &recovery] {
            assert!(tried(&disk, key).status.success());
        }
        let ended = tried(&disk, &other);
        let error = opened("kelson-test", &disk, &ended, "this key").unwrap_err();
        assert_eq!(error, format!("{}: this key does not open it", disk.display()));
    }

    #[test]
    fn what_lacks_a_key_is_neither_opened_nor_encrypted() {
        let folder = tempfile::tempdir().unwrap();
        let (key, recovery) = (folder.path().join("key"), folder.path().join("recovery"));
        let error = open("data", Path::new("/dev/null"), &key).unwrap_err();
        assert_eq!(error, format!("its key: {}: No such file or directory (os error 2)", key.display()));
        let keys = Keys { recovery_file: &recovery, registers: None, file: Some(&key) };
        let encrypt = || encrypt("data", "/dev/null", &keys).unwrap_err();
        assert!(encrypt().contains("No such file"), "{}", encrypt());
        fs::write(&key, [7; 31]).unwrap();
        assert!(encrypt().ends_with("31 bytes are too few for a key; write 32 random bytes at least"));
        fs::write(&key, [7; 32]).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(encrypt(), "/dev/null: it is no disk");
        assert!(!recovery.exists(), "nothing is made for a disk that is not blank");
    }

    #[test]
    fn the_ends_of_a_new_disk_are_blank() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        for size in [3 << 20, 5000] {
            fs::write(&disk, vec![1; size]).unwrap();
            blank_ends(&disk).unwrap();
            let now = fs::read(&disk).unwrap();
            let end = size.min(1 << 20);
            assert!(now.len() == size && now[..end].iter().chain(&now[size - end..]).all(|byte| *byte == 0));
            assert!(size < 1 << 20 || now[end..size - end].iter().all(|byte| *byte == 1));
        }
    }
}
