//! Follows the hostname.

use std::ffi::OsStr;
use std::fs::File;
use std::time::Duration;

use kelson_sys::descriptor::Watched;
use tokio::io::Interest;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::on_demand::publish;

/// The kernel reports a change of this file as urgent data.
const FILE: &str = "/proc/sys/kernel/hostname";

/// How often it is asked where that file is missing.
const ASK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn follow(set: watch::Sender<Option<bool>>) {
    let file = File::open(FILE).and_then(|file| Watched::new(file, Interest::PRIORITY));
    if let Err(error) = &file {
        tracing::warn!("the hostname is asked every second, since {FILE} cannot be followed: {error}");
    }
    loop {
        publish(&set, Some(nix::unistd::gethostname().is_ok_and(|name| tells_hosts_apart(&name))));
        match &file {
            Ok(file) => {
                if file.changed().await.is_err() {
                    return;
                }
            }
            Err(_) => sleep(ASK_EVERY).await,
        }
    }
}

fn tells_hosts_apart(name: &OsStr) -> bool {
    !["", "(none)", "localhost"].iter().any(|empty| name == *empty)
}
