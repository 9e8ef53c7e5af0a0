//! Further commands inside a container: health checks, and an operator's `exec`.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use containerd_client::types::v1::{Process as TaskState, Status};
use kelson_containerd::{CallError, Containerd, Streams, TaskProcess};
use prost_types::Any;
use tokio::sync::{oneshot, watch as channel};
use tokio::time::{Instant, sleep};

use super::launch::path_of;
use super::pidfd::{ProcessHandle, is_same};
use super::runtime::PROCESS;
use super::watch::{self, Ending};
use crate::container::oci::{ConsoleSize, Process, Running};
use crate::container::spec::set;
use crate::exec::{End, ExecControl, ExecRequest, Executing, Executor, WindowSize, duplicate, pipe};
use crate::runner::{BoxFuture, Origin, RunnerError};

/// How long containerd is asked to forget a command.
const CLEANUP: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// Runs commands inside the container of one run of a service.
#[derive(Debug, Clone)]
pub struct ContainerExecutor {
    containerd: Containerd,
    service: String,
    pid: i32,
    start_time: u64,
}

impl ContainerExecutor {
    /// `pid` and `start_time` name the run's main process.
    pub fn new(containerd: Containerd, service: &str, pid: i32, start_time: u64) -> ContainerExecutor {
        ContainerExecutor { containerd, service: service.to_owned(), pid, start_time }
    }

    async fn begin(&self, request: ExecRequest) -> Result<Executing, RunnerError> {
        request.check()?;
        let spec = self.running_process().await?;
        let ends = Ends::new(&request)?;
        let terminal = request.terminal;
        let spec = described(spec, request)?;
        let process = TaskProcess {
            container: self.service.clone(),
            exec: format!("exec-{}", self.containerd.next_number()),
        };
        let cleanup = Cleanup { containerd: self.containerd.clone(), process: Some(process.clone()) };
        let refused = |error: CallError| {
            let error = RunnerError::from(error);
            match error.origin {
                Origin::ContainerdRefused => {
                    RunnerError::new(format!("cannot run a command in service {}: {error}", self.service))
                }
                _ => error,
            }
        };
        let made = self.containerd.make_exec(&process, spec, ends.streams(), terminal.is_some()).await;
        made.map_err(refused)?;
        let pid = self.containerd.start(&process).await.map_err(refused)?;
        let pid = i32::try_from(pid).unwrap_or_default();
        // A short command may have ended and been reaped by its shim, and its number given to another process.
        let handle = ProcessHandle::open(pid)?.filter(|handle| handle.is_beside(self.pid));
        let handle = Arc::new(handle);
        let ending = watch::begin(self.containerd.clone(), process.clone(), Arc::clone(&handle));
        if ends.input.is_some() && terminal.is_none() {
            // The shim holds the pipe open for writers to come; there is one, the caller.
            self.containerd.let_input_end(&process).await.map_err(refused)?;
        }
        let Ends { input, output, errors, shim: _ } = ends;
        // The shim hangs a terminal up when nobody can write to it any more, which the end of the caller's input does
        // not mean.
        let kept = match (&input, terminal) {
            (Some(input), Some(_)) => Some(duplicate(input)?),
            _ => None,
        };
        let size = terminal.map(|size| {
            let (sender, sizes) = channel::channel(size);
            kelson_sys::spawn(follow_size(self.containerd.clone(), process.clone(), sizes, ending.clone()));
            sender
        });
        kelson_sys::spawn(see_off(cleanup, ending.clone(), kept));
        Ok(Executing {
            pid,
            input,
            output,
            errors,
            exit: ending.into_future(),
            control: Arc::new(Control { handle, size }),
        })
    }

