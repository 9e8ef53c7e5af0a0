//! The server of PID 1 on a socket, over a real Manager whose services are made up, through the real client.
#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // a test may fail
#![allow(clippy::arithmetic_side_effects)]

#[path = "server/exec.rs"]
mod exec;
#[path = "server/fleet.rs"]
mod fleet;
#[path = "server/health.rs"]
mod health;
#[path = "server/images.rs"]
mod images;
#[path = "server/inspect.rs"]
mod inspect;
#[path = "server/metrics.rs"]
mod metrics;
#[path = "server/played.rs"]
mod played;

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_api::client::{Client, Endpoint, Failure};
use kelson_api::server::{self, ServerOptions};
use kelson_proto::v1;
use kelson_runner::{Executor, Runner};
use kelson_services::fleet::Fleet;
use kelson_services::host::{BootReport, Host, HostRequest, ShutdownAction};
use kelson_services::images::ImageStore;
use kelson_services::node_health::{NodeHealth, NodeHealthSpec};
use kelson_services::service_runner::host_context::{RunnerFactory, RunningProcess};
use kelson_services::spec::service::{Requirement, ServiceEvent};
use kelson_services::spec::{Feature, MissingFeature, ServiceSpec};
use kelson_services::{Manager, ServicesError};
use played::{Nothing, idle};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// The user of kelson-apid on this host, and one that nobody knows.
const APID: u32 = 64_001;
const STRANGER: u32 = 64_002;

const HEALTH: NodeHealthSpec =
    NodeHealthSpec { minimum: Duration::from_millis(300), deadline: Duration::from_secs(300) };

struct Runners;

impl RunnerFactory for Runners {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        // Here the clients are this process: a child of the service's.
        let pid = if spec.name == "apid" { std::os::unix::process::parent_id().cast_signed() } else { 4242 };
        Ok(idle(pid))
    }

    fn executor(&self, _: &Arc<ServiceSpec>, _: RunningProcess) -> Result<Arc<dyn Executor>, ServicesError> {
        Ok(Arc::new(exec::Children))
    }
}

