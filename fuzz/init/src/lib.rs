//! The files of `init` that read what others wrote, as a library: `init` itself is a program, which has none.
#![allow(dead_code, reason = "what else is in these files is for init")]

#[path = "../../../init/src/exit_device.rs"]
pub mod exit_device;
#[path = "../../../init/src/kernel_words.rs"]
pub mod kernel_words;
#[path = "../../../init/src/options.rs"]
pub mod options;
#[path = "../../../init/src/task.rs"]
pub mod task;
