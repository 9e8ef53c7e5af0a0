//! `/metrics` of apid, read as scrapers do: over HTTP/2 and over HTTP/1.1.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kelson_api::client::TlsMaterial;
use kelson_apid::openmetrics::Format;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};

use super::world::{self, Echo};
use super::{Apid, VALID};

/// A connection as ann; `alpn` is what she says that she speaks.
async fn connect(apid: &Apid, alpn: &str) -> TlsStream<TcpStream> {
    connect_as(apid, &apid.pki.client("ann", VALID), alpn).await
}

pub async fn connect_as(apid: &Apid, material: &TlsMaterial, alpn: &str) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", apid.port)).await.unwrap();
    greet(stream, material, alpn).await.unwrap()
}

/// Makes the handshake.
pub async fn greet(
    stream: TcpStream,
    material: &TlsMaterial,
    alpn: &str,
) -> io::Result<TlsStream<TcpStream>> {
    let TlsMaterial { ca, certificate, key } = material;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca).unwrap()).unwrap();
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>().unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key).unwrap())
        .unwrap();
    if !alpn.is_empty() {
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    }
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Begins HTTP/2, as a client that knows nothing of the interface.
pub async fn speak(stream: TlsStream<TcpStream>) -> SendRequest<Body> {
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Sends a request over HTTP/1.1, and returns the answer up to the end of the connection.
async fn http1(apid: &Apid, request: &str) -> String {
    http1_as(apid, "http/1.1", request).await
}

async fn http1_as(apid: &Apid, alpn: &str, request: &str) -> String {
    let mut stream = connect(apid, alpn).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A text that breaks off may end without a farewell of TLS.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

async fn http2(apid: &Apid, method: &str) -> Response<Incoming> {
    try_http2(apid, method).await.unwrap()
}

async fn try_http2(apid: &Apid, method: &str) -> Result<Response<Incoming>, hyper::Error> {
    let mut sender = speak(connect(apid, "h2").await).await;
    let request = Request::builder().method(method).uri("https://127.0.0.1/metrics");
    // A client's own description of itself does not count.
    let request = request.header("kelson-identity", "CN=root").body(Body::empty()).unwrap();
    let response = sender.send_request(request).await?;
    // The connection lives as long as its sender.
    tokio::spawn(async move {
        let _sender = sender;
        std::future::pending::<()>().await;
    });
    Ok(response)
}

/// The next piece of the text; `None`: it has ended.
async fn piece(body: &mut Incoming) -> Option<Result<String, hyper::Error>> {
    let frame = std::future::poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context)).await?;
    Some(frame.map(|frame| String::from_utf8(frame.into_data().unwrap_or_default().to_vec()).unwrap()))
}

async fn text(mut body: Incoming) -> Result<String, hyper::Error> {
    let mut text = String::new();
    while let Some(piece) = piece(&mut body).await {
        text += &piece?;
    }
    Ok(text)
}

fn is_whole(text: &str) -> bool {
    text.starts_with(
        "# TYPE kelson_echo counter\n# HELP kelson_echo Who asks.\nkelson_echo_total{who=\"CN=ann sha256:",
    ) && text.contains("number=\"0\"} 0\nkelson_echo_total{")
        && text.ends_with("number=\"1\"} 1\n# EOF\n")
}

#[tokio::test]
async fn a_scraper_reads_them_over_http2_and_over_http1() {
    let mut apid = Apid::open();
    let echo = Echo::new("init");
    world::serve(&apid.socket("init.sock"), echo.metrics());
    let response = http2(&apid, "GET").await;
    assert_eq!(
        (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
        (200, Format::OpenMetrics.content_type())
    );
    let told = text(response.into_body()).await.unwrap();
    assert!(is_whole(&told), "{told}");
    assert!(apid.logged("has connected").contains("CN=ann"));

    let answer = http1(&apid, "GET /metrics HTTP/1.1\r\nHost: edge\r\nAccept: */*\r\n\r\n").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains(Format::OpenMetrics.content_type()) && head.contains("connection: close"),
        "{head}"
    );
    let told: String = chunks(body);
    assert!(is_whole(&told), "{told}");

    let answer = http1(&apid, "GET /metrics HTTP/1.1\r\nHost: edge\r\nAccept: text/plain\r\n\r\n").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(Format::Prometheus.content_type()) && head.contains("vary: accept"), "{head}");
    let told: String = chunks(body);
    assert!(
        told.starts_with("# TYPE kelson_echo_total counter\n# HELP kelson_echo_total Who asks.\n"),
        "{told}"
    );

    let silent = http1_as(&apid, "", "GET /metrics HTTP/1.1\r\nHost: edge\r\n\r\n").await;
    assert!(silent.starts_with("HTTP/1.1 200 OK\r\n") && silent.contains("# EOF\n"), "{silent}");

    let response = http2(&apid, "HEAD").await;
    assert_eq!((response.status().as_u16(), text(response.into_body()).await.unwrap().as_str()), (200, ""));
    echo.opened(0).await;
}

