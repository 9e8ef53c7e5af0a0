//! The files of `init` that read what others wrote, as a library: `init` itself is a program, which has none.
#![allow(dead_code, reason = "what else is in these files is for init")]

#[path = "../../../init/src/kernel_words.rs"]
pub mod kernel_words;
#[path = "../../../init/src/modules.rs"]
pub mod modules;
#[path = "../../../init/src/mount_options.rs"]
pub mod mount_options;
#[path = "../../../init/src/options.rs"]
pub mod options;
#[path = "../../../init/src/superblock.rs"]
pub mod superblock;
pub mod task;
