//! kelson-apid as a process of its own, between real clients and services that stand in for PID 1 and kelson-logd.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // a test may fail
#![allow(clippy::arithmetic_side_effects)]

#[path = "process/attacks.rs"]
mod attacks;
#[path = "process/metrics.rs"]
mod metrics;
#[path = "process/processes.rs"]
mod processes;
#[path = "process/roles.rs"]
mod roles;
#[path = "process/term.rs"]
mod term;
#[path = "process/world.rs"]
mod world;

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kelson_api::client::{Client, Endpoint, Failure, Remote, TlsMaterial, look_up};
use kelson_proto::v1;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use tonic::{Code, Request};
use world::{Echo, Pki};

const VALID: std::ops::Range<i32> = 2020..2100;

/// The process that the tests start: this test binary, told to be kelson-apid.
#[test]
#[ignore = "is apid of the other tests"]
fn apid_process() {
    let arguments = std::env::var("DOOR_ARGUMENTS").unwrap();
    std::process::exit(kelson_apid::main(arguments.split('\n').map(Into::into)));
}

struct Apid {
    process: Child,
    port: u16,
    log: BufReader<ChildStderr>,
    pki: Pki,
    folder: tempfile::TempDir,
}

fn spawn(arguments: &[&str], notify: Option<&Path>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["apid_process", "--exact", "--ignored", "--nocapture"]);
    // The test runner has threads before apid can block its signals in them: they inherit that.
    let block = || Ok(SigSet::from(Signal::SIGTERM).thread_block()?);
    // SAFETY: all that runs between fork and exec is sigprocmask, which may be called there.
    unsafe { command.pre_exec(block) };
    command.env("DOOR_ARGUMENTS", arguments.join("\n")).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some(notify) = notify {
        command.env("NOTIFY_SOCKET", notify);
    }
    command.spawn().unwrap()
}

impl Apid {
    fn open() -> Apid {
        Apid::open_with(&[])
    }

    /// With something that stands in for PID 1.
    fn served() -> Apid {
        let apid = Apid::open();
        world::serve(&apid.socket("init.sock"), Echo::new("init").machine());
        apid
    }

    fn open_with(more: &[&str]) -> Apid {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::new();
        let (certificate, key) = pki.issue("edge-1", None, &["127.0.0.1"], VALID);
        for (name, text) in [("ca.pem", pki.ca()), ("certificate.pem", certificate), ("key.pem", key)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let path = |name: &str| folder.path().join(name).display().to_string();
        let notify = folder.path().join("notify");
        let notified = UnixDatagram::bind(&notify).unwrap();
        let (ca, certificate, key) = (path("ca.pem"), path("certificate.pem"), path("key.pem"));
        let runtime = path("");
        let mut arguments = vec!["--listen", "127.0.0.1:0", "--runtime-dir", &runtime];
        arguments.extend(["--ca", &ca, "--certificate", &certificate, "--key", &key]);
        arguments.extend(more);
        let mut process = spawn(&arguments, Some(&notify));
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("listening on 127.0.0.1:").expect(&line).parse().unwrap();
        let mut ready = [0; 16];
        let length = notified.recv(&mut ready).unwrap();
        assert_eq!(&ready[..length], b"READY=1");
        Apid { process, port, log, pki, folder }
    }

    fn socket(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn client(&self, material: &TlsMaterial) -> Client {
        let endpoint: Endpoint = format!("127.0.0.1:{}", self.port).parse().unwrap();
        Client::connect(&endpoint, Some(Remote { material, look_up })).unwrap()
    }

    fn ann(&self) -> Client {
        self.client(&self.pki.client("ann", VALID))
    }

    /// The next line of its log that holds `word`.
    fn logged(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "its log ended without {word:?}");
            if line.contains(word) {
                return line;
            }
        }
    }

    fn terminate(&self) {
        kill(self.key_holder(), Signal::SIGTERM).unwrap();
    }

    fn key_holder(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).unwrap())
    }

    /// The process that strangers reach.
    fn worker(&self) -> Pid {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let children =
            |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap();
        let all: String = tasks.map(|task| children(task.unwrap())).collect();
        Pid::from_raw(all.trim().parse().expect(&all))
    }

    /// The exit status of the whole.
    async fn ended(mut self) -> Option<i32> {
        tokio::task::spawn_blocking(move || self.process.wait().unwrap().code()).await.unwrap()
    }
}

