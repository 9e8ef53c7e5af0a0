//! A host whose services are made up: what stands around PID 1's API when it is fed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_api::server::{self, ServerOptions};
use kelson_conditions::Sources;
use kelson_helper::{Launched, Launcher, Start};
use kelson_image::{Unpacker, UnpackerOptions};
use kelson_runner::{
    BoxFuture, ExecControl, ExecRequest, Executing, Executor, Exit, RunContext, Runner, RunnerError, Running,
    StopPlan, StopReport, WindowSize,
};
use kelson_services::Manager;
use kelson_services::admission::Admission;
use kelson_services::events::EventLog;
use kelson_services::host::{BootReport, Host, HostRequest, ReloadReport};
use kelson_services::images::ImageStore;
use kelson_services::inspect::Inspector;
use kelson_services::manager::{Usage, UsageSource};
use kelson_services::node_health::{NodeHealth, NodeHealthSpec};
use kelson_services::service_runner::gate::Registry;
use kelson_services::service_runner::host_context::{
    HostContext, LogPipes, RunnerFactory, RunningProcess, TURNS,
};
use kelson_spec::ServiceSpec;
use kelson_spec::service::{LogSpec, Requirement, ServiceEvent};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// Runs nothing and ends when it is stopped.
#[derive(Default)]
struct Idle(Option<oneshot::Sender<()>>);

impl Runner for Idle {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn run(&mut self, _: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        let (stop, stopped) = oneshot::channel::<()>();
        self.0 = Some(stop);
        let exit = Box::pin(async move {
            let _ = stopped.await;
            Exit::Status(0)
        });
        Box::pin(std::future::ready(Ok(Running { pid: 4242, start_time: 1, stop_signal: None, exit })))
    }

    fn stop(&mut self, _: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        self.0 = None;
        Box::pin(std::future::ready(Ok(StopReport::default())))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What surrounds the services: nothing.
struct Nothing;

impl RunnerFactory for Nothing {
    fn runner(&self, _: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, String> {
        Ok(Box::new(Idle::default()))
    }

    fn executor(&self, _: &Arc<ServiceSpec>, _: RunningProcess) -> Result<Arc<dyn Executor>, String> {
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

impl LogPipes for Nothing {
    fn pipes(&self, _: &str, _: u64, _: &LogSpec) -> io::Result<(OwnedFd, OwnedFd)> {
        let null = || io::Result::Ok(OwnedFd::from(std::fs::File::options().write(true).open("/dev/null")?));
        Ok((null()?, null()?))
    }

    fn forget(&self, _: &str) {}
}

impl UsageSource for Nothing {
    fn usage(&self, _: &str) -> Usage {
        Usage { memory_bytes: Some(1 << 20), cpu: Some(Duration::from_millis(1500)), processes: Some(2) }
    }
}

impl Launcher for Nothing {
    fn launch(&self, _: Start) -> BoxFuture<'static, io::Result<Launched>> {
        Box::pin(std::future::ready(Err(io::Error::other("there is none here"))))
    }
}

/// Serves on `socket`, until the runtime ends, a host with the services `web`, which needs `db`, and `db`, both up.
pub async fn host(folder: &Path, socket: &Path) {
    let host_context = Arc::new(HostContext {
        events: EventLog::new(None),
        store: None,
        registry: Registry::default(),
        sources: Sources::new(Arc::new(Nothing)),
        runners: Arc::new(Nothing),
        logs: Arc::new(Nothing),
        notify_directory: folder.to_owned(),
        origin: tokio::time::Instant::now(),
        groups: kelson_services::groups::Groups::new().0,
        turns: Arc::new(Semaphore::new(TURNS)),
    });
    let options = UnpackerOptions {
        images: Vec::new(),
        containerd_socket: "/containerd.sock".into(),
        runtime_dir: "/run".into(),
        state_dir: "/var".into(),
    };
    let unpacker = Unpacker::new(Arc::new(Nothing), options);
    let images = ImageStore::new(unpacker, host_context.events.clone(), host_context.registry.clone());
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
        images,
        inspector: Inspector::new(Arc::new(Nothing), None),
        health: NodeHealth::of(&manager, health),
        admission: Admission::new(manager.clone(), None, u32::MAX),
        manager,
        host: Host {
            requests,
            boot: watch::channel(BootReport::default()).1,
            mode: "container",
            started: SystemTime::now(),
            reexecs: 0,
            crashes: 0,
        },
        audit: server::Audit::default(),
        listeners: mpsc::channel(1).1,
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
                let _ = reply.send("reboot has begun".to_owned());
            }
            HostRequest::Reload { reply } => drop(reply.send(Ok(ReloadReport::default()))),
            HostRequest::Reexec { reply, .. } => drop(reply.send(Err("not here".to_owned()))),
        }
    }
}
