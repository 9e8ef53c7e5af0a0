//! The rules of the firewall, by the program for them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use kelson_devices::modules;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::program::{self, STANDARD_INPUT};

/// No module is loaded without it where the kernel finds no modprobe.
const MODULE: &str = "nf_tables";

/// Has nft load the rules of this file, all of them or none.
pub fn load(file: &Path) -> Result<String, String> {
    let nft = find()
        .ok_or_else(|| format!("{} is not loaded: there is no nft; install nftables", file.display()))?;
    match run(&nft, &["-f".as_ref(), file.as_os_str()], None)? {
        Ok(()) => Ok(file.display().to_string()),
        Err(why) => Err(format!("no rule of {} is in force: {why}", file.display())),
    }
}

/// The program; `None`: the host has none.
pub fn find() -> Option<PathBuf> {
    program::find("nft")
}

/// Has nft take in this text, all of it or nothing; why it refuses it.
pub fn take_in(nft: &Path, rules: &str) -> Result<Result<(), String>, String> {
    let text = in_memory(rules).map_err(|error| format!("memory for rules: {error}"))?;
    run(nft, &["-f", STANDARD_INPUT], Some(&text))
}

fn in_memory(text: &str) -> io::Result<File> {
    let mut memory = File::from(memfd_create(c"rules", MFdFlags::MFD_CLOEXEC)?);
    memory.write_all(text.as_bytes())?;
    memory.rewind()?;
    Ok(memory)
}

/// Runs nft; the inner error is what it says.
fn run(
    nft: &Path,
    arguments: &[impl AsRef<OsStr>],
    input: Option<&File>,
) -> Result<Result<(), String>, String> {
    // A kernel that has it built in, or loads it by itself, needs nothing of this.
    let _ = modules::load(&[MODULE.to_owned()]);
    let ended = program::run(nft, arguments, input)?;
    let refused = || format!("{}: {}", ended.status, ended.first_line());
    Ok(if ended.status.success() { Ok(()) } else { Err(refused()) })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn rules_are_loaded_whole_or_not_at_all() {
        let done = std::thread::spawn(|| {
            // SAFETY: it changes this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "run it as root");
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("rules");
            let chain = "table inet filter {\n chain input {\n type filter hook input priority 0; policy drop;\n }\n}\n";
            std::fs::write(&file, format!("{chain}table ip x {{\n dance\n}}\n")).unwrap();
            let list = || {
                let output =
                    Command::new("nft").args(["list", "ruleset"]).output().expect("nft is installed");
                String::from_utf8(output.stdout).unwrap()
            };
            let error = load(&file).unwrap_err();
            assert!(
                error.contains("no rule of ") && error.contains(":7:2-6: Error: syntax error"),
                "{error}"
            );
            assert_eq!(list(), "");
            std::fs::write(&file, chain).unwrap();
            assert_eq!(load(&file), Ok(file.display().to_string()));
            assert!(list().contains("policy drop"));
            assert!(load(&folder.path().join("none")).is_err());
        });
        done.join().unwrap();
    }
}
