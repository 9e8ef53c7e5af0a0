//! Commands beside a service, over the socket: bytes both ways, signals, ends.

use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use kelson_api::client::{Client, Endpoint};
use kelson_proto::v1;
use kelson_proto::v1::run_request::Request as Asked;
use kelson_proto::v1::run_response::Response as Told;
use kelson_runner::{
    BoxFuture, ExecControl, ExecRequest, Executing, Executor, Exit, RunnerError, WindowSize,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::World;

/// Runs commands as children of the test.
pub struct Children;

struct Control {
    pid: i32,
    /// Bits: rows, columns.
    size: AtomicI32,
}

impl ExecControl for Control {
    fn signal(&self, signal: i32) {
        // SAFETY: a child of this test, or nobody any more.
        unsafe { libc::kill(self.pid, signal) };
    }

    fn kill(&self) {
        // SAFETY: as above; it leads a group of its own.
        unsafe { libc::killpg(self.pid, libc::SIGKILL) };
    }

    fn resize(&self, size: WindowSize) {
        self.size.store(i32::from(size.rows) << 16 | i32::from(size.columns), Ordering::SeqCst);
        self.signal(libc::SIGWINCH);
    }
}

impl Executor for Children {
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        Box::pin(async move {
            let mut command = Command::new(&request.command[0]);
            command.args(&request.command[1..]).envs(request.environment).process_group(0);
            command.stdin(if request.input { Stdio::piped() } else { Stdio::null() });
            let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let mut child = spawned.map_err(|error| RunnerError {
                errno: error.raw_os_error(),
                ..RunnerError::new(error.to_string())
            })?;
            let pid = i32::try_from(child.id()).unwrap();
            let input = child.stdin.take().map(OwnedFd::from);
            let output = child.stdout.take().unwrap().into();
            let errors = child.stderr.take().map(OwnedFd::from);
            let exit = tokio::task::spawn_blocking(move || {
                let status = child.wait().unwrap();
                match status.signal() {
                    Some(signal) => Exit::Signal { signal, core: false },
                    None => Exit::Status(status.code().unwrap()),
                }
            });
            let exit = Box::pin(async move { exit.await.unwrap() });
            let control = Arc::new(Control { pid, size: AtomicI32::new(0) });
            Ok(Executing { pid, input, output, errors, exit, control })
        })
    }
}

/// A host with web and db running.
async fn running() -> World {
    let world = World::new().await;
    let started = world.manager.start(&["db".into(), "web".into()], true).await;
    assert!(started.iter().all(|one| one.outcome == kelson_services::manager::Outcome::Done), "{started:?}");
    world
}

struct Call {
    requests: mpsc::Sender<v1::RunRequest>,
    responses: Streaming<v1::RunResponse>,
}

fn asked(request: Asked) -> v1::RunRequest {
    v1::RunRequest { request: Some(request) }
}

fn start(command: &[&str]) -> v1::RunStart {
    v1::RunStart {
        name: "web".into(),
        command: command.iter().map(|&word| word.into()).collect(),
        input: true,
        ..v1::RunStart::default()
    }
}

fn script(text: &str) -> v1::RunStart {
    start(&["/bin/sh", "-c", text])
}

async fn call(world: &World, first: Asked) -> Result<Call, Status> {
    let (requests, stream) = mpsc::channel(1);
    requests.send(asked(first)).await.unwrap();
    let responses = world.client().exec().run(ReceiverStream::new(stream)).await?.into_inner();
    Ok(Call { requests, responses })
}

async fn begun(world: &World, start: v1::RunStart) -> Call {
    call(world, Asked::Start(start)).await.unwrap()
}

impl Call {
    async fn ask(&self, request: Asked) {
        self.requests.send(asked(request)).await.unwrap();
    }

    async fn next(&mut self) -> Result<Option<Told>, Status> {
        let next = tokio::time::timeout(Duration::from_secs(20), self.responses.message());
        Ok(next.await.expect("an answer in time")?.map(|response| response.response.unwrap()))
    }