/// The contents of the chunks of a body.
fn chunks(mut body: &str) -> String {
    let mut text = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return text;
        }
        text += &rest[..size];
        body = rest[size..].strip_prefix("\r\n").unwrap();
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_in_a_sentence() {
    let apid = Apid::open();
    let response = http2(&apid, "GET").await;
    assert_eq!(response.status().as_u16(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    let told = text(response.into_body()).await.unwrap();
    assert!(told.starts_with("PID 1 does not serve") && told.ends_with('\n'), "{told}");

    world::serve(&apid.socket("init.sock"), Echo::new("full").metrics());
    let response = http2(&apid, "GET").await;
    assert_eq!(response.status().as_u16(), 503);
    assert_eq!(text(response.into_body()).await.unwrap(), "all places are taken\n");
    let response = http2(&apid, "POST").await;
    assert_eq!(
        (response.status().as_u16(), response.headers()["allow"].to_str().unwrap()),
        (405, "GET, HEAD")
    );

    let answer = http1(&apid, "GET /favicon.ico HTTP/1.1\r\nHost: edge\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
    assert!(answer.ends_with("there is / and /metrics for GET; all else is gRPC\n"), "{answer}");
    let answer = http1(&apid, "POST /a.B/C HTTP/1.1\r\nHost: edge\r\nContent-Length: 0\r\n\r\n").await;
    assert!(answer.ends_with("gRPC needs HTTP/2\n"), "{answer}");
}

#[tokio::test]
async fn a_browser_is_told_which_machine_this_is() {
    let apid = Apid::open();
    let answer = http1(&apid, "GET / HTTP/1.1\r\nHost: edge\r\nAccept: text/html\r\n\r\n").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/html; charset=utf-8"), "{head}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for part in [&format!("<h1>{}</h1>", host.trim()), "Kelson 0.", "kelsonctl", "href=\"/metrics\""] {
        assert!(body.contains(part), "{part} is not in {body}");
    }
    let mut sender = speak(connect(&apid, "h2").await).await;
    let request = Request::builder().uri("https://127.0.0.1/").body(Body::empty()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    assert!(text(response.into_body()).await.unwrap().contains("<h1>"));
}

/// Half of the metrics is not taken for all of them.
#[tokio::test]
async fn a_text_that_breaks_off_is_not_whole() {
    let apid = Apid::open();
    world::serve(&apid.socket("init.sock"), Echo::new("broken").metrics());
    // The reset may come before the head of the answer.
    if let Ok(response) = try_http2(&apid, "GET").await {
        text(response.into_body()).await.unwrap_err();
    }
    let answer = http1(&apid, "GET /metrics HTTP/1.1\r\nHost: edge\r\n\r\n").await;
    assert!(!answer.contains("# EOF") && !answer.ends_with("0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn two_read_at_the_same_time_and_nothing_is_made_ahead_of_them() {
    let apid = Apid::open();
    let echo = Echo::new("endless");
    world::serve(&apid.socket("init.sock"), echo.metrics());
    let mut first = http2(&apid, "GET").await.into_body();
    let second = http2(&apid, "GET").await;
    assert!(piece(&mut first).await.unwrap().unwrap().contains("kelson_echo_total"));
    echo.opened(2).await;
    let third = http2(&apid, "GET").await;
    assert_eq!(third.status().as_u16(), 503);
    let told = text(third.into_body()).await.unwrap();
    assert!(told.contains("2 others are reading"), "{told}");
    drop(second);
    echo.opened(1).await;
    assert_eq!(http2(&apid, "GET").await.status().as_u16(), 200, "a place that was left is free");
    drop(first);
    tokio::time::timeout(Duration::from_secs(10), echo.opened(0)).await.expect("both have gone");
    // 25 KiB each; what fits into windows on the way is some megabytes of them.
    let made = *echo.produced.lock().unwrap();
    assert!(made < 1000, "{made} pages were made that nobody has read");
}
