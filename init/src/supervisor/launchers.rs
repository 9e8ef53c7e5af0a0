//! Starting Kelson's other personalities from PID 1's copy in memory.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_conditions::{BoxFuture, Helper, HelperSpawner};
use kelson_helper::task::{NAME, WATCH_PATHS};
use kelson_runner::{Command, Processes, Stdio};
use kelson_services::helpers::{HelperKind, HelperLauncher};
use kelson_spec::{Diagnostic, Loaded, MachineSpec};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::options::Mode;
use crate::task;

/// A configuration of more bytes than this is no configuration.
const HAND_OVER_MAX: u64 = 64 << 20;
/// How long reading the configuration may take before the host goes on without it.
const LOAD_DEADLINE: Duration = Duration::from_secs(60);

/// Spawns personalities. Cheap to clone.
#[derive(Clone)]
pub struct Personalities {
    pub processes: Processes,
    pub binary: Arc<OwnedFd>,
}

impl Personalities {
    /// A command that runs this very file under another name.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn command(&self, name: &str) -> io::Result<Command> {
        Ok(Command::from_descriptor(self.binary.try_clone()?, name))
    }

    /// What starts helpers of a kind in cgroups of their own.
    pub fn helpers(&self, kind: HelperKind) -> HelperLauncher {
        HelperLauncher::new(self.processes.clone(), Arc::clone(&self.binary), kind)
    }

    /// Has `kelson-load` read the configuration for a host that boots. A failure becomes a diagnostic: the host boots.
    pub async fn load(&self, config: &Path, mode: Mode) -> Loaded {
        self.read(config, mode, None).await.unwrap_or_else(|failure| Loaded {
            diagnostics: vec![Diagnostic {
                file: config.to_owned(),
                line: 0,
                column: 0,
                service: None,
                message: format!("{failure}, no service is known"),
            }],
            ..Loaded::default()
        })
    }

    /// Has `kelson-load` read the configuration again, for a host that booted with this machine file.
    ///
    /// # Errors
    /// A sentence: nothing is known of the files.
    pub async fn reload(&self, config: &Path, mode: Mode, booted: &MachineSpec) -> Result<Loaded, String> {
        let read = self.read(config, mode, Some(booted.containerd_switch())).await;
        read.map_err(|failure| format!("{}: {failure}", config.display()))
    }

    async fn read(&self, config: &Path, mode: Mode, containerd: Option<&str>) -> Result<Loaded, String> {
        let read_at = Some(SystemTime::now());
        match tokio::time::timeout(LOAD_DEADLINE, self.read_hand_over(config, mode, containerd)).await {
            Ok(Ok(loaded)) => Ok(Loaded { read_at, ..loaded }),
            Ok(Err(error)) => Err(format!("could not be read: {error}")),
            Err(_) => Err(format!(
                "could not be read within {} s (its disk does not answer)",
                LOAD_DEADLINE.as_secs()
            )),
        }
    }

    async fn read_hand_over(
        &self,
        config: &Path,
        mode: Mode,
        containerd: Option<&str>,
    ) -> io::Result<Loaded> {
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        let mut command = self
            .command("kelson-load")?
            .arg("--config")
            .arg(config.as_os_str().as_encoded_bytes())
            .arg("--mode")
            .arg(mode.name())
            .stdout(Stdio::Descriptor(writer))
            .spared();
        if let Some(word) = containerd {
            command = command.arg("--containerd").arg(word);
        }
        let child =
            self.processes.spawn(command).await.map_err(|error| io::Error::other(error.to_string()))?;
        let mut bytes = Vec::new();
        pipe::Receiver::from_owned_fd(reader)?.take(HAND_OVER_MAX).read_to_end(&mut bytes).await?;
        let exit = child.exit.await;
        if !exit.success() {
            return Err(io::Error::other(format!(
                "kelson-load {}",
                kelson_services::service_runner::words::exit(exit)
            )));
        }
        kelson_spec::wire::decode(&bytes).map_err(io::Error::other)
    }
}

impl task::Launcher for Personalities {
    fn launch(&self, arguments: Vec<CString>, output: OwnedFd) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let mut arguments = arguments.into_iter().map(CString::into_bytes);
            let name = arguments.next().unwrap_or_else(|| NAME.into());
            let command = Command::from_descriptor(self.binary.try_clone()?, name)
                .args(arguments)
                .stdout(Stdio::Descriptor(output))
                .spared();
            self.processes.spawn(command).await.map_err(|error| io::Error::other(error.to_string()))?;
            Ok(())
        })
    }
}

/// A helper that nobody needs any more.
struct KilledOnDrop(OwnedFd);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        kelson_sys::pidfd::signal(&self.0, libc::SIGKILL);
    }
}

impl HelperSpawner for Personalities {
    fn spawn(&self) -> BoxFuture<'static, io::Result<Helper>> {
        let this = self.clone();
        Box::pin(async move {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            let command = this.command(NAME)?.arg(WATCH_PATHS).descriptor(theirs.into(), 3).spared();
            let child =
                this.processes.spawn(command).await.map_err(|error| io::Error::other(error.to_string()))?;
            Ok(Helper { socket: ours.into(), lease: Box::new(KilledOnDrop(child.pidfd)) })
        })
    }
}