/// A host with the services web, which needs db, and db.
struct World {
    manager: Manager,
    requests: mpsc::Receiver<HostRequest>,
    boot: watch::Sender<BootReport>,
    shutdown: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), kelson_api::ApiError>>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> World {
        World::with(|images| {
            let own = [server::images(images), server::inspect(inspect::inspector())];
            own.into_iter().chain(server::reflection()).collect()
        })
        .await
    }

    async fn with(parts: impl FnOnce(ImageStore) -> Vec<server::Part>) -> World {
        let folder = tempfile::tempdir().unwrap();
        let host_context = played::host_context(folder.path(), Arc::new(Runners));
        let images = images::store(host_context.events.clone(), host_context.registry.clone());
        let fleet = Fleet::none(host_context.registry.clone());
        let manager = Manager::new(host_context, Arc::new(Nothing));
        let mut db = ServiceSpec::process("db", ["/usr/bin/db", "--fast"]);
        db.description = "keeps things".into();
        let mut web = ServiceSpec::process("web", ["/usr/bin/web"]);
        web.depends = vec![Requirement::service("db", ServiceEvent::Up)];
        for spec in [web, db] {
            manager.add(Arc::new(spec), false);
        }
        let (sender, requests) = mpsc::channel(1);
        let (boot, report) = watch::channel(BootReport::default());
        let (shutdown, asked) = oneshot::channel();
        let socket = folder.path().join("init.sock");
        // Left by an earlier incarnation.
        std::fs::write(&socket, "").unwrap();
        let host = Host { fleet: Some(fleet.clone()), ..played::host(sender, report) };
        let options = ServerOptions {
            manager: manager.clone(),
            parts: parts(images)
                .into_iter()
                .chain([server::secrets(host.clone()), server::fleet(fleet)])
                .collect(),
            health: NodeHealth::of(&manager, HEALTH),
            host,
            admission: kelson_services::admission::Admission::new(manager.clone(), None, APID, None),
            audit: server::Audit::default(),
            listeners: mpsc::channel(1).1,
            vsock: None,
        };
        let listener = server::bind(&socket, None).unwrap();
        let serving = tokio::spawn(server::serve_on(listener, options, async {
            let _ = asked.await;
        }));
        World { manager, requests, boot, shutdown: Some(shutdown), serving, socket, _folder: folder }
    }

    fn client(&self) -> Client {
        Client::connect(&Endpoint::Unix(self.socket.clone()), None).unwrap()
    }

    /// Ends the server; it must be gone within two seconds, with any clients connected.
    async fn end(mut self) {
        drop(self.shutdown.take());
        tokio::time::timeout(Duration::from_secs(2), &mut self.serving)
            .await
            .expect("held up")
            .unwrap()
            .unwrap();
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[tokio::test]
async fn a_service_is_started_waited_for_shown_and_stopped() {
    let world = World::new().await;
    let mode = std::fs::metadata(&world.socket).unwrap();
    assert!(mode.file_type().is_socket());
    assert_eq!(mode.permissions().mode() & 0o777, 0o660);
    let mut services = world.client().services();
    let start = v1::StartRequest { names: names(&["db", "web"]), wait: true, with_dependencies: false };
    let results = services.start(start).await.unwrap().into_inner().results;
    assert!(results.iter().all(|result| result.outcome() == v1::action_result::Outcome::Done), "{results:?}");
    let listed = services.list(v1::ListRequest::default()).await.unwrap().into_inner().services;
    let told: Vec<_> =
        listed.iter().map(|s| (s.name.as_str(), s.up, s.pid, s.description.as_str())).collect();
    assert_eq!(told, [("db", true, Some(4242), "keeps things"), ("web", true, Some(4242), "")]);
    let status = services.status(v1::StatusRequest { name: "db".into() }).await.unwrap().into_inner();
    assert!(status.spec.contains("/usr/bin/db"), "{}", status.spec);
    assert_eq!((status.memory_bytes, status.processes), (Some(1 << 20), Some(2)));
    assert_eq!(status.cpu, Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }));
    assert_eq!(status.needed_by, ["web"]);
    assert!(status.events.iter().all(|event| event.service == "db") && !status.events.is_empty());
    let stop = v1::StopRequest { names: names(&["db"]), ..Default::default() };
    let refused = services.stop(stop).await.unwrap().into_inner().results.remove(0);
    assert_eq!(refused.outcome(), v1::action_result::Outcome::Refused);
    assert!(refused.message.contains("web"), "{}", refused.message);
    let stop = v1::StopRequest { names: names(&["db"]), cascade: true, wait: true, ..Default::default() };
    services.stop(stop).await.unwrap();
    let event = v1::wait_request::For::Down.into();
    let wait = v1::WaitRequest { names: names(&["db", "web"]), event, timeout: None };
    let waited = services.wait(wait).await.unwrap().into_inner();
    assert!(waited.reached && waited.services.iter().all(|service| service.stopped), "{waited:?}");
    let graph = services.graph(v1::GraphRequest {}).await.unwrap().into_inner();
    assert_eq!(
        graph.edges.iter().map(|e| (e.from.as_str(), e.to.as_str())).collect::<Vec<_>>(),
        [("web", "db")]
    );
    world.end().await;
}

#[tokio::test]
async fn a_wait_ends_with_its_timeout_or_its_callers() {
    let world = World::new().await;
    let mut services = world.client().services();
    let wait = |timeout| v1::WaitRequest {
        names: names(&["web"]),
        event: v1::wait_request::For::Up.into(),
        timeout,
    };
    let timeout = prost_types::Duration { seconds: 0, nanos: 50_000_000 };
    let waited = services.wait(wait(Some(timeout))).await.unwrap().into_inner();
    assert!(!waited.reached);
    assert_eq!(waited.services[0].name, "web");
    let mut request = tonic::Request::new(wait(None));
    request.set_timeout(Duration::from_millis(50));
    let failure = Failure::from(services.wait(request).await.unwrap_err());
    assert_eq!(failure.exit_status(), 5, "{failure:?}");
    let negative = prost_types::Duration { seconds: -1, nanos: 0 };
    assert_eq!(services.wait(wait(Some(negative))).await.unwrap_err().code(), Code::InvalidArgument);
    let unspecified = v1::WaitRequest { names: names(&["web"]), ..Default::default() };
    assert_eq!(services.wait(unspecified).await.unwrap_err().code(), Code::InvalidArgument);
    world.end().await;
}

