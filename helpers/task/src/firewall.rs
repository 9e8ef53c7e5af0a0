//! The rules of the firewall, by the program for them.

use std::path::Path;

use kelson_devices::modules;

use crate::program;

/// No module is loaded without it where the kernel finds no modprobe.
const MODULE: &str = "nf_tables";

/// Has nft load the rules of this file, all of them or none.
pub fn load(file: &Path) -> Result<String, String> {
    let program = program::find("nft")
        .ok_or_else(|| format!("{} is not loaded: there is no nft; install nftables", file.display()))?;
    // A kernel that has it built in, or loads it by itself, needs nothing of this.
    let _ = modules::load(&[MODULE.to_owned()]);
    let ended = program::run(&program, &["-f".as_ref(), file.as_os_str()], None)?;
    if ended.status.success() {
        return Ok(file.display().to_string());
    }
    Err(format!("no rule of {} is in force: {}: {}", file.display(), ended.status, ended.first_line()))
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
