//! The program of the next incarnation: the file on disk where it can be had, else the one that runs.
//!
//! The file may have been replaced: that is how Kelson is upgraded in place. Its disk may be dead, so another
//! process reads it, into memory that PID 1 made. A program that cannot run as PID 1 would be the end of the
//! host: it is tried as a child first, and asked whether it reads the state that this incarnation has
//! written.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_helper::CONTROL;
use kelson_runner::{Child, Command, Stdio};
use kelson_services::state_store::VERSION;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::error::{At as _, Error, Result};
use crate::memory;
use crate::supervisor::Personalities;
use crate::task::{self, Request, TaskError};

/// How long reading the file may take.
const READ: Duration = Duration::from_secs(20);
/// How long the program may take to say that it runs.
const TRY: Duration = Duration::from_secs(10);
/// The place of the copy of the file, for messages.
const MEMORY: &str = "the memory for it";
/// The text before its version that a program of ours prints.
const NAME: &str = "kelson ";
/// More of what a program says is not read.
const ANSWER: u64 = 512;

/// A program to execute.
#[derive(Debug)]
pub struct Candidate {
    pub program: OwnedFd,
    /// Where it comes from, and what it says of itself.
    pub description: String,
    pub version: String,
}

/// Finds the program and tries it.
///
/// # Errors
/// A sentence: the file was replaced by something that cannot go on, or not even the program that runs can be had.
pub async fn find(personalities: &Personalities) -> Result<Candidate> {
    let file = std::env::var_os(super::FILE).map(PathBuf::from).filter(|file| file.is_absolute());
    let read = match &file {
        Some(file) => match read(personalities, file).await {
            Ok(program) => Ok((program, file.display().to_string())),
            Err(reason) => Err(format!("{}: {reason}", file.display())),
        },
        None => Err("it is not known from which file it was started".to_owned()),
    };
    match read {
        Ok((program, file)) => {
            // One that is there and unfit is a mistake that its owner has to know of.
            let said = attempt(personalities, &program).await;
            let said = said.at(format!("{file} cannot go on as PID 1"))?;
            let version = said.strip_prefix(NAME).unwrap_or_default().to_owned();
            Ok(Candidate { program, description: format!("{file} ({said})"), version })
        }
        Err(reason) => {
            let program = personalities.binary.try_clone().at("the program")?;
            let version = super::OWN_VERSION.to_owned();
            Ok(Candidate { program, description: format!("its copy in memory ({reason})"), version })
        }
    }
}

/// Has the file copied to memory of our own by another process.
async fn read(personalities: &Personalities, file: &Path) -> Result<OwnedFd> {
    let copy = memory::executable_memfd().at(MEMORY)?;
    let output = vec![(CONTROL, copy.try_clone().at(MEMORY)?)];
    let request = Request::CopyFile { path: file.to_owned() };
    match task::run_with(&*personalities.tasks(), &request, output, READ).await {
        Ok(_) => memory::seal(&copy).at(MEMORY),
        Err(TaskError::Late { .. }) => {
            Err(format!("its disk did not answer within {} s", READ.as_secs()).into())
        }
        Err(error) => Err(Error::from(error)).at("it cannot be read"),
    }
}

/// Runs it as a child. Returns what it says of itself.
async fn attempt(personalities: &Personalities, program: &OwnedFd) -> Result<String> {
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).at("a pipe")?;
    let command = Command::from_descriptor(program.try_clone().at("the program")?, "init")
        .arg(super::CAN_GO_ON)
        .arg(VERSION.to_string())
        // Release 0.1.0 says no there.
        .stderr(Stdio::Descriptor(writer.try_clone().at("a pipe")?))
        .stdout(Stdio::Descriptor(writer));
    let Child { pidfd, exit, .. } = personalities.processes.spawn(command).await?;
    let ended = async {
        let mut said = Vec::new();
        // Bytes that are no text count as no answer.
        let _ = pipe::Receiver::from_owned_fd(reader).at("a pipe")?.take(ANSWER).read_to_end(&mut said).await;
        Ok::<_, Error>((said, exit.await))
    };
    let (said, exit) = match timeout(TRY, ended).await {
        Ok(ended) => ended?,
        Err(_) => {
            kelson_sys::pidfd::signal(&pidfd, libc::SIGKILL);
            return Err(format!("it did not answer within {} s", TRY.as_secs()).into());
        }
    };
    let said = String::from_utf8_lossy(&said);
    match said.lines().find(|line| line.starts_with(NAME)) {
        Some(said) if exit.success() => Ok(said.to_owned()),
        Some(said) => Err(format!(
            "{said} does not read state format {VERSION}, which kelson {} has written; reboot to run it",
            super::OWN_VERSION
        )
        .into()),
        None => Err(format!("it is no init of Kelson, or one that cannot yet do this: it {exit}").into()),
    }
}
