//! One pipe of a run that is read.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;

use super::console::Console;
use super::flow::Rate;
use super::line::Source;
use super::outlet::Outlets;
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
    pub copied: bool,
    pub named: bool,
}

impl Stream {
    fn source(&self) -> (Source, Run) {
        (if self.stderr { Source::Stderr } else { Source::Stdout }, self.run)
    }

    pub fn read(
        &mut self,
        buffer: &mut [u8],
        store: &Store,
        (console, outlets): (&mut Console, &mut Outlets),
        rate: Option<&mut Rate>,
    ) -> Result<usize, Errno> {
        let read = nix::unistd::read(&self.pipe, buffer)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if self.console && rate.as_ref().is_none_or(|rate| !rate.is_exhausted()) {
            console.write(&self.service, &self.held, bytes);
        }
        if read > 0 {
            let (service, source) = (Arc::clone(&self.service), self.source());
            let Stream { copied, named, stderr, held, .. } = self;
            let mut outlet = copied.then(|| outlets.of(*stderr));
            store.feed(&service, source, held, bytes, rate, |text| {
                if let Some(outlet) = &mut outlet {
                    outlet.line(named.then_some(&*service), text);
                }
            });
            if let Some(outlet) = outlet {
                outlet.flush();
            }
        }
        Ok(read)
    }

    /// The last output of a process, also without a newline.
    pub fn finish(&mut self, store: &Store, outlets: &mut Outlets, rate: Option<&mut Rate>) {
        let text = std::mem::take(&mut self.held);
        if !text.is_empty() && store.feed_rest(&self.service, self.source(), &text, rate) && self.copied {
            let outlet = outlets.of(self.stderr);
            outlet.line(self.named.then_some(&*self.service), &text);
            outlet.flush();
        }
    }
}
