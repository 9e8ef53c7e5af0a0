//! Sockets of services: `kelson-task` makes them and sends them here, and removes their files.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use kelson_helper::task::SocketRequest;
use kelson_helper::{CONTROL, Launcher};
use kelson_runner::RunnerError;
use kelson_spec::service::SocketSpec;
use kelson_sys::rights;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::provided_runner::ask;
use super::secrets::CALL;
use crate::task::{self, Request};

/// Has `kelson-task` make descriptors, which it sends over [`CONTROL`] before its answer: this many.
pub(super) async fn ask_for(
    tasks: &Arc<dyn Launcher>,
    request: &Request,
    count: usize,
    what: &str,
) -> Result<Vec<OwnedFd>, RunnerError> {
    let cannot = |errno: Errno| RunnerError::new(format!("cannot get its {what}: {}", errno.desc()));
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).map_err(cannot)?;
    let done = task::run_with(&**tasks, request, vec![(CONTROL, theirs)], CALL).await;
    done.map_err(|error| RunnerError::new(error.to_string()))?;
    let next = |_| {
        let sent = rights::receive(ours.as_fd(), &mut [0; 1]).map_err(cannot)?.descriptors.pop();
        sent.ok_or_else(|| cannot(Errno::ENODATA))
    };
    (0..count).map(next).collect()
}

/// Makes sockets, in this order.
pub(super) async fn make(
    tasks: Arc<dyn Launcher>,
    sockets: Vec<SocketSpec>,
) -> Result<Vec<OwnedFd>, RunnerError> {
    if sockets.is_empty() {
        return Ok(Vec::new());
    }
    let count = sockets.len();
    ask_for(&tasks, &SocketRequest::Make { sockets }.whole(), count, "sockets").await
}

/// Removes the files of those that have one.
pub(super) async fn remove(
    tasks: Arc<dyn Launcher>,
    mut sockets: Vec<SocketSpec>,
) -> Result<(), RunnerError> {
    sockets.retain(|socket| socket.path().is_some());
    if sockets.is_empty() {
        return Ok(());
    }
    ask(&tasks, SocketRequest::Remove { sockets }.whole()).await
}