impl Drop for Apid {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn version(client: &Client) -> Result<v1::VersionResponse, Failure> {
    let mut machine = client.machine();
    let answer = machine.version(v1::VersionRequest {});
    let answer = tokio::time::timeout(Duration::from_secs(20), answer).await.expect("no answer");
    Ok(answer?.into_inner())
}

#[tokio::test]
async fn each_call_bears_the_identity_of_the_certificate_and_no_other() {
    let mut apid = Apid::served();
    world::serve(&apid.socket("log.sock"), Echo::new("logd").logs());
    let ann = apid.ann();
    let mut forged = Request::new(v1::VersionRequest {});
    forged.metadata_mut().append("kelson-identity", "CN=root".parse().unwrap());
    forged.metadata_mut().append("kelson-identity", "CN=other".parse().unwrap());
    let answer = ann.machine().version(forged).await.unwrap();
    assert_eq!(answer.metadata().get("x-echo").unwrap(), "kept");
    let answer = answer.into_inner();
    assert_eq!(answer.version, "init");
    assert!(answer.hostname.starts_with("CN=ann sha256:"), "{}", answer.hostname);
    assert!(!answer.hostname.contains(" and "), "{}", answer.hostname);
    assert!(apid.logged("has connected").contains(&answer.hostname));
    let request = v1::ReadRequest { names: vec!["web".into()], ..Default::default() };
    let mut lines = ann.logs().read(request).await.unwrap().into_inner();
    let line = lines.message().await.unwrap().unwrap().lines.remove(0);
    assert_eq!(line.service, "logd");
    assert_eq!(String::from_utf8(line.text).unwrap(), answer.hostname);
    assert_eq!(lines.message().await.unwrap(), None);
}

#[tokio::test]
async fn strangers_are_refused() {
    let mut apid = Apid::served();
    let mut other = Pki::new().client("eve", VALID);
    other.ca = apid.pki.ca().into();
    for (material, why) in [(other, "CA"), (apid.pki.client("old", 2001..2002), "expired")] {
        let refused = version(&apid.client(&material)).await.unwrap_err();
        assert!(matches!(&refused, Failure::Denied(said) if said.contains(why)), "{why}: {refused:?}");
        apid.logged("refused");
    }
    // The machine is another one than the context's.
    let mut elsewhere = apid.pki.client("ann", VALID);
    elsewhere.ca = Pki::new().ca().into();
    let refused = version(&apid.client(&elsewhere)).await.unwrap_err();
    assert!(matches!(&refused, Failure::NotReachable(said) if said.contains("not signed")), "{refused:?}");
    assert_eq!(version(&apid.ann()).await.unwrap().version, "init", "a friend is let in all the same");
}

#[tokio::test]
async fn no_certificate_no_entry() {
    use tokio::io::AsyncReadExt as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

    let mut apid = Apid::open();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(apid.pki.ca().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", apid.port)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let error = stream.read(&mut [0; 1]).await.unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
    assert!(apid.logged("refused").contains("certificate"));
}

#[tokio::test]
async fn errors_and_large_requests_go_through_unchanged() {
    let apid = Apid::served();
    let mut machine = apid.ann().machine();
    let error = machine.shutdown(v1::ShutdownRequest::default()).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::FailedPrecondition, "a reason, grüß: 100 %"));
    let reason = "r".repeat(1_000_000);
    let answer = machine.shutdown(v1::ShutdownRequest { reason, ..Default::default() }).await.unwrap();
    assert_eq!(answer.into_inner().message, "1000000");
    let mut messages = machine.dmesg(v1::DmesgRequest { follow: false }).await.unwrap().into_inner();
    for seq in [1, 2] {
        assert_eq!(messages.message().await.unwrap().unwrap().messages[0].seq, seq);
    }
    assert_eq!(messages.message().await.unwrap(), None);
}

#[tokio::test]
async fn a_stream_is_as_fast_as_its_reader_and_ends_with_it() {
    let apid = Apid::open();
    let echo = Echo::new("init");
    world::serve(&apid.socket("init.sock"), echo.machine());
    let client = apid.ann();
    let mut messages = client.machine().dmesg(v1::DmesgRequest { follow: true }).await.unwrap().into_inner();
    for seq in 0..1000 {
        assert_eq!(messages.message().await.unwrap().unwrap().messages[0].seq, seq);
    }
    // On this connection other calls go on while the stream is not read.
    for _ in 0..20 {
        assert_eq!(version(&client).await.unwrap().version, "init");
    }
    // 8 KiB each: what fits into windows and sockets on the way, and not a thousand times it.
    let ahead = *echo.produced.lock().unwrap() - 1000;
    assert!(ahead < 1000, "{ahead} messages were made that nobody has read");
    echo.opened(1).await;
    drop(messages);
    echo.opened(0).await;
    // A call that has no answer yet is ended as well.
    let mut machine = client.machine();
    let boot = tokio::spawn(async move { machine.boot(v1::BootRequest {}).await });
    echo.opened(1).await;
    boot.abort();
    echo.opened(0).await;
}

