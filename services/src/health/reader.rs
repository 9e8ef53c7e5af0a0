//! Listens to what a check says, with bounded memory and a bounded share of PID 1's time.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use kelson_sys::descriptor::Watched;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::io::Interest;

use super::output::Tail;

/// After this many bytes a check that writes without end is made to wait: its pipe fills, not PID 1's time.
const BURST: usize = 65_536;
const PAUSE: Duration = Duration::from_millis(10);
const BUFFER: usize = 2048;

/// Both outputs of a command, and the end of their text.
pub struct Reader {
    streams: [Option<Watched<OwnedFd>>; 2],
    tail: Tail,
    /// Read since the last pause.
    burst: usize,
}

impl Reader {
    /// # Errors
    /// When the descriptors cannot be watched.
    pub fn new(output: OwnedFd, errors: Option<OwnedFd>) -> io::Result<Reader> {
        let errors = errors.map(watched).transpose()?;
        Ok(Reader { streams: [Some(watched(output)?), errors], tail: Tail::default(), burst: 0 })
    }

    /// Reads until it is dropped; loses nothing then.
    pub async fn listen(&mut self) -> Infallible {
        loop {
            if self.burst >= BURST {
                tokio::time::sleep(PAUSE).await;
                self.burst = 0;
            }
            let (mut said, mut complained) = ([0_u8; BUFFER], [0_u8; BUFFER]);
            let [output, errors] = &mut self.streams;
            let heard = tokio::select! {
                count = read(output, &mut said) => said.get(..count),
                count = read(errors, &mut complained) => complained.get(..count),
            };
            let heard = heard.unwrap_or_default();
            self.burst = self.burst.saturating_add(heard.len());
            self.tail.push(heard);
        }
    }

    /// The last of it, with what is there already. A process that still holds the other end is not waited for.
    pub fn finish(mut self) -> String {
        let mut buffer = [0_u8; BUFFER];
        for stream in self.streams.iter().flatten() {
            let mut left = BURST;
            while left > 0 {
                match nix::unistd::read(stream.get_ref(), &mut buffer) {
                    Ok(count) if count > 0 => {
                        self.tail.push(buffer.get(..count).unwrap_or_default());
                        left = left.saturating_sub(count);
                    }
                    Err(nix::errno::Errno::EINTR) => {}
                    _ => break,
                }
            }
        }
        self.tail.text()
    }
}

fn watched(descriptor: OwnedFd) -> io::Result<Watched<OwnedFd>> {
    fcntl(&descriptor, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Watched::reading(descriptor)
}

/// One read; 0 where the stream has ended, and never anything again after that.
async fn read(stream: &mut Option<Watched<OwnedFd>>, buffer: &mut [u8]) -> usize {
    let Some(watched) = stream else { return std::future::pending().await };
    let result = watched
        .async_io(Interest::READABLE, |descriptor| {
            nix::unistd::read(descriptor, buffer).map_err(io::Error::from)
        })
        .await;
    match result {
        Ok(count) if count > 0 => count,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
        _ => {
            *stream = None;
            0
        }
    }
}
