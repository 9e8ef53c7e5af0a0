//! `read`: a file of the host, byte for byte; on a terminal, what could steer it is shown instead of sent.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::ReadFileRequest;

use super::ls::absolute;
use crate::call::{Call, Run};
use crate::failure::{Failure, within};
use crate::output::{escape_bytes, print, print_bytes};

/// The next bytes come in this time, or never.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A line that is longer is shown piece by piece.
const LONGEST: usize = 1 << 16;

/// Print a file of the host
///
/// On a terminal control characters are escaped. Otherwise all bytes are written
/// as they are, also with -o.
///
/// Examples:
///   kelsonctl read /etc/kelson/machine.yaml
///   kelsonctl read /proc/meminfo
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The file, from / on
    #[arg(value_name = "PATH", value_parser = absolute)]
    path: String,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        file(call, &call.client()?, self.path).await
    }
}

/// Prints this file of the host.
///
/// # Errors
/// The host cannot read it, or the output cannot be written.
pub async fn file(call: &Call, client: &Client, path: String) -> Result<(), Failure> {
    let request = ReadFileRequest { path };
    let opened = async { Ok(client.inspect().read_file(request).await?.into_inner()) };
    let mut stream = within(TIMEOUT, opened).await?;
    let mut lines = Lines::default();
    let broken = loop {
        match within(TIMEOUT, async { Ok(stream.message().await?) }).await {
            Ok(Some(next)) if call.terminal.is_terminal => print(&lines.take(&next.data))?,
            Ok(Some(next)) => print_bytes(&next.data)?,
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        }
    };
    print(&lines.end())?;
    broken.map_or(Ok(()), Err)
}

/// Bytes on their way to a terminal.
#[derive(Debug, Default)]
struct Lines {
    /// The beginning of a line, whose last character may not be whole yet.
    rest: Vec<u8>,
    /// The cursor does not stand at the beginning of a line.
    open: bool,
}

impl Lines {
    /// The lines that are whole by now.
    fn take(&mut self, bytes: &[u8]) -> String {
        self.rest.extend(bytes);
        let end = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.rest.len() > LONGEST => self.rest.len(),
            None => 0,
        };
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        if let Some(last) = whole.last() {
            self.open = *last != b'\n';
        }
        shown(&whole)
    }

    /// Returns the rest, and the end of its line: the prompt begins on a line of its own.
    fn end(&mut self) -> String {
        let rest = std::mem::take(&mut self.rest);
        self.open |= !rest.is_empty();
        shown(&rest) + if self.open { "\n" } else { "" }
    }
}

fn shown(bytes: &[u8]) -> String {
    bytes.split(|byte| *byte == b'\n').map(escape_bytes).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_whole_and_harmless() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"one\ntwo \xc3"), "one\n");
        assert_eq!(lines.take(b"\xbc\x1b[2J\r"), "");
        assert_eq!(lines.end(), "two ü\\x1b[2J\\r\n");
        assert_eq!(Lines::default().end(), "", "an empty file has no line");
        let mut whole = Lines::default();
        assert_eq!((whole.take(b"a\n"), whole.end()), ("a\n".to_owned(), String::new()));
    }

    #[test]
    fn a_line_without_an_end_is_shown_as_it_comes() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(&vec![b'x'; LONGEST + 1]).len(), LONGEST + 1);
        assert_eq!(lines.end(), "\n");
    }
}
