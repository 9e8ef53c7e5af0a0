//! `cp`: a file or a folder of the host, with all in it, comes here; or a file goes there.

mod side;
mod upload;

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::CopyRequest;
use kelson_proto::v1::copy_response::Response;
use tokio::sync::mpsc;

use super::ls::absolute;
use crate::call::{Call, Run};
use crate::extract::{Extracted, Target, extract};
use crate::failure::{Failure, within};
use crate::output::{Page, escape, object, print_bytes, size};
use crate::targets::only;
use side::Side;
use upload::upload;

/// The next piece comes in this time, or never.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Copy a file or folder of the host here, or a file to the host
///
/// A path of the host is :/PATH, or NAME:/PATH with a node as -n takes it; a
/// SOURCE that begins with / is of the host, too, unless DEST is.
///
/// A copy from the host goes into DEST where that is a folder, else it has that
/// name. The host can write nothing but this one name: kelsonctl refuses a path
/// that leads elsewhere. It copies no devices and no pipes, drops set-user-id
/// bits, and does not enter other file systems below a folder.
///
/// A file on its way to the host keeps its permissions, belongs to root there,
/// and appears whole or not at all. Its path may not lead through a symbolic
/// link. This needs the role os:admin.
///
/// Examples:
///   kelsonctl cp /var/log/kelson .
///   kelsonctl cp --force /etc/kelson/machine.yaml /tmp/edge-1.yaml
///   kelsonctl cp /etc - | tar -t
///   kelsonctl cp app.conf :/etc/app.conf
///   kelsonctl cp --force app.conf edge-1:/etc/
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Overwrite files that are there already
    #[arg(short, long)]
    force: bool,
    /// The file or folder to copy: a path of the host, or a file here
    #[arg(value_name = "SOURCE", value_parser = Side::parse)]
    source: Side,
    /// Where to; `-`: a tar archive to the standard output
    #[arg(value_name = "DEST", value_parser = Side::parse)]
    dest: Side,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let Arguments { force, source, dest } = self;
        match (source, dest) {
            (Side::Host { name, path }, Side::Here(dest)) => {
                fetch(call, &client(call, name)?, path, dest, force).await
            }
            (Side::Here(source), Side::Host { name, path }) => {
                let uploaded = upload(&client(call, name)?, &source, &path, force).await?;
                let (bytes, path) = (uploaded.bytes, uploaded.path);
                let view = object!(files: 1, bytes: bytes, troubles: Vec::<String>::new());
                call.show(&view, || {
                    Page::Lines(format!("copied 1 file ({}) to {}\n", size(bytes), escape(&path)))
                })
            }
            // As before there were two directions.
            (Side::Here(source), Side::Here(dest)) if source.has_root() => {
                let source = absolute(&source.to_string_lossy())?;
                fetch(call, &call.client()?, source, dest, force).await
            }
            (Side::Here(_), Side::Here(_)) => Err(Failure::Usage(
                "neither of the two is on the host; write a path of the host with a colon, such as :/etc/app.conf"
                    .to_owned(),
            )),
            (Side::Host { .. }, Side::Host { .. }) => {
                Err(Failure::Usage("one of the two must be here; copy it here first".to_owned()))
            }
        }
    }
}

/// A client of the node that stands before the path.
fn client(call: &Call, name: Option<String>) -> Result<Client, Failure> {
    match name {
        None => call.client(),
        Some(name) => only(&name, &call.choice)?.resolve()?.client(),
    }
}

/// Copies from the host.
async fn fetch(
    call: &Call,
    client: &Client,
    source: String,
    dest: PathBuf,
    force: bool,
) -> Result<(), Failure> {
    if dest == Path::new("-") {
        if call.terminal.is_terminal {
            return Err(Failure::Usage(
                "a tar archive is nothing for a terminal; send it to a file or to tar".to_owned(),
            ));
        }
        let mut troubles = 0;
        let mut take = async |data: Vec<u8>| print_bytes(&data).map(|()| true);
        pump(client, &source, &mut take, &mut |said| {
            troubles += 1;
            call.note(&said);
        })
        .await?;
        return if troubles > 0 { Err(Failure::Reported) } else { Ok(()) };
    }
    let (folder, top, name) = place(&source, &dest, force)?;
    let target = Target::new(&folder, &name, force)
        .map_err(|error| Failure::Failed(format!("cannot write into {}: {error}", folder.display())))?;
    let mut troubles = Vec::new();
    let copied = copy(client, &source, top, target, &mut |said| troubles.push(said)).await;
    let (failure, copied) = match copied {
        Ok(copied) => (None, copied),
        Err(failure) => (Some(failure), Extracted::default()),
    };
    troubles.extend(copied.troubles);
    troubles.iter().for_each(|said| call.note(said));
    if let Some(failure) = failure {
        return Err(failure);
    }
    let view = object!(files: copied.files, bytes: copied.bytes, troubles: troubles);
    call.show(&view, || {
        let files = if copied.files == 1 { "file" } else { "files" };
        let place = folder.join(&name);
        Page::Lines(format!(
            "copied {} {files} ({}) to {}\n",
            copied.files,
            size(copied.bytes),
            escape(&place.display().to_string())
        ))
    })?;
    if troubles.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}

