//! The kernel's command line.

/// The command line that the boot loader gave the kernel. A container sees that of its host. It stays as it
/// is until the next boot.
pub const PATH: &str = "/proc/cmdline";

/// Splits the kernel's command line at spaces that are not within double quotes, which are dropped.
pub fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_split_as_the_kernel_does() {
        assert_eq!(
            split("ro  root=\"LABEL=my disk\" console=ttyS0,115200\n"),
            ["ro", "root=LABEL=my disk", "console=ttyS0,115200"]
        );
        assert!(split(" \n").is_empty());
    }
}
