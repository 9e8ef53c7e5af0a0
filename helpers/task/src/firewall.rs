//! The rules of the firewall, by the program for them.

use std::path::Path;
use std::process::Command;

use kelson_devices::modules;

use crate::failure::at;

const PROGRAMS: [&str; 3] = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"];
/// No module is loaded without it where the kernel finds no modprobe.
const MODULE: &str = "nf_tables";

/// Has nft load the rules of this file, all of them or none.
pub fn load(file: &Path) -> Result<String, String> {
    let program = PROGRAMS.into_iter().map(Path::new).find(|program| program.exists());
    let program = program
        .ok_or_else(|| format!("{} is not loaded: there is no nft; install nftables", file.display()))?;
    // A kernel that has it built in, or loads it by itself, needs nothing of this.
    let _ = modules::load(&[MODULE.to_owned()]);
    let output = Command::new(program).arg("-f").arg(file).output().map_err(|error| at(program, error))?;
    if output.status.success() {
        return Ok(file.display().to_string());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or_default().trim();
    Err(format!("no rule of {} is in force: {}: {said}", file.display(), output.status))
}

#[cfg(test)]
mod tests {
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
