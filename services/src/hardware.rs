//! Learns from the kernel that the hardware has changed.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use kelson_sys::descriptor::Watched;
use kelson_sys::netlink;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockProtocol, recv};
use tokio::time::{Instant, sleep, timeout};

/// One device is several messages, and its files are in `/sys` a moment later.
const SETTLED: Duration = Duration::from_secs(2);
/// The shortest time between two answers: a device that comes and goes without end costs little.
const SELDOM: Duration = Duration::from_secs(10);

/// The messages of the kernel about devices (uevents). Without a socket there are none.
pub struct Hardware(Option<Watched<OwnedFd>>);

impl Hardware {
    pub fn follow() -> Hardware {
        let open = || Watched::reading(netlink::open(SockProtocol::NetlinkKObjectUEvent, netlink::UEVENTS)?);
        let opened = open().inspect_err(|error| {
            tracing::warn!(
                "changes of the hardware are noticed late: the kernel cannot be listened to: {error}"
            );
        });
        Hardware(opened.ok())
    }

    /// Waits until something has changed since the last call, at most this time. Cancelled by dropping.
    pub async fn changed(&mut self, longest: Duration) {
        let began = Instant::now();
        if timeout(longest, self.message()).await.is_err() {
            return;
        }
        sleep(SETTLED).await;
        sleep(SELDOM.saturating_sub(began.elapsed())).await;
        if let Some(socket) = &self.0 {
            drain(socket).await;
        }
    }

    /// Until there is one. Without a socket: for ever.
    async fn message(&mut self) {
        if let Some(socket) = &self.0 {
            let Err(error) = socket.readable().await else { return };
            tracing::warn!("changes of the hardware are noticed late: {error}");
            self.0 = None;
        }
        std::future::pending::<()>().await;
    }
}

/// Takes all that has come. The content does not matter, nor that some was lost.
async fn drain(socket: &Watched<OwnedFd>) {
    loop {
        let Ok(mut ready) = socket.readable().await else { return };
        match recv(socket.get_ref().as_raw_fd(), &mut [0], MsgFlags::empty()) {
            Ok(_) | Err(Errno::EINTR | Errno::ENOBUFS) => {}
            Err(_) => return ready.clear_ready(),
        }
        // A flood must not keep the rest of the host waiting.
        tokio::task::consume_budget().await;
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{NetlinkAddr, getsockname, sendto};

    use super::*;

    const LONGEST: Duration = Duration::from_secs(300);

    /// A message as the kernel would send it.
    fn announce(hardware: &Hardware) {
        let socket = hardware.0.as_ref().unwrap().get_ref().as_raw_fd();
        let address: NetlinkAddr = getsockname(socket).unwrap();
        let program = netlink::open(SockProtocol::NetlinkKObjectUEvent, 0).unwrap();
        let to = NetlinkAddr::new(address.pid(), 0);
        sendto(program.as_raw_fd(), b"change@/devices/a\0", &to, MsgFlags::empty()).unwrap();
    }

    async fn wait(hardware: &mut Hardware) -> Duration {
        let began = Instant::now();
        hardware.changed(LONGEST).await;
        began.elapsed()
    }

    #[tokio::test]
    async fn many_messages_are_one_change() {
        let mut hardware = Hardware::follow();
        for _ in 0..100 {
            announce(&hardware);
        }
        // Before the time stands still, which would otherwise run ahead of the kernel.
        drop(hardware.0.as_ref().unwrap().readable().await.unwrap());
        tokio::time::pause();
        let took = wait(&mut hardware).await;
        assert!(took >= SELDOM && took < LONGEST, "{took:?}");
        let took = wait(&mut hardware).await;
        assert!(took >= LONGEST, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_socket_the_time_is_over() {
        assert_eq!(wait(&mut Hardware(None)).await, LONGEST);
    }
}
