//! A host whose services are made up: what stands around PID 1's API when it is fed.

#[path = "../../../api/tests/server/played.rs"]
mod made_up;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_api::server::{self, ServerOptions};
use kelson_image::{Unpacker, UnpackerOptions};
use kelson_runner::{
    BoxFuture, ExecControl, ExecRequest, Executing, Executor, Exit, Runner, RunnerError, WindowSize,
};
use kelson_services::admission::Admission;
use kelson_services::host::{
    Applied, BootReport, ConfigurationFiles, History, HostRequest, ReloadReport, ResumedReport,
};
use kelson_services::images::ImageStore;
use kelson_services::inspect::Inspector;
use kelson_services::node_health::{NodeHealth, NodeHealthSpec};
use kelson_services::service_runner::host_context::{RunnerFactory, RunningProcess};
use kelson_services::{Manager, ServicesError};
use kelson_spec::ServiceSpec;
use kelson_spec::service::{Requirement, ServiceEvent};
use made_up::{Nothing, idle};
use tokio::sync::{mpsc, watch};

impl RunnerFactory for Nothing {
    fn runner(&self, _: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        Ok(idle(4242))
    }

    fn executor(&self, _: &Arc<ServiceSpec>, _: RunningProcess) -> Result<Arc<dyn Executor>, ServicesError> {
        Ok(Arc::new(Nothing))
    }
}

impl ExecControl for Nothing {
    fn signal(&self, _: i32) {}

    fn kill(&self) {}

    fn resize(&self, _: WindowSize) {}
}

impl Executor for Nothing {
    /// A command that takes what it is given, says a word and ends.
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        let made = || -> io::Result<Executing> {
            let (output, said) = nix::unistd::pipe()?;
            nix::unistd::write(&said, b"done\n")?;
            let (taken, input) = nix::unistd::pipe()?;
            let exit = Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(taken);
                Exit::Status(0)
            });
            let input = request.input.then_some(input);
            Ok(Executing { pid: 4243, input, output, errors: None, exit, control: Arc::new(Nothing) })
        };
        let made = made().map_err(|error| RunnerError {
            errno: error.raw_os_error(),
            ..RunnerError::new(error.to_string())
        });
        Box::pin(std::future::ready(made))
    }
}

/// Serves on `socket`, until the runtime ends, a host with the services `web`, which needs `db`, and `db`, both up.
pub async fn host(folder: &Path, socket: &Path) {
    let host_context = made_up::host_context(folder, Arc::new(Nothing));
    let options = UnpackerOptions {
        images: Vec::new(),
        containerd_socket: "/containerd.sock".into(),
        runtime_dir: "/run".into(),
        state_dir: "/var".into(),
        verify: Vec::new(),
    };
    let unpacker = Unpacker::new(Arc::new(Nothing), options);
    let images = ImageStore::new(unpacker, None, host_context.events.clone(), host_context.registry.clone());
    let manager = Manager::new(host_context, Arc::new(Nothing));
    let mut db = ServiceSpec::process("db", ["/usr/bin/db"]);
    db.group = Some("shop".to_owned());
    let mut web = ServiceSpec::process("web", ["/usr/bin/web"]);
    web.depends = vec![Requirement::service("db", ServiceEvent::Up)];
    for spec in [web, db] {
        manager.add(Arc::new(spec), false);
    }
    manager.begin();
    let (requests, asked) = mpsc::channel(1);
    tokio::spawn(answer(asked));
    let health = NodeHealthSpec { minimum: Duration::from_secs(1), deadline: Duration::from_secs(300) };
    let options = ServerOptions {
        parts: [server::images(images), server::inspect(Inspector::new(Arc::new(Nothing), None))]
            .into_iter()
            .chain(server::reflection())
            .collect(),
        health: NodeHealth::of(&manager, health),
        admission: Admission::new(manager.clone(), None, u32::MAX, None),
        manager,
        host: made_up::host(requests, watch::channel(BootReport::default()).1),
        audit: server::Audit::default(),
        listeners: mpsc::channel(1).1,
        vsock: None,
    };
    let listener = server::bind(socket, None).expect("a socket of this target");
    tokio::spawn(server::serve_on(listener, options, std::future::pending()));
}

/// Answers what is asked of `init`.
async fn answer(mut asked: mpsc::Receiver<HostRequest>) {
    while let Some(request) = asked.recv().await {
        match request {
            HostRequest::Shutdown { reply, reason, .. } => {
                assert!(reason.chars().count() < 600 && !reason.chars().any(char::is_control), "{reason:?}");
                let _ = reply.send(Ok("reboot has begun".to_owned()));
            }
            HostRequest::Reload { reply } => drop(reply.send(Ok(ReloadReport::default()))),
            HostRequest::Reexec { reply, .. } => {
                drop(reply.send(Err(ServicesError::NotNow("not here".to_owned()))))
            }
            HostRequest::Resumed { resumed, reply } => {
                let name = resumed.hostname.unwrap_or_default();
                assert!(
                    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.'),
                    "{name:?}"
                );
                drop(reply.send(Ok(ResumedReport::default())));
            }
            HostRequest::UnlockDisk { key, reply, .. } => {
                assert!((1..=4096).contains(&key.bytes().len()), "{key:?}");
                drop(reply.send(Ok("it is open".to_owned())));
            }
            HostRequest::RecoveryKey { reply, .. } => drop(reply.send(Ok(String::new()))),
            HostRequest::SetSecret { value, reply, .. } => {
                assert!(value.bytes().len() <= 64 << 10, "{value:?}");
                drop(reply.send(Ok(Vec::new())));
            }
            HostRequest::ListSecrets { reply } => drop(reply.send(Ok(Vec::new()))),
            HostRequest::RemoveSecret { reply, .. } => drop(reply.send(Ok(()))),
            HostRequest::Apply { reply, .. } => drop(reply.send(Ok(Applied::default()))),
            HostRequest::Confirm { reply, .. } => drop(reply.send(Ok(1))),
            HostRequest::Configuration { reply, .. } => drop(reply.send(Ok(ConfigurationFiles::default()))),
            HostRequest::History { reply } => drop(reply.send(Ok(History::default()))),
        }
    }
}
