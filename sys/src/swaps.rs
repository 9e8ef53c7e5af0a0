//! The swap devices and files of the machine.

use std::path::PathBuf;

/// The kernel's list. Watched, it tells when that changes.
pub const PATH: &str = "/proc/swaps";

/// The disks and files; none where the kernel has no swap.
pub fn read() -> Vec<PathBuf> {
    parse(&std::fs::read_to_string(PATH).unwrap_or_default())
}

/// The first column after the heading; a space in it is written as `\040`.
fn parse(text: &str) -> Vec<PathBuf> {
    let names = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.map(|path| path.replace("\\040", " ").into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swaps_are_listed() {
        let heading = "Filename\t\t\tType\t\tSize\tUsed\tPriority\n";
        let text = format!("{heading}/dev/vda2 partition 1 0 -2\n/my\\040swap file 1 0 -3\n");
        assert_eq!(parse(&text), [PathBuf::from("/dev/vda2"), PathBuf::from("/my swap")]);
        assert!(parse("").is_empty() && parse(heading).is_empty());
    }
}
