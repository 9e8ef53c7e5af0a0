//! The service Inspect, over a `kelson-inspect` that says what a test wants.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use kelson_helper::inspect::{Kind, frame};
use kelson_helper::{BoxFuture, Launched, Launcher, Start};
use kelson_proto::v1;
use kelson_proto::v1::inspect_question::Question;
use kelson_services::inspect::Inspector;
use prost::Message as _;
use tonic::Code;

use crate::World;

struct Played;

pub fn inspector() -> Inspector {
    Inspector::new(Arc::new(Played), Some(Path::new("/sys/fs/cgroup/kelson")))
}

fn piece(data: &[u8]) -> Vec<u8> {
    frame(Kind::Message, &v1::ReadFileResponse { data: data.to_vec() }.encode_to_vec())
}

fn answer(asked: &v1::InspectQuestion) -> Vec<u8> {
    let end = || frame(Kind::End, &[]);
    match asked.question.as_ref().unwrap() {
        Question::Processes(_) => {
            let name = asked.cgroups_path.clone();
            let page =
                v1::ProcessesResponse { processes: vec![v1::Process { name, ..v1::Process::default() }] };
            [frame(Kind::Message, &page.encode_to_vec()), end()].concat()
        }
        Question::Memory(_) => {
            let memory = v1::MemoryResponse { total: 42, ..v1::MemoryResponse::default() };
            [frame(Kind::Message, &memory.encode_to_vec()), end()].concat()
        }
        Question::Cpu(_) => end(),
        Question::Clock(_) => frame(Kind::Message, b"\xff\xff\xff"),
        Question::ReadFile(request) => match request.path.as_str() {
            "/whole" => [piece(b"one"), piece(b"two"), end()].concat(),
            "/breaks" => [piece(b"one"), frame(Kind::Failed, b"I/O error")].concat(),
            "/folder" => frame(Kind::Unfit, b"this is a folder"),
            "/dies" => piece(b"one"),
            _ => frame(Kind::Missing, b"no such file"),
        },
        _ => end(),
    }
}

/// Says how many bytes came, until their end.
fn take(mut bytes: File, mut answer: File) {
    let mut came = Vec::new();
    bytes.read_to_end(&mut came).unwrap();
    let path = format!("{} bytes", came.len());
    let message = v1::WriteFileResponse { path }.encode_to_vec();
    // Nobody may listen any more.
    let _ = answer.write_all(&[frame(Kind::Message, &message), frame(Kind::End, &[])].concat());
}

impl Launcher for Played {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let mut input = File::from(start.take(libc::STDIN_FILENO).unwrap());
        let mut answers = File::from(start.take(libc::STDOUT_FILENO).unwrap());
        let mut length = [0; 4];
        input.read_exact(&mut length).unwrap();
        let mut question = vec![0; u32::from_le_bytes(length) as usize];
        input.read_exact(&mut question).unwrap();
        let asked = v1::InspectQuestion::decode(question.as_slice()).unwrap();
        match asked.question {
            Some(Question::WriteFile(_)) => {
                std::thread::spawn(move || take(input, answers));
            }
            _ => answers.write_all(&answer(&asked)).unwrap(),
        }
        let exit = Box::pin(std::future::ready("was killed by signal 9".to_owned()));
        let launched = Launched { pid: 7, start_time: 0, exit, kill: Box::new(|| {}) };
        Box::pin(std::future::ready(Ok(launched)))
    }
}

/// Reads a file, up to where it ends or breaks off.
async fn read(world: &World, path: &str) -> (Vec<u8>, Option<tonic::Status>) {
    let request = v1::ReadFileRequest { path: path.to_owned() };
    let mut stream = match world.client().inspect().read_file(request).await {
        Ok(response) => response.into_inner(),
        Err(status) => return (Vec::new(), Some(status)),
    };
    let mut bytes = Vec::new();
    loop {
        match stream.message().await {
            Ok(Some(piece)) => bytes.extend(piece.data),
            Ok(None) => return (bytes, None),
            Err(status) => return (bytes, Some(status)),
        }
    }
}

#[tokio::test]
async fn what_it_says_is_passed_on() {
    let world = World::new().await;
    let mut inspect = world.client().inspect();
    let memory = inspect.memory(v1::MemoryRequest {}).await.unwrap().into_inner();
    assert_eq!(memory.total, 42);
    let page =
        inspect.processes(v1::ProcessesRequest {}).await.unwrap().into_inner().message().await.unwrap();
    assert_eq!(page.unwrap().processes[0].name, "/sys/fs/cgroup/kelson", "it is told where the services are");
    let (bytes, status) = read(&world, "/whole").await;
    assert_eq!((bytes.as_slice(), status.is_none()), (&b"onetwo"[..], true));
    world.end().await;
}

#[tokio::test]
async fn why_there_is_no_more_is_a_status() {
    let world = World::new().await;
    for (path, before, code, text) in [
        ("/breaks", &b"one"[..], Code::Unavailable, "I/O error"),
        ("/dies", b"one", Code::Unavailable, "was killed by signal 9"),
        ("/folder", b"", Code::FailedPrecondition, "this is a folder"),
        ("/nowhere", b"", Code::NotFound, "no such file"),
        ("relative", b"", Code::InvalidArgument, "must be absolute"),
        ("/with\0nul", b"", Code::InvalidArgument, "must be absolute"),
    ] {
        let (bytes, status) = read(&world, path).await;
        let status = status.unwrap();
        assert_eq!((bytes.as_slice(), status.code()), (before, code), "{path}");
        assert!(status.message().contains(text), "{path}: {status}");
    }
    let long = format!("/{}", "x".repeat(5000));
    assert_eq!(read(&world, &long).await.1.unwrap().code(), Code::InvalidArgument);
    let mut inspect = world.client().inspect();
    assert_eq!(inspect.cpu(v1::CpuRequest {}).await.unwrap_err().code(), Code::Internal, "it said nothing");
    assert_eq!(inspect.clock(v1::ClockRequest {}).await.unwrap_err().code(), Code::Internal, "or nonsense");
    world.end().await;
}

#[tokio::test]
async fn a_file_is_handed_on_and_no_more_than_was_announced() {
    use v1::write_file_request::Request;
    let world = World::new().await;
    let begin = |size, mode| {
        Request::Begin(v1::WriteFileBegin {
            path: "/etc/x".to_owned(),
            name: String::new(),
            size,
            mode,
            overwrite: false,
        })
    };
    let send = async |pieces: Vec<Request>| {
        let pieces = pieces.into_iter().map(|piece| v1::WriteFileRequest { request: Some(piece) });
        let sent = world.client().inspect().write_file(tokio_stream::iter(pieces)).await;
        sent.map(|response| response.into_inner().path).map_err(|status| status.code())
    };
    let data = |length: usize| Request::Data(vec![7; length]);
    assert_eq!(
        send(vec![begin(200_000, 0o644), data(100_000), data(100_000)]).await.unwrap(),
        "200000 bytes"
    );
    assert_eq!(send(vec![begin(0, 0o600)]).await.unwrap(), "0 bytes");
    for refused in [
        vec![],
        vec![data(1)],
        vec![begin(1, 0o644), data(2)],
        vec![begin(1, 0o644), begin(1, 0o644)],
        vec![begin(1, 0o4755), data(1)],
        vec![begin((1 << 30) + 1, 0o644)],
    ] {
        assert_eq!(send(refused.clone()).await, Err(Code::InvalidArgument), "{refused:?}");
    }
    world.end().await;
}
