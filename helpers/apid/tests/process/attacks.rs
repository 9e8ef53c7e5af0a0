//! The apid as somebody would try it who is not meant to come in: each attempt is refused or bounded, and others are let
//! in meanwhile.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use hyper::body::{Bytes, Frame};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::http::Request;

use super::world::{self, Echo};
use super::{Apid, VALID, metrics, version};

/// Another address of this computer than that of the attacker.
const FRIEND: &str = "127.0.0.9:0";
const SOON: Duration = Duration::from_secs(20);

async fn connect_from(apid: &Apid, from: &str) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(from.parse().unwrap())?;
    socket.connect(SocketAddr::from(([127, 0, 0, 1], apid.port))).await
}

/// Somebody with a certificate, who comes from elsewhere, is served.
async fn friend_is_served(apid: &Apid) {
    let material = apid.pki.client("ann", VALID);
    let greeting = async {
        let stream = connect_from(apid, FRIEND).await?;
        metrics::greet(stream, &material, "h2").await
    };
    let stream = tokio::time::timeout(SOON, greeting).await.expect("no handshake in time").unwrap();
    let mut sender = metrics::speak(stream).await;
    let answer = sender.send_request(call("/kelson.v1.Machine/Version", Body::new("\0\0\0\0\0".to_owned())));
    let answer = tokio::time::timeout(SOON, answer).await.expect("no answer in time").unwrap();
    assert_eq!(answer.headers().get("grpc-status"), None, "{:?}", answer.headers());
}

fn call(path: &str, body: Body) -> Request<Body> {
    let request = Request::post(format!("https://127.0.0.1{path}"));
    request.header("content-type", "application/grpc").header("te", "trailers").body(body).unwrap()
}

/// A body that comes in pieces.
struct Pieces(ReceiverStream<Vec<u8>>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_next_unpin(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece.into()))))
    }
}

/// The private memory of the process that handles connections, in KiB.
fn memory(apid: &Apid) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", apid.worker())).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

/// Fails if the memory has grown by much. Memory that the kernel reclaimed meanwhile counts for nothing.
#[track_caller]
fn assert_small_growth(apid: &Apid, before: u64) {
    let grown = memory(apid).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
}

/// The test has as many descriptors as it may have.
fn many_descriptors() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
}

#[tokio::test]
async fn a_thousand_slow_handshakes_keep_nobody_out() {
    many_descriptors();
    let mut apid = Apid::served();
    let before = memory(&apid);
    let mut slow = Vec::new();
    for number in 0..1000 {
        let mut stream = TcpStream::connect(("127.0.0.1", apid.port)).await.unwrap();
        // The beginning of a handshake, a byte of it now and then.
        let _ = stream.write_all(&[0x16, 0x03, 0x01][..number % 4]).await;
        slow.push(stream);
    }
    friend_is_served(&apid).await;
    assert!(apid.logged("refused").contains("handshakes"));
    assert_small_growth(&apid, before);
    drop(slow);
    friend_is_served(&apid).await;
}

#[tokio::test]
async fn ten_thousand_connections_keep_nobody_out() {
    let apid = Apid::served();
    let before = memory(&apid);
    let (port, flood) = (apid.port, 8);
    let flooding: Vec<_> = (0..flood)
        .map(|_| {
            tokio::spawn(async move {
                for _ in 0..10_000 / flood {
                    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    // Until it is turned away, if it is.
                    let _ = stream.write_all(b"\x16").await;
                    let mut byte = [0; 1];
                    let turned_away = stream.read(&mut byte);
                    let _ = tokio::time::timeout(Duration::from_millis(5), turned_away).await;
                }
            })
        })
        .collect();
    friend_is_served(&apid).await;
    for one in flooding {
        one.await.unwrap();
    }
    friend_is_served(&apid).await;
    assert_small_growth(&apid, before);
}