    /// Returns the main process' description: a further process differs in its command alone.
    async fn running_process(&self) -> Result<Process, RunnerError> {
        let ended = || RunnerError::new(format!("service {} does not run any more", self.service));
        if self.start_time != 0 && !is_same(self.pid, self.start_time) {
            return Err(ended());
        }
        let state = self.containerd.process(&TaskProcess::main(&self.service)).await?.ok_or_else(ended)?;
        let TaskState { pid, status, .. } = state;
        if i32::try_from(pid) != Ok(self.pid) || status == Status::Stopped as i32 {
            return Err(ended());
        }
        let record = self.containerd.container(&self.service).await?.ok_or_else(ended)?;
        let spec = record.spec.unwrap_or_default().value;
        serde_json::from_slice::<Running>(&spec).map(|running| running.process).map_err(|error| {
            RunnerError::new(format!("cannot read the specification of service {}: {error}", self.service))
        })
    }
}

impl Executor for ContainerExecutor {
    /// Goes on in a task of its own: a start that is broken off half way would leave a process that nobody knows. One
    /// that nobody wants any more is killed once it is known.
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        let executor = self.clone();
        let (sender, receiver) = oneshot::channel();
        kelson_sys::spawn(async move {
            if let Err(Ok(unwanted)) = sender.send(executor.begin(request).await) {
                unwanted.control.kill();
            }
        });
        let mut begun = Begun(receiver);
        Box::pin(async move {
            match (&mut begun.0).await {
                Ok(result) => result,
                Err(_) => Err(RunnerError::new("the start of a command broke off")),
            }
        })
    }
}

/// A command on its way to who asked for it.
struct Begun(oneshot::Receiver<Result<Executing, RunnerError>>);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.close();
        if let Ok(Ok(unwanted)) = self.0.try_recv() {
            unwanted.control.kill();
        }
    }
}

/// The specification of the command, packed for containerd.
fn described(mut process: Process, request: ExecRequest) -> Result<Any, RunnerError> {
    process.args = request.command;
    process.terminal = request.terminal.is_some();
    process.console_size =
        request.terminal.map(|size| ConsoleSize { height: size.rows, width: size.columns });
    if request.terminal.is_some() && !process.env.iter().any(|entry| entry.starts_with("TERM=")) {
        process.env.push(String::from("TERM=xterm"));
    }
    for (name, value) in request.environment {
        set(&mut process.env, format!("{name}={value}"));
    }
    let value = serde_json::to_vec(&process)
        .map_err(|error| RunnerError::new(format!("cannot describe the command: {error}")))?;
    Ok(Any { type_url: PROCESS.to_owned(), value })
}

/// The pipes of a command: ours, and those that the shim opens by their paths.
struct Ends {
    input: Option<OwnedFd>,
    output: OwnedFd,
    errors: Option<OwnedFd>,
    shim: [Option<OwnedFd>; 3],
}

impl Ends {
    fn new(request: &ExecRequest) -> Result<Ends, RunnerError> {
        let terminal = request.terminal.is_some();
        let (shims_input, input) = match request.input || terminal {
            true => Some(pipe(End::Write)?).unzip(),
            false => (None, None),
        };
        let (output, mut shims_output) = pipe(End::Read)?;
        let (errors, mut shims_errors) = match terminal {
            true => (None, None),
            false => Some(pipe(End::Read)?).unzip(),
        };
        if let Some(outputs) = &request.outputs {
            let (output, errors) = &**outputs;
            (shims_output, shims_errors) = (duplicate(output)?, Some(duplicate(errors)?));
        }
        Ok(Ends { input, output, errors, shim: [shims_input, Some(shims_output), shims_errors] })
    }

    fn streams(&self) -> Streams {
        let [stdin, stdout, stderr] = &self.shim;
        let path = |end: &Option<OwnedFd>| end.as_ref().map(path_of).unwrap_or_default();
        Streams { stdin: path(stdin), stdout: path(stdout), stderr: path(stderr) }
    }
}

/// Waits for a command's end, then has containerd forget it.
async fn see_off(mut cleanup: Cleanup, mut ending: Ending, kept: Option<OwnedFd>) {
    ending.exit().await;
    drop(kept);
    if let Some(process) = cleanup.process.take() {
        forget(&cleanup.containerd, &process).await;
    }
}

