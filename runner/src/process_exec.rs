//! Running a command beside the main process of a service that is a plain process.
//!
//! The command is made as a run of the service is ([`service_command`]), into a leaf of its cgroup: a stop of the
//! service takes it along, as does the end of the main process. It leads a session of its own, so that its terminal and
//! its signals are its alone, and nothing of it counts as the service's: not its exit, and no readiness.
//!
//! The main process of a plain service lives in PID 1's namespaces, so there is none to enter. The one exception is `readOnlyRoot`: each
//! process that PID 1 starts gets a mount namespace of its own then, the command too, made in the same way.

pub(crate) mod terminal;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use kelson_spec::ServiceSpec;

use crate::cgroup::Cgroup;
use crate::command::{Command, ControllingTerminal, Stdio};
use crate::exec::{End, ExecControl, ExecRequest, Executing, Executor, Outputs, WindowSize, duplicate, pipe};
use crate::processes::{Child, ExitReceiver, Processes};
use crate::runner::{BoxFuture, RunContext, RunnerError};
use crate::service_command::{run_mark, service_command};
use terminal::Terminal;

/// Runs commands beside the main process of one run.
#[derive(Debug)]
pub struct ProcessExecutor {
    processes: Processes,
    spec: Arc<ServiceSpec>,
    run: u64,
    pid: i32,
    start_time: u64,
    /// `None`: the main process lives in PID 1's namespaces.
    container: Option<Box<dyn Elsewhere>>,
}

/// Where the main process does not live in PID 1's namespaces.
pub(crate) trait Elsewhere: std::fmt::Debug + Send + Sync {
    /// The command of a context, beside this main process.
    fn command(&self, context: RunContext, pid: i32, start_time: u64) -> Result<Command, RunnerError>;
}

/// The caller's ends of the command's input, output and errors.
struct Ends {
    input: Option<OwnedFd>,
    output: OwnedFd,
    errors: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
}

impl ProcessExecutor {
    /// For the run whose main process is named by `pid` and `start_time` (0: not known).
    pub fn new(
        processes: Processes,
        spec: Arc<ServiceSpec>,
        run: u64,
        pid: i32,
        start_time: u64,
    ) -> ProcessExecutor {
        ProcessExecutor { processes, spec, run, pid, start_time, container: None }
    }

    /// For a container that PID 1 runs itself.
    pub(crate) fn in_container(mut self, container: Box<dyn Elsewhere>) -> ProcessExecutor {
        self.container = Some(container);
        self
    }

    /// A command that joins what has ended would be killed at birth, or be a stray in what follows.
    fn check_main(&self) -> Result<(), RunnerError> {
        if self.processes.is_alive(self.pid, self.start_time) {
            return Ok(());
        }
        Err(RunnerError::new(format!("the main process of service {} has ended", self.spec.name)))
    }

    fn cgroup(&self) -> Option<Cgroup> {
        self.processes.cgroups().map(|root| root.cgroup(&self.spec.name))
    }

    async fn start(&self, request: ExecRequest) -> Result<Executing, RunnerError> {
        self.check_main()?;
        let (command, ends) = self.command(request)?;
        let Child { pid, exit, .. } = self.processes.spawn(command).await?;
        let control =
            Control { processes: self.processes.clone(), pid, exit: exit.clone(), terminal: ends.terminal };
        // It may have ended while the command was made.
        if let Err(error) = self.check_main() {
            control.kill();
            return Err(error);
        }
        Ok(Executing {
            pid,
            input: ends.input,
            output: ends.output,
            errors: ends.errors,
            exit: Box::pin(exit),
            control: Arc::new(control),
        })
    }

    fn command(&self, request: ExecRequest) -> Result<(Command, Ends), RunnerError> {
        request.check()?;
        for (name, _) in &request.environment {
            if name.is_empty() || name.contains('=') {
                return Err(RunnerError::new(format!("\"{name}\" is no name of an environment variable")));
            }
        }
        let (ends, theirs) = match request.terminal {
            Some(size) => self.on_terminal(size, request.input)?,
            None => on_pipes(request.input, request.outputs.as_deref())?,
        };
        let context = RunContext {
            command: Some(request.command),
            literal: request.literal,
            as_root: request.as_root,
            namespaces: request.namespaces,
            environment: request.environment,
            ..RunContext::new(self.run, theirs.output, theirs.errors)
        };
        let made = match &self.container {
            Some(container) => {
                let command = container.command(context, self.pid, self.start_time)?;
                command.scheduled(&self.spec.attributes)
            }
            None => service_command(&self.spec, context, &self.processes)?,
        };
        // Not the request's to change: where there are no cgroups a stop finds it by this.
        let mut command = made.env("KELSON_RUN", run_mark(&self.spec, self.run, &self.processes));
        if let Some(input) = theirs.input {
            command = command.stdin(Stdio::Descriptor(input));
            command.has_own_stdin = true;
        }
        command.terminal = request.terminal.map(|_| ControllingTerminal::default());
        if let Some(cgroup) = self.cgroup() {
            let cgroup = cgroup.of_commands()?;
            command = command.cgroup(cgroup.folder()?, cgroup.name());
        }
        Ok((command, ends))
    }

    fn on_terminal(&self, size: WindowSize, input: bool) -> Result<(Ends, Theirs), RunnerError> {
        let owner = self.spec.user.as_ref().map(|user| user.uid);
        let Terminal { ours, theirs } = Terminal::new(size, owner)?;
        let ends = Ends {
            input: if input { Some(duplicate(&ours)?) } else { None },
            output: duplicate(&ours)?,
            errors: None,
            terminal: Some(ours),
        };
        let (input, output) = (duplicate(&theirs)?, duplicate(&theirs)?);
        Ok((ends, Theirs { input: Some(input), output, errors: theirs }))
    }
}

/// The command's ends. Without input, its standard input is `/dev/null`.
struct Theirs {
    input: Option<OwnedFd>,
    output: OwnedFd,
    errors: OwnedFd,
}

fn on_pipes(input: bool, outputs: Option<&Outputs>) -> Result<(Ends, Theirs), RunnerError> {
    let (read, write) = if input { Some(pipe(End::Write)?).unzip() } else { (None, None) };
    let (output, output_end) = pipe(End::Read)?;
    let (errors, errors_end) = pipe(End::Read)?;
    let (output_end, errors_end) = match outputs {
        Some((output, errors)) => (duplicate(output)?, duplicate(errors)?),
        None => (output_end, errors_end),
    };
    let ends = Ends { input: write, output, errors: Some(errors), terminal: None };
    Ok((ends, Theirs { input: read, output: output_end, errors: errors_end }))
}

impl Executor for ProcessExecutor {
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        Box::pin(self.start(request))
    }
}

/// Acts on a command by its PID, under the lock of the reaper: once it is reaped all do nothing.
struct Control {
    processes: Processes,
    pid: i32,
    exit: ExitReceiver,
    terminal: Option<OwnedFd>,
}

impl ExecControl for Control {
    fn signal(&self, signal: i32) {
        self.processes.signal(self.pid, &self.exit, signal);
    }

    fn kill(&self) {
        self.processes.signal_group(self.pid, &self.exit, libc::SIGKILL);
    }

    fn resize(&self, size: WindowSize) {
        if let Some(terminal) = &self.terminal
            && self.exit.exited().is_none()
            && let Err(error) = terminal::resize(terminal, size)
        {
            tracing::debug!("cannot resize the terminal of process {}: {error}", self.pid);
        }
    }
}