#[tokio::test]
async fn an_unknown_name_is_not_found_and_nothing_is_begun() {
    let world = World::new().await;
    let mut services = world.client().services();
    let start = v1::StartRequest { names: names(&["db", "wed"]), wait: true, with_dependencies: false };
    let error = services.start(start).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.message().contains("did you mean \"web\""), "{error}");
    assert!(!world.manager.get("db").unwrap().up);
    let events = v1::EventsRequest { names: names(&["wed"]), ..Default::default() };
    assert_eq!(services.events(events).await.unwrap_err().code(), Code::NotFound);
    let why = v1::WhyRequest { name: "wed".into() };
    assert_eq!(services.why(why).await.unwrap_err().code(), Code::NotFound);
    let nobody = services.stop(v1::StopRequest::default()).await.unwrap_err();
    assert_eq!(nobody.code(), Code::InvalidArgument);
    world.end().await;
}

#[tokio::test]
async fn s6_followers_get_the_last_event_and_the_end() {
    let world = World::new().await;
    let mut services = world.client().services();
    world.manager.host_event("one");
    let follow = v1::EventsRequest { follow: true, ..Default::default() };
    let mut stream = services.events(follow).await.unwrap().into_inner();
    let mut heard = Vec::new();
    while heard.last().is_none_or(|last| last != "one") {
        heard.extend(stream.message().await.unwrap().unwrap().events.into_iter().map(|event| event.message));
    }
    world.manager.host_event("two");
    world.manager.host_event("three");
    world.manager.close().await;
    let mut rest = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        rest.extend(message.events.into_iter().map(|event| event.message));
    }
    assert_eq!(rest, ["two", "three"]);
    world.end().await;
}

#[tokio::test]
async fn s6_no_client_holds_the_shutdown_up() {
    let world = World::new().await;
    let client = world.client();
    let mut services = client.services();
    // One that waits, one that follows, and one that has never read what fills its window.
    let waiting = {
        let mut services = client.services();
        let event = v1::wait_request::For::Up.into();
        let wait = v1::WaitRequest { names: names(&["web"]), event, timeout: None };
        tokio::spawn(async move { services.wait(wait).await })
    };
    let follow = v1::EventsRequest { follow: true, ..Default::default() };
    let mut stream = services.events(follow.clone()).await.unwrap().into_inner();
    let _unread = world.client().services().events(follow).await.unwrap().into_inner();
    for _ in 0..4000 {
        world.manager.host_event(&"x".repeat(200));
    }
    while stream.message().await.unwrap().unwrap().events.last().unwrap().seq < 4000 {}
    let end = tokio::spawn(async move { while let Ok(Some(_)) = stream.message().await {} });
    world.end().await;
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::Unavailable);
    end.await.unwrap();
}

#[tokio::test]
async fn the_host_is_asked_for_what_is_its_own() {
    let mut world = World::new().await;
    let mut machine = world.client().machine();
    let version = machine.version(v1::VersionRequest {}).await.unwrap().into_inner();
    assert_eq!((version.mode.as_str(), version.version.as_str()), ("container", env!("CARGO_PKG_VERSION")));
    let action = v1::shutdown_request::Action::Poweroff.into();
    let asking = tokio::spawn(async move {
        machine.shutdown(v1::ShutdownRequest { action, reason: "ni\u{1b}ght".into() }).await
    });
    let Some(HostRequest::Shutdown { action, reason, reply }) = world.requests.recv().await else {
        panic!("no request");
    };
    assert_eq!(action, ShutdownAction::PowerOff);
    let uid = nix::unistd::geteuid();
    assert_eq!(reason, format!("user {uid} (process {}): night", std::process::id()));
    reply.send(Ok("powering off".to_owned())).unwrap();
    assert_eq!(asking.await.unwrap().unwrap().into_inner().message, "powering off");
    world.end().await;
}

