//! How a run says that it is ready: sd_notify, a newline on a descriptor, or not at all.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use kelson_sys::descriptor::Watched;
use nix::fcntl::OFlag;
use tokio::time::Instant;

use super::notify::{Message, NotifySocket};
use crate::state_store::KeptDescriptor;

/// How many messages a second are read from one service; a flood waits in its socket, not in PID 1's time.
const MESSAGES_A_SECOND: u32 = 200;
/// The kernel closes what a dying process had open before it reports its death: the death is to be reported then.
const DEATH_FOLLOWS: Duration = Duration::from_millis(100);

/// The source of the notify messages of a run.
pub enum NotifySource {
    Silent,
    Notify {
        socket: NotifySocket,
        window: Instant,
        count: u32,
    },
    Descriptor(Watched<KeptDescriptor>),
    /// The descriptor was closed; reported at this time, unless the process turns out to have ended.
    Closed(Instant),
}

/// A received message.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    Messages(Vec<Message>),
    /// A newline on the readiness descriptor.
    Newline,
    /// The readiness descriptor was closed without a newline.
    Closed,
}

impl NotifySource {
    pub fn notify(socket: NotifySocket) -> NotifySource {
        NotifySource::Notify { socket, window: Instant::now(), count: 0 }
    }

    /// # Errors
    /// When the descriptor cannot be watched.
    pub fn descriptor(read_end: KeptDescriptor) -> io::Result<NotifySource> {
        Ok(NotifySource::Descriptor(Watched::reading(read_end)?))
    }

    /// The next message. Once it is written down, messages are to be [taken](NotifySource::take), and a descriptor
    /// that has reported is to be closed. Cancelled by dropping; loses nothing then.
    pub async fn next(&mut self) -> Received {
        match self {
            NotifySource::Silent => std::future::pending().await,
            NotifySource::Notify { socket, window, count } => {
                if *count >= MESSAGES_A_SECOND {
                    let pause = Duration::from_secs(1).saturating_sub(window.elapsed());
                    tokio::time::sleep(pause).await;
                }
                if window.elapsed() >= Duration::from_secs(1) {
                    *window = Instant::now();
                    *count = 0;
                }
                match socket.next().await {
                    Ok(messages) => {
                        let more = u32::try_from(messages.len()).unwrap_or(u32::MAX).max(1);
                        *count = count.saturating_add(more);
                        Received::Messages(messages)
                    }
                    Err(error) => {
                        tracing::error!("{}: {error}", socket.address());
                        std::future::pending().await
                    }
                }
            }
            NotifySource::Descriptor(descriptor) => {
                loop {
                    let Ok(mut ready) = descriptor.readable().await else { break };
                    match ready.try_io(|descriptor| read(descriptor.get_ref())) {
                        Ok(Ok(Some(Received::Closed)) | Err(_)) => break,
                        Ok(Ok(Some(received))) => return received,
                        Ok(Ok(None)) | Err(_) => {}
                    }
                }
                let now = Instant::now();
                let until = now.checked_add(DEATH_FOLLOWS).unwrap_or(now);
                *self = NotifySource::Closed(until);
                tokio::time::sleep_until(until).await;
                Received::Closed
            }
            NotifySource::Closed(until) => {
                tokio::time::sleep_until(*until).await;
                Received::Closed
            }
        }
    }

    /// The last message is written down.
    pub fn take(&self) {
        if let NotifySource::Notify { socket, .. } = self {
            socket.take();
        }
    }

    /// The messages that are there already, sent before the process ended.
    pub fn next_now(&mut self) -> Option<Received> {
        match self {
            NotifySource::Silent | NotifySource::Closed(_) => None,
            NotifySource::Notify { socket, .. } => socket.next_now().map(Received::Messages),
            NotifySource::Descriptor(descriptor) => read(descriptor.get_ref()).ok().flatten(),
        }
    }
}

/// `None`: bytes without a newline, go on. A newline stays there: an incarnation of PID 1 that crashes before it has
/// written down what it means leaves it to the next one.
fn read(descriptor: &KeptDescriptor) -> io::Result<Option<Received>> {
    let mut buffer = [0_u8; 64];
    let (copy, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    // SAFETY: two open pipes and numbers.
    let count = unsafe {
        libc::tee(descriptor.as_raw_fd(), writer.as_raw_fd(), buffer.len(), libc::SPLICE_F_NONBLOCK)
    };
    match usize::try_from(count) {
        Err(_) => return Err(io::Error::last_os_error()),
        Ok(0) => return Ok(Some(Received::Closed)),
        Ok(_) => {}
    }
    let count = nix::unistd::read(copy, &mut buffer)?;
    let seen = buffer.get_mut(..count).unwrap_or_default();
    if seen.contains(&b'\n') {
        return Ok(Some(Received::Newline));
    }
    nix::unistd::read(descriptor, seen)?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_store::Descriptor;
    use std::io::Write as _;
    use std::os::fd::OwnedFd;

    fn pipe() -> (OwnedFd, std::fs::File) {
        use std::os::fd::FromRawFd as _;
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors, which are ours afterwards.
        unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK), 0);
            (OwnedFd::from_raw_fd(ends[0]), std::fs::File::from_raw_fd(ends[1]))
        }
    }

    #[tokio::test]
    async fn only_a_newline_counts() {
        let (read_end, mut write_end) = pipe();
        let mut notify_source =
            NotifySource::descriptor(KeptDescriptor::new(read_end, None, || Descriptor::Api)).unwrap();
        write_end.write_all(b"nearly").unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), notify_source.next()).await.is_err());
        write_end.write_all(b" ready\n").unwrap();
        assert_eq!(notify_source.next().await, Received::Newline);
        drop(write_end);
        assert_eq!(notify_source.next().await, Received::Newline, "it stays until the descriptor is closed");
        let (read_end, write_end) = pipe();
        let mut notify_source =
            NotifySource::descriptor(KeptDescriptor::new(read_end, None, || Descriptor::Api)).unwrap();
        drop(write_end);
        assert_eq!(notify_source.next().await, Received::Closed);
    }
}
