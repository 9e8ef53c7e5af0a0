//! A file from here goes to the host.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kelson_api::client::Client;
use kelson_proto::v1::write_file_request::Request;
use kelson_proto::v1::{WriteFileBegin, WriteFileRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::failure::Failure;

/// Bytes of one piece.
const PIECE: usize = 64 << 10;
/// Pieces that wait for the host to take them.
const WAITING: usize = 4;

/// Where the file is on the host, and how many bytes it has.
pub struct Uploaded {
    pub path: String,
    pub bytes: u64,
}

/// Sends a file. The host has it whole, or not at all.
pub async fn upload(client: &Client, source: &Path, path: &str, force: bool) -> Result<Uploaded, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::Failed(format!("cannot read {}: {error}", source.display()));
    let file = File::open(source).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let name = source.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if !metadata.is_file() {
        return Err(Failure::Usage(format!(
            "{} is not a file; to a host one file is copied at a time",
            source.display()
        )));
    }
    let size = metadata.len();
    let begin =
        WriteFileBegin { path: path.to_owned(), name, size, mode: metadata.mode() & 0o777, overwrite: force };
    let (sender, receiver) = mpsc::channel(WAITING);
    // Disks are waited for on another thread. It ends when nobody takes what it reads.
    let reading = tokio::task::spawn_blocking(move || send(file, begin, &sender));
    let answer = client.inspect().write_file(ReceiverStream::new(receiver)).await;
    let read = reading.await.map_err(|error| Failure::Failed(format!("the copy broke off: {error}")))?;
    // Why it cannot be read says more than that the host missed something.
    read.map_err(unreadable)?;
    Ok(Uploaded { path: answer?.into_inner().path, bytes: size })
}

fn send(file: File, begin: WriteFileBegin, to: &mpsc::Sender<WriteFileRequest>) -> std::io::Result<()> {
    let message = |request| WriteFileRequest { request: Some(request) };
    let mut left = begin.size;
    if to.blocking_send(message(Request::Begin(begin))).is_err() {
        return Ok(());
    }
    let mut file = file.take(left);
    while left > 0 {
        let mut piece = vec![0; PIECE];
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Err(std::io::Error::other("it became shorter while it was read"));
        }
        piece.truncate(length);
        left = left.saturating_sub(length as u64);
        if to.blocking_send(message(Request::Data(piece))).is_err() {
            return Ok(());
        }
    }
    Ok(())
}