#[tokio::test]
async fn a_resume_needs_entropy_and_a_name_that_is_one() {
    let mut world = World::with(|_| Vec::new()).await;
    let mut machine = world.client().machine();
    let request = |length: usize, hostname: &str| v1::ResumedRequest {
        entropy: vec![7; length],
        hostname: hostname.to_owned(),
        timeout: Some(prost_types::Duration { seconds: 100_000, nanos: 0 }),
    };
    for (length, hostname, text) in [
        (31, "", "send 32 to 512 bytes of entropy, drawn outside the machine, and not 31"),
        (513, "", "and not 513"),
        (32, "-a", "the host name is not one"),
        (32, "a\u{1b}b", "the host name is not one"),
    ] {
        let refused = machine.resumed(request(length, hostname)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains(text), "{refused:?}");
    }
    let before = tokio::time::Instant::now();
    let asking = tokio::spawn(async move { machine.resumed(request(32, "worker-7")).await });
    let Some(HostRequest::Resumed { resumed, reply }) = world.requests.recv().await else {
        panic!("no request");
    };
    assert_eq!((resumed.entropy, resumed.hostname.as_deref()), (vec![7; 32], Some("worker-7")));
    let time = resumed.deadline - before;
    assert!((600..620).contains(&time.as_secs()), "{time:?}");
    reply.send(Err(ServicesError::NotNow("it is stopping".to_owned()))).unwrap();
    assert_eq!(asking.await.unwrap().unwrap_err().code(), Code::FailedPrecondition);
    world.end().await;
}

#[tokio::test]
async fn a_disk_is_unlocked_by_a_key_that_nothing_shows() {
    let mut world = World::with(|_| Vec::new()).await;
    let mut machine = world.client().machine();
    let request = |length: usize| v1::UnlockDiskRequest { name: "data".to_owned(), key: vec![b'k'; length] };
    for length in [0, 4097] {
        let refused = machine.unlock_disk(request(length)).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::InvalidArgument, "send a key of 1 to 4096 bytes")
        );
    }
    let asking = tokio::spawn(async move { machine.unlock_disk(request(4096)).await });
    let asked = world.requests.recv().await.unwrap();
    assert!(!format!("{asked:?}").contains("kk") && !format!("{asked:?}").contains("107, 107"), "{asked:?}");
    let HostRequest::UnlockDisk { name, key, reply, .. } = asked else { panic!("{asked:?}") };
    assert_eq!((name.as_str(), key.bytes()), ("data", &[b'k'; 4096][..]));
    reply.send(Err(ServicesError::Unknown("there is no such disk".to_owned()))).unwrap();
    assert_eq!(asking.await.unwrap().unwrap_err().code(), Code::NotFound);
    world.end().await;
}

#[tokio::test]
async fn a_secret_goes_in_and_is_not_shown() {
    let mut world = World::new().await;
    let mut secrets = world.client().secrets();
    let request = |length: usize| v1::SetSecretRequest { name: "db".to_owned(), value: vec![b'k'; length] };
    let refused = secrets.set(request((64 << 10) + 1)).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::InvalidArgument, "a secret has at most 65536 bytes")
    );
    let asking = tokio::spawn(async move { secrets.set(request(64 << 10)).await });
    let asked = world.requests.recv().await.unwrap();
    assert!(!format!("{asked:?}").contains("kk") && !format!("{asked:?}").contains("107, 107"), "{asked:?}");
    let HostRequest::SetSecret { name, value, reply, .. } = asked else { panic!("{asked:?}") };
    assert_eq!((name.as_str(), value.bytes()), ("db", &[b'k'; 64 << 10][..]));
    reply.send(Ok(vec!["web".to_owned()])).unwrap();
    assert_eq!(asking.await.unwrap().unwrap().into_inner().outdated, ["web"]);
    world.end().await;
}

