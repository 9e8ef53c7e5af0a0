//! `kexec` of the machine file.

use std::path::PathBuf;

use super::mapping::{Mapping, keys};
use super::values::{path, text};
use kelson_spec::machine::KexecSpec;

/// The kernel that a reboot without the firmware executes.
pub fn kexec() -> Mapping<KexecSpec> {
    let initial = || KexecSpec { kernel: PathBuf::new(), initramfs: None, command_line: None };
    keys! {
        Mapping::new("kexec", initial);
        needed "kernel" kernel = path(), "kernel: PATH", "the image of the kernel, such as `/boot/vmlinuz`";
        means "initramfs" initramfs = path().optional(), "none", "the initramfs of this kernel";
        means "commandLine" command_line = text().optional(), "that of the running kernel",
            "the command line of this kernel";
    }
    .strict()
}
