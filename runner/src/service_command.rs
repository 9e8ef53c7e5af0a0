//! The child of one run of a service, as its spec asks for it.

use std::borrow::Cow;
use std::os::fd::OwnedFd;

use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{Credentials, Inherit, Input, Seccomp, Security, Workload};

use crate::command::{Command, ControllingTerminal, DEFAULT_PATH, Ids, Stdio};
use crate::expand::expand;
use crate::facts;
use crate::processes::Processes;
use crate::runner::{Namespaces, RunContext, RunnerError};

/// The number of the first socket in a service: `SD_LISTEN_FDS_START`.
const FIRST_SOCKET: i32 = 3;

/// By which the processes of a run are found where there are no cgroups: the value of `KELSON_RUN`.
pub(crate) fn run_mark(spec: &ServiceSpec, run: u64, processes: &Processes) -> String {
    format!("{}:{}:{run}", processes.incarnation(), spec.name)
}

/// All that the spec asks for but the cgroup.
///
/// # Errors
/// When the service is not a process, or has no command.
pub(crate) fn service_command(
    spec: &ServiceSpec,
    context: RunContext,
    processes: &Processes,
) -> Result<Command, RunnerError> {
    let Workload::Process(process) = &spec.workload else {
        return Err(RunnerError::new(format!("service {} is not a process", spec.name)));
    };
    let words = context.command.as_ref().unwrap_or(&process.command);
    let Some((program, arguments)) = words.split_first() else {
        return Err(RunnerError::new(format!("service {} has no command", spec.name)));
    };
    let of_root = Security { seccomp: Seccomp::Unconfined, ..Security::default() };
    let (user, security) = match context.as_root {
        true => (None, &of_root),
        false => (spec.user.as_ref(), &spec.security),
    };
    let mut command = Command::new(program.as_str()).env("PATH", DEFAULT_PATH);
    if spec.inherit != Inherit::Nothing {
        command = with_inherited(command, &spec.inherit);
    }
    command = command
        .working_directory(process.working_directory.as_os_str().as_encoded_bytes())
        .stdout(Stdio::Descriptor(context.stdout))
        .stderr(Stdio::Descriptor(context.stderr));
    if let Some(user) = user {
        let name = if user.is_dynamic() { &spec.name } else { &user.name };
        command = with_credentials(command, user, name);
    }
    for (name, value) in facts::variables(spec) {
        command = command.env(name, value);
    }
    for (name, value) in &spec.environment {
        command = command.env(name, value);
    }
    command =
        command.env("KELSON_SERVICE", &spec.name).env("KELSON_RUN", run_mark(spec, context.run, processes));
    for (name, value) in &context.environment {
        command = command.env(name, value);
    }
    if const { OWN.has(Feature::Units) } && !context.sockets.is_empty() {
        let stdin = spec.sockets.iter().position(|socket| socket.options.stdin);
        command = with_sockets(command, context.sockets, stdin)?;
    }
    // A hook has none.
    if const { OWN.has(Feature::Units) } && context.command.is_none() {
        command = with_input(command, &process.input, context.input)?;
    }
    command = match const { OWN.has(Feature::Units) } && spec.expand && !context.literal {
        true => {
            let expanded: Vec<Vec<u8>> = arguments
                .iter()
                .flat_map(|word| expand(word, |name| command.variable(name)))
                .map(Cow::into_owned)
                .collect();
            command.args(expanded)
        }
        false => command.args(arguments.iter().map(String::as_str)),
    };
    // A build without such services has no such code.
    let denied = if const { OWN.has(Feature::Units) } { security.sandbox.denied_capabilities() } else { 0 };
    let bounding = security.capabilities.unwrap_or(u64::MAX) & !denied;
    let ambient = security.ambient & bounding;
    // The capabilities that the program can ever hold: the seccomp profile opens what they allow. A user other than
    // root holds the ambient ones; a set-user-id program may give it more, up to the bounding set.
    let held = if user.is_none_or(|user| user.uid == 0) { bounding } else { ambient };
    command.pipe_owner = user.map(|user| (user.uid, user.gid));
    command.descriptors.extend(context.descriptors);
    command.limits.clone_from(&spec.limits);
    command.attributes.clone_from(&spec.attributes);
    command.no_new_privileges = security.no_new_privileges;
    // A view of its own is read-only where it is to be.
    if !context.as_root {
        let Namespaces { mounts, network, users, devices } = context.namespaces;
        (command.mounts, command.network, command.users) = (mounts, network, users);
        command.devices = devices;
    }
    command.read_only_root = security.read_only_root && command.mounts.is_none();
    command.bounding = (bounding != u64::MAX).then_some(bounding);
    command.ambient = ambient;
    command.seccomp = match security.seccomp {
        Seccomp::Unconfined => None,
        Seccomp::Default => Some(processes.default_filter(held)),
    };
    if const { OWN.has(Feature::Units) } {
        command.own_filter.clone_from(&security.sandbox.filter);
    }
    Ok(command)
}

/// Hands over sockets as sd_listen_fds(3) finds them; the one at `stdin` is the standard input too.
fn with_sockets(
    command: Command,
    sockets: Vec<(String, OwnedFd)>,
    stdin: Option<usize>,
) -> Result<Command, RunnerError> {
    let names: Vec<&str> = sockets.iter().map(|(name, _)| name.as_str()).collect();
    let mut command =
        command.env("LISTEN_FDNAMES", names.join(":")).env("LISTEN_FDS", sockets.len().to_string());
    command.listen_pid = true;
    if let Some((_, socket)) = stdin.and_then(|place| sockets.get(place)) {
        let socket = socket.try_clone();
        let cannot = |error| RunnerError::system("cannot hand over its standard input", &error);
        command = command.stdin(Stdio::Descriptor(socket.map_err(cannot)?));
    }
    command.descriptors.extend((FIRST_SOCKET..).zip(sockets).map(|(number, (_, socket))| (socket, number)));
    Ok(command)
}

/// Hands over the standard input; the output of a service goes to its terminal too, unless it is to stay in the log.
fn with_input(mut command: Command, input: &Input, opened: Option<OwnedFd>) -> Result<Command, RunnerError> {
    if *input == Input::Nothing {
        return Ok(command);
    }
    let opened = opened.ok_or_else(|| RunnerError::new("its standard input was not opened"))?;
    if input.takes_output() {
        let copy = || opened.try_clone().map(Stdio::Descriptor);
        let cannot = |error| RunnerError::system("cannot hand over its terminal", &error);
        command = command.stdout(copy().map_err(cannot)?).stderr(copy().map_err(cannot)?);
    }
    command.terminal = input.terminal().map(|terminal| ControllingTerminal {
        path: terminal.path.display().to_string(),
        force: terminal.force,
    });
    Ok(command.stdin(Stdio::Descriptor(opened)))
}

/// What PID 1 was started with: it never changes its environment, and hands it on to its next incarnation.
fn with_inherited(command: Command, inherit: &Inherit) -> Command {
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let taken = variables.filter(|(name, _)| inherit.takes(name));
    taken.fold(command, |command, (name, value)| command.env(&name, value.as_encoded_bytes()))
}

fn with_credentials(mut command: Command, user: &Credentials, name: &str) -> Command {
    command.credentials = Some(Ids { uid: user.uid, gid: user.gid, groups: user.groups.clone() });
    // As written in the file, which may name a group too.
    let name = name.split(':').next().unwrap_or(name);
    let command = command.env("USER", name).env("LOGNAME", name).env("SHELL", "/bin/sh");
    match &user.home {
        Some(home) => command.env("HOME", home),
        None => command,
    }
}