    async fn pid(&mut self) -> i32 {
        match self.next().await.unwrap() {
            Some(Told::Started(started)) => started.pid,
            other => panic!("{other:?}"),
        }
    }

    /// Output and errors up to the end.
    async fn rest(mut self) -> (Vec<u8>, Vec<u8>, v1::RunExited) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        loop {
            match self.next().await.unwrap() {
                Some(Told::Started(_)) => {}
                Some(Told::Output(bytes)) => output.extend(bytes),
                Some(Told::Errors(bytes)) => errors.extend(bytes),
                Some(Told::Exited(exited)) => {
                    assert_eq!(self.next().await.unwrap(), None, "nothing comes after it");
                    return (output, errors, exited);
                }
                None => panic!("it ended without a word"),
            }
        }
    }

    async fn mistake(mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended well"),
                Err(status) => return status,
            }
        }
    }
}

fn status(status: i32) -> v1::RunExited {
    v1::RunExited { status: Some(status), signal: None }
}

fn lives(pid: i32) -> bool {
    // SAFETY: asks whether it is there.
    unsafe { libc::kill(pid, 0) == 0 }
}

async fn gone(pid: i32) {
    let wait = async {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it is killed");
}

#[tokio::test]
async fn bytes_go_both_ways_and_the_status_comes_last() {
    let world = running().await;
    let mut first = script("cat; echo $A >&2; exit 7");
    first.environment = vec!["A=b=c".into()];
    let call = begun(&world, first).await;
    call.ask(Asked::Input(b"\0\xff\n".to_vec())).await;
    call.ask(Asked::InputEnd(v1::RunInputEnd {})).await;
    assert_eq!(call.rest().await, (b"\0\xff\n".to_vec(), b"b=c\n".to_vec(), status(7)));
    // A caller that has said all ends the input too, and hears the rest.
    let Call { requests, responses } = begun(&world, start(&["/bin/cat"])).await;
    requests.send(asked(Asked::Input(b"x".to_vec()))).await.unwrap();
    drop(requests);
    let call = Call { requests: mpsc::channel(1).0, responses };
    assert_eq!(call.rest().await.0, b"x");
    world.end().await;
}

#[tokio::test]
async fn signals_and_sizes_reach_it() {
    let world = running().await;
    let mut call =
        begun(&world, script("trap 'echo size' WINCH; echo ready; while :; do sleep 0.01; done")).await;
    call.pid().await;
    assert_eq!(call.next().await.unwrap(), Some(Told::Output(b"ready\n".to_vec())));
    call.ask(Asked::Resize(v1::WindowSize { rows: 70_000, columns: 80 })).await;
    assert_eq!(call.next().await.unwrap(), Some(Told::Output(b"size\n".to_vec())));
    call.ask(Asked::Signal(libc::SIGTERM)).await;
    assert_eq!(call.rest().await.2, v1::RunExited { status: None, signal: Some(libc::SIGTERM) });
    world.end().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_the_command_along() {
    let world = running().await;
    // The command does not read its input, nor its caller its output: all is full, and the end is heard all the same.
    let socket = world.socket.clone();
    let (full, is_full) = tokio::sync::oneshot::channel();
    let client = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (requests, stream) = mpsc::channel(1);
            let first = script("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done");
            requests.send(asked(Asked::Start(first))).await.unwrap();
            let client = Client::connect(&Endpoint::Unix(socket), None).unwrap();
            let responses = client.exec().run(ReceiverStream::new(stream)).await.unwrap().into_inner();
            let mut call = Call { requests, responses };
            let pid = call.pid().await;
            let piece = || asked(Asked::Input(vec![0; 1000]));
            let patience = Duration::from_millis(300);
            while tokio::time::timeout(patience, call.requests.send(piece())).await.is_ok() {}
            full.send(pid).unwrap();
        });
        // With the runtime ends its connection, as that of a process that is killed.
    });
    let pid = is_full.await.unwrap();
    gone(pid).await;
    client.join().unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_command_and_costs_nothing() {
    let world = running().await;
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let text = format!(
        "i=0; while [ $i -lt 200 ]; do head -c 65536 /dev/zero; i=$((i+1)); echo $i >{0}.new; mv {0}.new {0}; done",
        count.display()
    );
    let mut call = begun(&world, script(&text)).await;
    call.pid().await;
    let written =
        || std::fs::read_to_string(&count).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0u32);
    // It comes to a stop: no more is written for a while.
    let mut last = (written(), 0);
    while last.1 < 30 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        last = if written() == last.0 && last.0 > 0 { (last.0, last.1 + 1) } else { (written(), 0) };
    }
    assert!(last.0 < 100, "{} pieces of 64 KiB were taken unread", last.0);
    let (output, _, exited) = call.rest().await;
    assert_eq!((output.len(), exited), (200 * 65_536, status(0)));
    world.end().await;
}

