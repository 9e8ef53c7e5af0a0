//! One pipe of a run that is read.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;

use super::console::Console;
use super::flow::Rate;
use super::line::Source;
use super::run::Run;
use super::store::Store;

pub struct Stream {
    pub pipe: OwnedFd,
    pub service: Arc<str>,
    pub run: Run,
    /// The beginning of a line whose end has not come.
    pub held: Vec<u8>,
    pub stderr: bool,
    pub console: bool,
}

impl Stream {
    fn source(&self) -> (Source, Run) {
        (if self.stderr { Source::Stderr } else { Source::Stdout }, self.run)
    }

    pub fn read(
        &mut self,
        buffer: &mut [u8],
        store: &Store,
        console: &mut Console,
        rate: Option<&mut Rate>,
    ) -> Result<usize, Errno> {
        let read = nix::unistd::read(&self.pipe, buffer)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if self.console && rate.as_ref().is_none_or(|rate| !rate.is_exhausted()) {
            console.write(&self.service, &self.held, bytes);
        }
        if read > 0 {
            store.feed(&self.service, self.source(), &mut self.held, bytes, rate);
        }
        Ok(read)
    }

    /// The last output of a process, also without a newline.
    pub fn finish(&mut self, store: &Store, rate: Option<&mut Rate>) {
        store.feed_rest(&self.service, self.source(), &mut self.held, rate);
    }
}