#[tokio::test]
async fn no_more_clients_than_there_are_places() {
    let apid = Apid::served();
    let material = apid.pki.client("ann", VALID);
    let mut connected = Vec::new();
    // With a certificate, so that each stays; at the pace at which they are taken in.
    while connected.len() < 300 {
        let stream = TcpStream::connect(("127.0.0.1", apid.port)).await.unwrap();
        match metrics::greet(stream, &material, "h2").await {
            Ok(stream) => connected.push(stream),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    // To a client that is served, apid says at once how it speaks HTTP/2; the others find the connection closed.
    let mut served = 0;
    for stream in &mut connected {
        let mut byte = [0; 1];
        let first =
            tokio::time::timeout(SOON, stream.read(&mut byte)).await.expect("neither served nor closed");
        served += usize::from(first.is_ok_and(|length| length == 1));
    }
    assert!((200..=256).contains(&served), "{served} of 300");
    drop(connected);
    // Once apid has seen that they are gone.
    let end = tokio::time::Instant::now() + SOON;
    while version(&apid.ann()).await.is_err() {
        assert!(tokio::time::Instant::now() < end, "the places are not given back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_message_of_100_mb_is_not_held() {
    let apid = Apid::served();
    let before = memory(&apid);
    let material = apid.pki.client("ann", VALID);
    let mut sender = metrics::speak(metrics::connect_as(&apid, &material, "h2").await).await;
    let length: u32 = 100 << 20;
    let (pieces, stream) = tokio::sync::mpsc::channel::<Vec<u8>>(1);
    let body = Body::new(Pieces(ReceiverStream::new(stream)));
    let answer =
        tokio::spawn(async move { sender.send_request(call("/kelson.v1.Machine/Version", body)).await });
    let mut head = vec![0];
    head.extend(length.to_be_bytes());
    pieces.send(head).await.unwrap();
    let mut sent = 0;
    // Until nobody takes more of it.
    while tokio::time::timeout(Duration::from_millis(500), pieces.send(vec![0; 64 << 10]))
        .await
        .is_ok_and(|sent| sent.is_ok())
        && sent < 1600
    {
        sent += 1;
    }
    assert!(sent < 400, "{sent} pieces of 64 KiB were taken");
    let answer = tokio::time::timeout(SOON, answer).await.expect("no answer").unwrap().unwrap();
    let status = answer.headers().get("grpc-status").expect("refused at once").to_str().unwrap().to_owned();
    assert_eq!(status, "11", "{:?}", answer.headers());
    assert_small_growth(&apid, before);
    friend_is_served(&apid).await;
}

/// CVE-2023-44487: streams that are opened and reset as fast as can be.
#[tokio::test]
async fn rapid_resets_end_the_connection_and_no_other() {
    let apid = Apid::open();
    let echo = Echo::new("init");
    world::serve(&apid.socket("init.sock"), echo.machine());
    let before = memory(&apid);
    let friend = apid.ann();
    assert_eq!(version(&friend).await.unwrap().version, "init");
    let mut stream = metrics::connect_as(&apid, &apid.pki.client("eve", VALID), "h2").await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut resets = 0;
    for number in (1u32..).step_by(2).take(100_000) {
        // POST, https, a path, and the reset: what HPACK's static table has, and one literal.
        let path = b"/kelson.v1.Machine/Boot";
        let mut block = vec![0x83, 0x87, 0x41, 1, b'a', 0x44, u8::try_from(path.len()).unwrap()];
        block.extend(path);
        let mut frames = vec![0, 0, u8::try_from(block.len()).unwrap(), 1, 4];
        frames.extend(number.to_be_bytes());
        frames.extend(block);
        frames.extend([0, 0, 4, 3, 0]);
        frames.extend(number.to_be_bytes());
        frames.extend(8u32.to_be_bytes());
        if stream.write_all(&frames).await.is_err() {
            break;
        }
        resets += 1;
    }
    assert!(resets < 100_000, "no connection was reset");
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection goes on after {resets} resets");
    assert_eq!(version(&friend).await.unwrap().version, "init");
    echo.opened(0).await;
    assert_small_growth(&apid, before);
}

#[tokio::test]
async fn garbage_is_refused() {
    let mut apid = Apid::served();
    // TLS 1.2 is what a client says that offers no version besides.
    let hello = |version: u8| {
        let mut hello = vec![0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, version];
        hello.extend([7; 32]);
        hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
        hello
    };
    let garbage: [&[u8]; 6] = [
        b"GET /metrics HTTP/1.1\r\nHost: edge\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0xff; 20_000],
        &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3],
        &hello(3),
        &hello(9),
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(("127.0.0.1", apid.port)).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.expect("it was not closed");
        // An alert of TLS, or nothing.
        assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
        apid.logged("refused");
    }
    // After a handshake as well.
    for alpn in ["h2", "http/1.1"] {
        let mut stream = metrics::connect_as(&apid, &apid.pki.client("eve", VALID), alpn).await;
        let _ = stream.write_all(&[0xf3; 70_000]).await;
        let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut Vec::new())).await;
        assert!(ended.is_ok(), "{alpn}: the connection goes on");
    }
    friend_is_served(&apid).await;
}