#[tokio::test]
async fn what_was_written_before_the_end_comes_and_a_heir_of_the_output_holds_nothing_up() {
    let world = running().await;
    let begun_at = std::time::Instant::now();
    let (output, _, exited) = begun(&world, script("echo last; sleep 600 & exit 3")).await.rest().await;
    assert_eq!((output.as_slice(), exited), (&b"last\n"[..], status(3)));
    assert!(begun_at.elapsed() < Duration::from_secs(15), "{:?}", begun_at.elapsed());
    // Not even one that never is silent.
    let text = "(while :; do echo more || exit; done) & exit 4";
    let (output, _, exited) = begun(&world, script(text)).await.rest().await;
    assert!(output.len() < 4 << 20, "{}", output.len());
    assert_eq!(exited, status(4));
    world.end().await;
}

#[tokio::test]
async fn mistakes_end_the_command_and_are_told() {
    let world = running().await;
    for (mistake, said) in [
        (Asked::Start(script("exit 0")), "comes once"),
        (Asked::Signal(libc::SIGSEGV), "signal 11 is none"),
        (Asked::Input(vec![0; 64 * 1024 + 1]), "at most 65536 bytes"),
    ] {
        let mut call = begun(&world, start(&["/bin/sleep", "600"])).await;
        let pid = call.pid().await;
        call.ask(mistake).await;
        let status = call.mistake().await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(said), "{status}");
        gone(pid).await;
    }
    let mut without = start(&["/bin/sleep", "600"]);
    without.input = false;
    let call = begun(&world, without).await;
    call.ask(Asked::Input(vec![1])).await;
    assert_eq!(call.mistake().await.code(), Code::InvalidArgument);
    world.end().await;
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_at_once() {
    let world = World::new().await;
    let named = |name: &str| Asked::Start(v1::RunStart { name: name.into(), ..start(&["/bin/true"]) });
    for (first, code, said) in [
        (named("wbe"), Code::NotFound, "did you mean \"web\"?"),
        (named("web"), Code::FailedPrecondition, "service \"web\" does not run: its state is initialized"),
        (Asked::InputEnd(v1::RunInputEnd {}), Code::InvalidArgument, "must be `start`"),
        (Asked::Start(start(&[])), Code::InvalidArgument, "name a command"),
        (
            Asked::Start(v1::RunStart { environment: vec!["A".into()], ..script("") }),
            Code::InvalidArgument,
            "NAME=VALUE, not \"A\"",
        ),
    ] {
        let Err(status) = call(&world, first).await else { panic!("{said}") };
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(said), "{status}");
    }
    world.manager.start(&["db".into(), "web".into()], true).await;
    let Err(status) = call(&world, Asked::Start(start(&["/nope"]))).await else { panic!("there is none") };
    assert_eq!(status.code(), Code::FailedPrecondition);
    world.end().await;
}

#[tokio::test]
async fn the_end_of_pid_1_is_told_and_kills() {
    let mut world = running().await;
    let mut call = begun(&world, start(&["/bin/sleep", "600"])).await;
    let pid = call.pid().await;
    drop(world.shutdown.take());
    assert_eq!(call.mistake().await.code(), Code::Unavailable);
    gone(pid).await;
}