#[tokio::test]
async fn a_call_that_needs_a_missing_feature_is_refused_by_name() {
    let world = World::with(|_| Vec::new()).await;
    let client = world.client();
    let refused = client.images().prune(v1::PruneImagesRequest::default()).await.unwrap_err();
    let text = format!("Images.Prune: {}", MissingFeature(Feature::Containerd));
    assert_eq!((refused.code(), refused.message()), (Code::Unimplemented, text.as_str()));
    let refused = client.inspect().processes(v1::ProcessesRequest::default()).await.unwrap_err();
    let text = format!("Inspect.Processes: {}", MissingFeature(Feature::Inspect));
    assert_eq!((refused.code(), refused.message()), (Code::Unimplemented, text.as_str()));
    client.machine().version(v1::VersionRequest {}).await.unwrap();
    world.end().await;
}

/// A channel to the socket for other services than Kelson's.
async fn channel(world: &World) -> tonic::transport::Channel {
    let uri = format!("unix://{}", world.socket.display());
    tonic::transport::Endpoint::from_shared(uri).unwrap().connect().await.unwrap()
}

#[tokio::test]
async fn reflection_lists_the_services_in_both_versions() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    use tonic_reflection::pb::{v1 as newer, v1alpha as older};

    let world = World::new().await;
    let ask = newer::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(channel(&world).await);
    let mut stream = client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) =
        stream.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list");
    };
    let found: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in [
        "kelson.v1.Services",
        "kelson.v1.Machine",
        "kelson.v1.Exec",
        "kelson.v1.Health",
        "kelson.v1.Logs",
        "grpc.health.v1.Health",
    ] {
        assert!(found.contains(&name), "{found:?}");
    }
    let ask = older::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(older::server_reflection_request::MessageRequest::FileContainingSymbol(
            "kelson.v1.Services".into(),
        )),
    };
    let mut client = older::server_reflection_client::ServerReflectionClient::new(channel(&world).await);
    let mut stream = client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap().into_inner();
    let answer = stream.message().await.unwrap().unwrap().message_response.unwrap();
    assert!(matches!(
        answer,
        older::server_reflection_response::MessageResponse::FileDescriptorResponse(file)
            if !file.file_descriptor_proto.is_empty()
    ));
    world.end().await;
}

#[tokio::test]
async fn who_asks_for_nothing_makes_room_for_who_does() {
    let world = World::new().await;
    // Some never say a word, some have had their answer and stay.
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(tokio::net::UnixStream::connect(&world.socket).await.unwrap());
        let client = world.client();
        client.machine().version(v1::VersionRequest {}).await.unwrap();
    }
    // It waits for a long time, and is not idle.
    let request = v1::EventsRequest { follow: true, ..Default::default() };
    let mut events = world.client().services().events(request).await.unwrap().into_inner();
    for _ in 0..200 {
        silent.push(tokio::net::UnixStream::connect(&world.socket).await.unwrap());
    }
    world.client().machine().version(v1::VersionRequest {}).await.unwrap();
    world.manager.host_event("still heard");
    loop {
        let batch = events.message().await.unwrap().expect("the stream goes on");
        if batch.events.iter().any(|event| event.message == "still heard") {
            break;
        }
    }
    world.end().await;
}

#[tokio::test]
async fn with_sixty_four_streams_questions_are_still_answered() {
    let world = World::new().await;
    let mut streams = Vec::new();
    for _ in 0..64 {
        let client = world.client();
        let request = v1::EventsRequest { follow: true, ..Default::default() };
        let stream = client.services().events(request).await.unwrap().into_inner();
        streams.push((client, stream));
    }
    let late = world.client();
    late.machine().version(v1::VersionRequest {}).await.unwrap();
    let request = || v1::EventsRequest { follow: true, ..Default::default() };
    let error = late.services().events(request()).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(error.message().contains("64 clients"), "{error}");
    drop(streams.pop());
    // Once the server has seen that one is gone.
    while world.client().services().events(request()).await.is_err() {
        tokio::task::yield_now().await;
    }
    world.end().await;
}

