//! Follows the hostname.

use std::ffi::OsStr;

use tokio::sync::watch;

use crate::kernel_file;

const FILE: &str = "/proc/sys/kernel/hostname";

pub(super) async fn follow(set: watch::Sender<Option<bool>>) {
    let read = || Some(nix::unistd::gethostname().is_ok_and(|name| tells_hosts_apart(&name)));
    kernel_file::follow(FILE, "the hostname is asked", &set, read).await;
}

fn tells_hosts_apart(name: &OsStr) -> bool {
    !["", "(none)", "localhost"].iter().any(|empty| name == *empty)
}
