//! The standard input of a service: opened for each run, and closed in PID 1 once the run is spawned.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::task::InputRequest;
use kelson_runner::{RunContext, Runner, RunnerError};
use kelson_spec::ServiceSpec;
use kelson_spec::service::Input;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::provided_runner::{ProvidedRunner, Provision, ask};
use super::sockets::ask_for;
use crate::memory::seal;
use crate::task::Request;

/// The runner of a service, which gives it its standard input if it has one.
pub(super) fn with_input(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    tasks: &Arc<dyn Launcher>,
) -> Box<dyn Runner> {
    if *spec.input() == Input::Nothing {
        return inner;
    }
    let provision = OwnInput { tasks: Arc::clone(tasks), spec: Arc::clone(spec) };
    Box::new(ProvidedRunner::new(inner, provision))
}

struct OwnInput {
    tasks: Arc<dyn Launcher>,
    spec: Arc<ServiceSpec>,
}

impl OwnInput {
    fn uid(&self) -> Option<u32> {
        self.spec.user.as_ref().map(|user| user.uid)
    }

    async fn open(&self, request: Request) -> Result<Option<OwnedFd>, RunnerError> {
        Ok(ask_for(&self.tasks, &request, 1, "standard input").await?.pop())
    }
}

impl Provision for OwnInput {
    async fn make(
        &mut self,
        _: &mut dyn Runner,
        _: bool,
        context: &mut RunContext,
    ) -> Result<(), RunnerError> {
        // It is that of the main process, and not of a hook.
        if context.command.is_some() {
            return Ok(());
        }
        let uid = self.uid();
        context.input = match self.spec.input() {
            Input::Nothing => None,
            Input::File(path) => self.open(InputRequest::Open { path: path.clone() }.whole()).await?,
            Input::Text(text) => Some(in_memory(text).map_err(|error| {
                RunnerError::new(format!("cannot put its standard input into memory: {error}"))
            })?),
            Input::Terminal(terminal) => {
                let terminal = terminal.clone();
                self.open(InputRequest::TakeTerminal { terminal, uid }.whole()).await?
            }
        };
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        let uid = self.uid();
        match self.spec.input().terminal() {
            Some(terminal) if uid.is_some() || terminal.is_changed() => {
                let terminal = terminal.clone();
                ask(&self.tasks, InputRequest::LeaveTerminal { terminal, uid }.whole()).await
            }
            _ => Ok(()),
        }
    }
}

/// A file that nobody can change, and that is read from its beginning.
fn in_memory(text: &str) -> std::io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"stdin", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.write_all(text.as_bytes())?;
    seal(&file.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_text_is_read_once_and_never_changed() {
        let mut file = File::from(in_memory("answer\n").unwrap());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "answer\n");
        assert!(file.write_all(b"x").is_err());
    }
}