/// Calls as another user, with these metadata.
async fn caller_as(
    world: &World,
    uid: u32,
    metadata: &[(&'static str, &'static str)],
) -> Result<v1::CallerResponse, tonic::Status> {
    let (socket, metadata) = (world.socket.clone(), metadata.to_vec());
    let calling = std::thread::spawn(move || {
        // SAFETY: the bare call changes this thread alone, which ends with the call.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, -1, uid, -1) };
        assert_eq!(changed, 0, "{}", io::Error::last_os_error());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let mut machine = Client::connect(&Endpoint::Unix(socket), None).unwrap().machine();
            let mut request = tonic::Request::new(v1::CallerRequest {});
            for (name, value) in metadata {
                request.metadata_mut().insert(name, value.parse().unwrap());
            }
            machine.caller(request).await.map(tonic::Response::into_inner)
        })
    });
    tokio::task::spawn_blocking(move || calling.join().unwrap()).await.unwrap()
}

#[tokio::test]
async fn only_root_and_apid_on_behalf_of_somebody_are_served() {
    assert!(nix::unistd::geteuid().is_root(), "this calls as other users: run it as root");
    let world = World::new().await;
    let folder = world.socket.parent().unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let closed = Failure::from(caller_as(&world, STRANGER, &[]).await.unwrap_err());
    assert!(matches!(&closed, Failure::Denied(said) if said.contains("root")), "{closed:?}");
    // Also where the group lets it in.
    std::fs::set_permissions(&world.socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    const ANN: (&str, &str) = ("kelson-identity", "CN=ann sha256:00");
    for metadata in [&[][..], &[ANN], &[ANN, ("kelson-role", "os:admin")]] {
        let denied = caller_as(&world, STRANGER, metadata).await.unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied);
        assert!(denied.message().contains("call as root"), "{denied}");
    }
    // The user alone is not enough: a service may have it.
    let denied = caller_as(&world, APID, &[ANN, ("kelson-role", "os:admin")]).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert!(denied.message().contains("call as root"), "{denied}");
    let root = caller_as(&world, 0, &[]).await.unwrap();
    assert!(root.identity.starts_with("user 0 (process ") && root.role == "local", "{root:?}");
    world.manager.add(Arc::new(ServiceSpec::process("apid", ["/init"])), true);
    let start = v1::StartRequest { names: names(&["apid"]), wait: true, with_dependencies: false };
    world.client().services().start(start).await.unwrap();
    let denied = caller_as(&world, APID, &[]).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert!(denied.message().contains("on whose behalf"), "{denied}");
    // PID 1 asks for the role as well.
    let denied = caller_as(&world, APID, &[ANN]).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert!(denied.message().contains("has no role"), "{denied}");
    let ann = caller_as(&world, APID, &[ANN, ("kelson-role", "os:reader")]).await.unwrap();
    assert_eq!((ann.identity.as_str(), ann.role.as_str()), (ANN.1, "os:reader"));
    world.end().await;
}

#[tokio::test]
async fn the_kernel_log_or_why_there_is_none() {
    let world = World::new().await;
    let stream = world.client().machine().dmesg(v1::DmesgRequest { follow: false }).await;
    match std::fs::File::open("/dev/kmsg") {
        Ok(_) => {
            let first = stream.unwrap().into_inner().message().await.unwrap();
            assert!(first.is_none_or(|first| !first.messages.is_empty()));
        }
        Err(_) => {
            let error = stream.unwrap_err();
            assert_eq!(error.code(), Code::FailedPrecondition);
            assert!(error.message().contains("/dev/kmsg"), "{error}");
        }
    }
    world.end().await;
}