/// The last size counts; those that come while one is handed over are passed by.
async fn follow_size(
    containerd: Containerd,
    process: TaskProcess,
    mut sizes: channel::Receiver<WindowSize>,
    mut ending: Ending,
) {
    let follow = async {
        while sizes.changed().await.is_ok() {
            let WindowSize { rows, columns } = *sizes.borrow_and_update();
            if let Err(error) = containerd.resize(&process, rows, columns).await {
                tracing::debug!("cannot resize a terminal: {error}");
            }
        }
    };
    tokio::select! {
        () = follow => {}
        _ = ending.exit() => {}
    }
}

/// Ends a command whose start failed half way.
struct Cleanup {
    containerd: Containerd,
    process: Option<TaskProcess>,
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Some(process) = self.process.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let containerd = self.containerd.clone();
            runtime.spawn(async move { forget(&containerd, &process).await });
        }
    }
}

/// Kills a command, where it lives, until it can be deleted.
async fn forget(containerd: &Containerd, process: &TaskProcess) {
    let begun = Instant::now();
    while begun.elapsed() < CLEANUP {
        match containerd.remove_exec(process).await {
            Ok(()) => return,
            Err(error) => tracing::debug!("a command in {} is still there: {error}", process.container),
        }
        let _ = containerd.kill(process).await;
        sleep(LOOK).await;
    }
}

struct Control {
    handle: Arc<Option<ProcessHandle>>,
    size: Option<channel::Sender<WindowSize>>,
}

impl ExecControl for Control {
    fn signal(&self, signal: i32) {
        if let Some(handle) = self.handle.as_ref() {
            handle.signal(signal);
        }
    }

    fn kill(&self) {
        if let Some(handle) = self.handle.as_ref() {
            handle.kill_group();
        }
    }

    fn resize(&self, size: WindowSize) {
        if let Some(sizes) = &self.size {
            sizes.send_replace(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::oci::{Capabilities, User};

    #[test]
    fn a_command_takes_over_all_but_itself() {
        let main = Process {
            terminal: false,
            console_size: None,
            user: User { uid: 33, gid: 33, umask: Some(0o27), additional_gids: vec![4] },
            args: vec!["/serve".into()],
            env: vec!["A=1".into(), "B=2".into()],
            cwd: "/srv".into(),
            capabilities: Capabilities::default(),
            rlimits: Vec::new(),
            no_new_privileges: true,
            oom_score_adj: 0,
        };
        let request = ExecRequest {
            command: vec!["sh".into(), "-c".into(), "true".into()],
            environment: vec![("B".into(), "3".into())],
            input: false,
            terminal: Some(WindowSize { rows: 24, columns: 80 }),
            ..ExecRequest::default()
        };
        let packed = described(main.clone(), request).unwrap();
        let made: Process = serde_json::from_slice(&packed.value).unwrap();
        assert_eq!(made.args, ["sh", "-c", "true"]);
        assert_eq!(made.env, ["A=1", "B=3", "TERM=xterm"]);
        assert_eq!(made.console_size, Some(ConsoleSize { height: 24, width: 80 }));
        assert_eq!((made.user, made.cwd), (main.user, main.cwd));
        assert!(made.terminal && made.no_new_privileges);
    }

    #[test]
    fn each_stream_has_a_path_only_where_it_is_wanted() {
        let streams = |input, terminal| {
            let request = ExecRequest { input, terminal, ..ExecRequest::default() };
            let Streams { stdin, stdout, stderr } = Ends::new(&request).unwrap().streams();
            [stdin, stdout, stderr].map(|path| !path.is_empty())
        };
        let size = Some(WindowSize::default());
        assert_eq!(streams(false, None), [false, true, true]);
        assert_eq!(streams(true, None), [true, true, true]);
        assert_eq!(streams(false, size), [true, true, false]);
    }
}
