//! The start of a further process of a container that PID 1 runs itself.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use kelson_sys::{pidfd, process};

use super::{Further, PROCESS, TERMINAL, launch};
use crate::command::{Command, PidNamespace, Stdio};
use crate::container::oci::ConsoleSize;
use crate::container::spec::set;
use crate::exec::{WindowSize, duplicate};
use crate::process_exec::Elsewhere;
use crate::runner::{RunContext, RunnerError};

/// Makes commands that join a container.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) binary: Arc<OwnedFd>,
    /// Of this service, below the runtime folder.
    pub(super) folder: PathBuf,
    /// The command is to be on a terminal of this size, of which one end is sent here.
    pub(super) terminal: Option<(WindowSize, OwnedFd)>,
}

impl Joining {
    /// As what the container's main process runs.
    fn further(&self) -> Result<Further, RunnerError> {
        let path = self.folder.join(PROCESS);
        let text = fs::read(&path);
        text.and_then(|text| serde_json::from_slice(&text).map_err(std::io::Error::from))
            .map_err(|error| RunnerError::system(format_args!("cannot read {}", path.display()), &error))
    }
}

impl Elsewhere for Joining {
    fn command(&self, context: RunContext, pid: i32, start_time: u64) -> Result<Command, RunnerError> {
        let mut further = self.further()?;
        let process = &mut further.process;
        process.args = context.command.unwrap_or_default();
        if let Some((size, _)) = &self.terminal {
            process.terminal = true;
            process.console_size = Some(ConsoleSize { height: size.rows, width: size.columns });
            set(&mut process.env, String::from("TERM=xterm"));
        }
        for (name, value) in context.environment {
            set(&mut process.env, format!("{name}={value}"));
        }
        let ended = || RunnerError::new("the main process of the container has ended");
        let failed = |error| RunnerError::system("cannot enter the container", &error);
        let namespace = File::open(format!("/proc/{pid}/ns/pid")).map_err(failed)?;
        let main = pidfd::open(pid).map_err(failed)?.ok_or_else(ended)?;
        // Asked after: the PID was this process's when both were opened.
        if process::started(pid).map_err(failed)? != Some(start_time) {
            return Err(ended());
        }
        // What it cannot do, it says to the caller.
        let report = duplicate(&context.stderr)?;
        let mut command = launch::command(&self.binary, "join", &further, report)?
            .stdout(Stdio::Descriptor(context.stdout))
            .stderr(Stdio::Descriptor(context.stderr))
            .descriptor(main, launch::MAIN);
        if let Some((_, socket)) = &self.terminal {
            command = command.descriptor(duplicate(socket)?, TERMINAL);
        }
        command.pipe_owner = further.pipe_owner();
        command.pid_namespace = PidNamespace::Of(namespace.into());
        Ok(command)
    }
}