#[tokio::test]
async fn what_is_not_there_is_unavailable_until_it_is() {
    let apid = Apid::open();
    let ann = apid.ann();
    let error = version(&ann).await.unwrap_err();
    assert!(matches!(&error, Failure::Lost(said) if said.contains("init.sock")), "{error:?}");
    let error = ann.logs().read(v1::ReadRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("kelson-logd"), "{error:?}");
    world::serve(&apid.socket("init.sock"), Echo::new("init").machine());
    assert_eq!(version(&ann).await.unwrap().version, "init");
}

#[tokio::test]
async fn s6_when_it_is_stopped_streams_end_with_a_word_and_it_with_0() {
    let apid = Apid::open();
    world::serve(&apid.socket("log.sock"), Echo::new("logd").logs());
    let request = v1::ReadRequest { names: vec!["web".into()], follow: true, ..Default::default() };
    let mut lines = apid.ann().logs().read(request).await.unwrap().into_inner();
    assert!(lines.message().await.unwrap().is_some());
    apid.terminate();
    let end = lines.message().await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::Unavailable, "kelson-apid is being stopped"));
    drop(lines);
    assert_eq!(apid.ended().await, Some(0));
}

#[test]
fn wrong_arguments_end_with_2_and_wrong_files_with_1() {
    for (arguments, status, said) in [
        (&["--listen", "edge:50000"][..], 2, "is not an address"),
        (
            &["--listen", "127.0.0.1:0", "--ca", "/no", "--certificate", "/no", "--key", "/no"],
            1,
            "cannot read the CA /no",
        ),
    ] {
        let output = spawn(arguments, None).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(log.contains(said), "{log}");
    }
}

fn exec_request(request: v1::run_request::Request) -> v1::RunRequest {
    v1::RunRequest { request: Some(request) }
}

fn exec_start(command: &str) -> v1::RunRequest {
    exec_request(v1::run_request::Request::Start(v1::RunStart {
        command: vec![command.into()],
        ..v1::RunStart::default()
    }))
}

#[tokio::test]
async fn a_stream_both_ways_goes_through() {
    use v1::run_response::Response as Told;
    let apid = Apid::open();
    let echo = Echo::new("init");
    world::serve(&apid.socket("init.sock"), echo.exec());
    let (requests, stream) = tokio::sync::mpsc::channel(1);
    requests.send(exec_start("echo")).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    let mut responses = apid.ann().exec().run(stream).await.unwrap().into_inner();
    for number in 0..200u8 {
        let bytes = vec![number; 10_000];
        requests.send(exec_request(v1::run_request::Request::Input(bytes.clone()))).await.unwrap();
        let told = responses.message().await.unwrap().unwrap().response.unwrap();
        assert_eq!(told, Told::Output(bytes));
    }
    drop(requests);
    let told = responses.message().await.unwrap().unwrap().response.unwrap();
    assert_eq!(told, Told::Exited(v1::RunExited { status: Some(7), signal: None }));
    echo.opened(0).await;
}

/// While PID 1 does not take what the client has sent, nothing of the call moves: its end is seen all the same.
#[tokio::test]
async fn a_client_that_goes_away_is_missed_though_nobody_reads_it() {
    let apid = Apid::open();
    let echo = Echo::new("init");
    world::serve(&apid.socket("init.sock"), echo.exec());
    let (material, port) = (apid.pki.client("ann", VALID), apid.port);
    let client = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint: Endpoint = format!("127.0.0.1:{port}").parse().unwrap();
            let client = Client::connect(&endpoint, Some(Remote { material: &material, look_up })).unwrap();
            let (requests, stream) = tokio::sync::mpsc::channel(1);
            requests.send(exec_start("stop")).await.unwrap();
            let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
            let _responses = client.exec().run(stream).await.unwrap();
            let piece = || exec_request(v1::run_request::Request::Input(vec![0; 10_000]));
            let patience = Duration::from_millis(300);
            while tokio::time::timeout(patience, requests.send(piece())).await.is_ok() {}
        });
    });
    echo.opened(1).await;
    tokio::task::spawn_blocking(|| client.join().unwrap()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), echo.opened(0)).await.expect("it is missed");
}