/// The folder that it goes to, what it is called on the host, and what it will be called here.
fn place(source: &str, dest: &Path, force: bool) -> Result<(PathBuf, OsString, OsString), Failure> {
    let last = Path::new(source).components().next_back();
    let Some(Component::Normal(top)) = last else {
        return Err(Failure::Usage(format!(
            "{source} has no name that it could have here; name what is in it"
        )));
    };
    let top = top.to_owned();
    let (folder, name) = match std::fs::metadata(dest) {
        Ok(found) if found.is_dir() => return Ok((dest.to_owned(), top.clone(), top)),
        Ok(_) if !force => {
            return Err(Failure::Failed(format!(
                "{} is there already and is not overwritten (--force replaces it)",
                dest.display()
            )));
        }
        _ => (dest.parent(), dest.file_name()),
    };
    // A name that ends in `/` is meant as a folder, and there is none.
    let is_folder = dest.as_os_str().as_encoded_bytes().ends_with(b"/");
    let (Some(folder), Some(name), false) = (folder, name, is_folder) else {
        return Err(Failure::Failed(format!("there is no folder {}", dest.display())));
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    Ok((folder.to_owned(), top, name.to_owned()))
}

/// Lays out what the host sends, as it comes.
async fn copy(
    client: &Client,
    source: &str,
    top: OsString,
    target: Target,
    trouble: &mut dyn FnMut(String),
) -> Result<Extracted, Failure> {
    let (sender, chunks) = mpsc::channel(8);
    // It waits for disks, and for what comes.
    let worker = tokio::task::spawn_blocking(move || {
        extract(Feed { chunks, chunk: io::Cursor::default() }, &top, &target)
    });
    let mut take = async |data: Vec<u8>| Ok(sender.send(data).await.is_ok());
    let pumped = pump(client, source, &mut take, trouble).await;
    drop(sender);
    let laid_out = worker.await.map_err(|error| Failure::Failed(format!("the copy broke off: {error}")))?;
    match (pumped, laid_out) {
        (Err(failure), _) => Err(failure),
        (Ok(()), Err(broken)) => Err(Failure::Failed(broken.to_string())),
        (Ok(()), Ok(done)) => Ok(done),
    }
}

/// Hands on what the host sends, until its end or until nobody takes it any more.
async fn pump(
    client: &Client,
    source: &str,
    take: &mut impl AsyncFnMut(Vec<u8>) -> Result<bool, Failure>,
    trouble: &mut dyn FnMut(String),
) -> Result<(), Failure> {
    let request = CopyRequest { path: source.to_owned() };
    let opened = async { Ok(client.inspect().copy(request).await?.into_inner()) };
    let mut stream = within(TIMEOUT, opened).await?;
    while let Some(next) = within(TIMEOUT, async { Ok(stream.message().await?) }).await? {
        let more = match next.response {
            Some(Response::Data(data)) => take(data).await?,
            Some(Response::Trouble(said)) => {
                trouble(said);
                true
            }
            None => true,
        };
        if !more {
            break;
        }
    }
    Ok(())
}

/// The bytes that arrive, for a reader on another thread.
struct Feed {
    chunks: mpsc::Receiver<Vec<u8>>,
    chunk: io::Cursor<Vec<u8>>,
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match (self.chunk.read(buffer)?, buffer.is_empty()) {
                (0, false) => {}
                (count, _) => return Ok(count),
            }
            // The end, or a break, of which `pump` tells: half a file is found by its length.
            let Some(chunk) = self.chunks.blocking_recv() else { return Ok(0) };
            self.chunk = io::Cursor::new(chunk);
        }
    }
}
