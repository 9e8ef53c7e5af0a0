//! Kelson's interfaces of the kernel, each in one place. Imports no other crate of Kelson.

pub mod capability;
pub mod clock;
pub mod command_line;
pub mod crc32;
pub mod descriptor;
pub mod device_program;
pub mod fnmatch;
pub mod icmpv6;
pub mod io_port;
pub mod ipc;
pub mod ipv4;
pub mod kernel_log;
mod lock;
mod mount_root;
pub mod mountinfo;
pub mod netlink;
pub mod ordered;
pub mod packet;
pub mod pidfd;
pub mod process;
pub mod random;
mod removed;
mod replace;
pub mod rights;
pub mod room;
pub mod seccomp;
mod spawn;
pub mod swaps;
pub mod terminal;
pub mod text;
pub mod units;
#[cfg(panic = "abort")]
mod unwinder;
pub mod user_namespace;
pub mod vsock;
pub mod watchdog;

pub use lock::lock;
pub use mount_root::is_mount_root;
pub use removed::removed;
pub use replace::replace;
pub use spawn::{boxed, spawn};
