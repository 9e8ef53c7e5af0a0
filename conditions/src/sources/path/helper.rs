//! The process that watches paths for PID 1 on file systems that may hang: the inside of `kelson-task watch-paths`.
//!
//! It does what PID 1 does on memory, on one mount more. When that mount hangs, so does this process, and nothing else.

use std::io;
use std::os::fd::OwnedFd;

use super::tree::Tree;
use super::wire::{Connection, Frame};

/// Answers PID 1 on this Unix stream socket until it closes, which is a good end. Runs a tokio runtime of its own.
///
/// # Errors
/// What PID 1 sent makes no sense, or the runtime could not be made.
pub fn path_helper(socket: OwnedFd) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve_paths(socket))
}

/// [`path_helper`] inside a runtime that is there already.
///
/// # Errors
/// As [`path_helper`].
pub(super) async fn serve_paths(socket: OwnedFd) -> io::Result<()> {
    let mut connection = Connection::new(socket)?;
    let mut tree = Tree::new();
    loop {
        tokio::select! {
            frame = connection.next() => match frame {
                Ok(Frame::Watch { id, allowed, question, path }) => {
                    let found = tree.want(id, path, question, allowed).into();
                    connection.send(&Frame::Found { id, found })?;
                }
                Ok(Frame::Forget { id }) => tree.forget(id),
                Ok(Frame::Found { .. }) => return Err(io::ErrorKind::InvalidData.into()),
                Err(error) if is_end(&error) => return Ok(()),
                Err(error) => return Err(error),
            },
            changes = tree.changes() => {
                for (id, finding) in changes.found {
                    connection.send(&Frame::Found { id, found: finding.into() })?;
                }
            }
        }
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}
