//! Tests kelson-probe against all kinds of servers, good and bad: tcp, http, https, grpc on loopback.

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test may fail")]

mod host;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use host::{Asked, Host, loopback, schedule};
use kelson_services::prober::{CheckAnswer, Report, Schedule, Verdict};
use kelson_spec::service::{Asks, GrpcProbe, HttpProbe, ProbeTls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tonic_health::ServingStatus;

#[test]
#[ignore = "not a test: the process kelson-probe of the tests"]
fn personality_probe() {
    host::personality();
}

/// Long enough for anything here, short enough to be waited for.
const QUICK: Duration = Duration::from_millis(300);

/// A server that does `serve` with each connection.
async fn server<F, S>(serve: F) -> SocketAddr
where
    F: Fn(TcpStream) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(loopback(0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// Reads the head of a request.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(bytes).unwrap()
}

async fn reply(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: impl AsRef<[u8]>) {
    request(&mut stream).await;
    let _ = stream.write_all(text.as_ref()).await;
    let _ = stream.shutdown().await;
}

async fn replies(text: &'static str) -> SocketAddr {
    server(move |stream| reply(stream, text)).await
}

/// A server that takes connections and says nothing.
async fn mute() -> SocketAddr {
    server(|stream| async move {
        let _stream = stream;
        std::future::pending::<()>().await;
    })
    .await
}

/// One whose answer begins so and never ends.
async fn endless(begin: &'static str) -> SocketAddr {
    server(move |mut stream| async move {
        request(&mut stream).await;
        let _ = stream.write_all(begin.as_bytes()).await;
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    })
    .await
}

fn get() -> HttpProbe {
    HttpProbe {
        path: "/healthz".into(),
        host: None,
        headers: Vec::new(),
        status: Vec::new(),
        body: None,
        tls: None,
    }
}

async fn ask_with(host: &Host, schedule: Schedule) -> CheckAnswer {
    host.watch_with(schedule).next().await
}

async fn ask(address: SocketAddr, asks: Asks) -> (Verdict, String) {
    let answer = ask_with(&Host::new(), schedule(address, asks)).await;
    (answer.verdict, answer.text.to_string())
}

/// With a timeout that is meant to pass.
async fn ask_briefly(address: SocketAddr, asks: Asks) -> (Verdict, String) {
    let brief = Schedule { timeout: QUICK, ..schedule(address, asks) };
    let answer = ask_with(&Host::new(), brief).await;
    if answer.verdict == Verdict::Silent {
        assert!(answer.took >= QUICK && answer.took < QUICK * 10, "{:?}", answer.took);
    }
    (answer.verdict, answer.text.to_string())
}

async fn http(text: &'static str, probe: HttpProbe) -> (Verdict, String) {
    ask(replies(text).await, Asks::Http(probe)).await
}

fn passes(text: &str) -> (Verdict, String) {
    (Verdict::Passes, text.into())
}

fn fails(text: &str) -> (Verdict, String) {
    (Verdict::Fails, text.into())
}

fn silent(text: &str) -> (Verdict, String) {
    (Verdict::Silent, text.into())
}

#[tokio::test]
async fn tcp_accepting_refused_and_not_accepting() {
    let host = Host::new();
    let mut asked = host.watch(server(|_| async {}).await, Asks::Tcp);
    assert_eq!(asked.text().await, "connected");

    let closed = TcpListener::bind(loopback(0)).await.unwrap().local_addr().unwrap();
    assert_eq!(ask(closed, Asks::Tcp).await, fails("connection refused"));

    // Its queue is full: one waits, one more is let in.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(loopback(0)).unwrap();
    let listener = socket.listen(0).unwrap();
    let full = listener.local_addr().unwrap();
    let _first = TcpStream::connect(full).await.unwrap();
    assert_eq!(ask_briefly(full, Asks::Tcp).await, silent("no connection within 300 ms"));
}

#[tokio::test]
async fn tcp_over_ipv6() {
    let Ok(listener) = TcpListener::bind("[::1]:0").await else {
        return kelson_tests::skip("there is no IPv6");
    };
    assert_eq!(ask(listener.local_addr().unwrap(), Asks::Tcp).await, passes("connected"));
}

#[tokio::test]
async fn tcp_a_service_reads_a_plain_end_and_keeps_no_state() {
    let (told, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let listener = TcpListener::bind(loopback(0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let host = Host::new();
    let often = Schedule { interval: Duration::from_millis(10), ..schedule(address, Asks::Tcp) };
    let _asked = host.watch_with(often);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            told.send(stream.read(&mut [0; 8]).await).unwrap();
        }
    });
    for _ in 0..50 {
        assert_eq!(ends.recv().await.unwrap().unwrap(), 0);
    }
    let port = format!(":{:04X}", address.port());
    let kept = std::fs::read_to_string("/proc/net/tcp").unwrap();
    // 06: TIME_WAIT.
    let kept = kept.lines().filter(|line| line.contains(&port) && line.contains(" 06 ")).count();
    assert!(kept <= 5, "{kept}");
}

#[tokio::test]
async fn http_status_decides() {
    assert_eq!(http("HTTP/1.1 200 OK\r\n\r\n", get()).await, passes("200 OK"));
    let moved = "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n";
    assert_eq!(http(moved, get()).await, passes("302 Found"));
    let busy = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(http(busy, get()).await, fails("status 503, wanted 200-399"));
    let strict = HttpProbe { status: vec![(200, 204), (301, 301)], ..get() };
    assert_eq!(http(moved, strict.clone()).await, fails("status 302, wanted 200-204 or 301"));
    assert_eq!(http("HTTP/1.0 204 Empty\r\n\r\n", strict).await, passes("204 No Content"));
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(http(hints, get()).await, passes("200 OK"));
}

#[tokio::test]
async fn http_asks_what_the_file_says() {
    let (told, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let address = server(move |mut stream| {
        let told = told.clone();
        async move {
            told.send(request(&mut stream).await).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        }
    })
    .await;
    let port = address.port();
    let probe = HttpProbe {
        path: "/a/b?c=%20d&e".into(),
        host: Some("www.example.org".into()),
        headers: vec![("X-Probe".into(), "1 2".into()), ("Accept".into(), "text/plain".into())],
        ..get()
    };
    assert_eq!(ask(address, Asks::Http(probe)).await, passes("200 OK"));
    let sent = requests.recv().await.unwrap().to_lowercase();
    assert!(sent.starts_with("get /a/b?c=%20d&e http/1.1\r\n"), "{sent}");
    for line in
        [&format!("host: www.example.org:{port}"), "x-probe: 1 2", "accept: text/plain", "connection: close"]
    {
        assert!(sent.contains(&format!("\r\n{line}\r\n")), "{sent}");
    }
    while requests.try_recv().is_ok() {}
    assert_eq!(ask(address, Asks::Http(get())).await, passes("200 OK"));
    let mut plain = false;
    while let Ok(sent) = requests.try_recv() {
        plain |= sent.to_lowercase().contains(&format!("\r\nhost: 127.0.0.1:{port}\r\n"));
    }
    assert!(plain);
}

#[tokio::test]
async fn http_a_body_is_searched() {
    let wants = |body: &str| HttpProbe { body: Some(body.into()), ..get() };
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nall is well\r\n";
    assert_eq!(http(whole, wants("is w.ll")).await, passes("200 OK"));
    assert_eq!(http(whole, wants("^w")).await, fails("200 OK, body does not match \"^w\""));
    // A count makes a pattern long: it is searched for elsewhere.
    assert_eq!(http(whole, wants("l{2}$|l{2}\\r")).await, passes("200 OK"));
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n4\r\n is \r\n4\r\nwell\r\n0\r\n\r\n";
    assert_eq!(http(chunks, wants("^all is well$")).await, passes("200 OK"));
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nall is well";
    assert_eq!(http(cut, wants("well")).await, fails("connection closed before the answer"));
    // Without a pattern nobody waits for a body.
    assert_eq!(http(cut, get()).await, passes("200 OK"));
}

#[tokio::test]
async fn http_no_more_than_the_beginning_of_a_body_is_looked_at() {
    let never_ending = endless("HTTP/1.1 200 OK\r\n\r\n").await;
    let wants = |body: &str| Asks::Http(HttpProbe { body: Some(body.into()), ..get() });
    assert_eq!(ask(never_ending, wants("xxx")).await, passes("200 OK"));
    assert_eq!(ask(never_ending, wants("y")).await, fails("200 OK, body does not match \"y\""));
    assert_eq!(ask(never_ending, wants("^x+$")).await, passes("200 OK"));
    let late =
        server(|stream| reply(stream, format!("HTTP/1.1 200 OK\r\n\r\n{}ok", "x".repeat(64 << 10)))).await;
    assert_eq!(ask(late, wants("ok")).await, fails("200 OK, body does not match \"ok\""));
}

#[tokio::test]
async fn http_slow_servers_end_with_the_timeout() {
    let silent_one = mute().await;
    assert_eq!(ask_briefly(silent_one, Asks::Http(get())).await, silent("no answer within 300 ms"));

    async fn drip(mut stream: TcpStream, first: &str, more: &str) {
        request(&mut stream).await;
        let _ = stream.write_all(first.as_bytes()).await;
        while stream.write_all(more.as_bytes()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let head = server(|stream| drip(stream, "HTTP/1.1 200 OK\r\n", "X: y\r\n")).await;
    assert_eq!(ask_briefly(head, Asks::Http(get())).await, silent("no answer within 300 ms"));
    let body = server(|stream| drip(stream, "HTTP/1.1 200 OK\r\n\r\n", "x")).await;
    let wants = HttpProbe { body: Some("ok".into()), ..get() };
    assert_eq!(ask_briefly(body, Asks::Http(wants)).await, silent("no whole answer within 300 ms"));
}

#[tokio::test]
async fn http_what_is_no_answer_is_called_so() {
    assert_eq!(http("", get()).await, fails("connection closed before the answer"));
    assert_eq!(http("SSH-2.0-OpenSSH_9.2\r\n", get()).await, fails("the answer is no HTTP"));
    let headers =
        server(|stream| reply(stream, format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(300)))).await;
    assert_eq!(ask(headers, Asks::Http(get())).await, fails("the head of the answer is too long"));
    let never_ending = endless("HTTP/1.1 200 OK\r\nX: ").await;
    assert_eq!(ask(never_ending, Asks::Http(get())).await, fails("the head of the answer is too long"));
    let reset = server(|stream| async move {
        stream.set_zero_linger().unwrap();
    })
    .await;
    let (verdict, text) = ask(reset, Asks::Http(get())).await;
    assert_eq!(verdict, Verdict::Fails);
    assert!(
        ["connection reset", "connection closed", "connection closed before the answer"].contains(&&*text),
        "{text}"
    );
}

/// A CA and what it signs.
struct Pki(CertifiedIssuer<'static, KeyPair>);

impl Pki {
    fn new() -> Pki {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "tests");
        Pki(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn trusted(&self) -> Option<ProbeTls> {
        Some(ProbeTls { ca: Some(self.0.pem()) })
    }

    /// A certificate and its key for these names and years.
    fn issue(&self, names: &[&str], years: std::ops::Range<i32>) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn acceptor(pair: &(String, String), newest: bool, protocol: Option<&[u8]>) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_slice(pair.0.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pair.1.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[if newest { &TLS13 } else { &TLS12 }])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = protocol.map(<[u8]>::to_vec).into_iter().collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn https(acceptor: TlsAcceptor) -> SocketAddr {
    server(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                reply(stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn https_knows_whom_it_trusts() {
    let (pki, other) = (Pki::new(), Pki::new());
    let ip = "127.0.0.1";
    let anybody = Some(ProbeTls { ca: None });
    let with = |tls: &Option<ProbeTls>| HttpProbe { tls: tls.clone(), body: Some("^ok$".into()), ..get() };
    let named = |name: &str| HttpProbe { host: Some(name.into()), ..with(&pki.trusted()) };

    let good = https(acceptor(&pki.issue(&[ip, "www.example.org"], 2020..2090), true, None)).await;
    assert_eq!(ask(good, Asks::Http(with(&pki.trusted()))).await, passes("200 OK"));
    assert_eq!(ask(good, Asks::Http(named("www.example.org"))).await, passes("200 OK"));
    assert_eq!(ask(good, Asks::Http(with(&anybody))).await, passes("200 OK"));
    let wrong = "certificate is signed by none of the given CA's";
    assert_eq!(ask(good, Asks::Http(with(&other.trusted()))).await, fails(wrong));
    let name = "certificate is not for www.example.com";
    assert_eq!(ask(good, Asks::Http(named("www.example.com"))).await, fails(name));

    let old = https(acceptor(&pki.issue(&[ip], 2020..2021), true, None)).await;
    assert_eq!(ask(old, Asks::Http(with(&pki.trusted()))).await, fails("certificate expired"));
    assert_eq!(ask(old, Asks::Http(with(&anybody))).await, passes("200 OK"));
    let young = https(acceptor(&pki.issue(&[ip], 2089..2090), true, None)).await;
    assert_eq!(ask(young, Asks::Http(with(&pki.trusted()))).await, fails("certificate not valid yet"));

    // TLS 1.2, and a server that wants to hear of HTTP/1.1.
    let older = https(acceptor(&pki.issue(&[ip], 2020..2090), false, Some(b"http/1.1"))).await;
    assert_eq!(ask(older, Asks::Http(with(&pki.trusted()))).await, passes("200 OK"));
    assert_eq!(ask(older, Asks::Http(with(&anybody))).await, passes("200 OK"));
    let h2 = https(acceptor(&pki.issue(&[ip], 2020..2090), true, Some(b"h2"))).await;
    let protocol = "the server speaks another protocol over TLS";
    assert_eq!(ask(h2, Asks::Http(with(&pki.trusted()))).await, fails(protocol));
}

#[tokio::test]
async fn https_a_server_that_signed_its_own_certificate_is_known_by_it() {
    let own = |ca, years: std::ops::Range<i32>| {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = ca;
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let is_ca = || IsCa::Ca(BasicConstraints::Unconstrained);
    let by = |pair: &(String, String)| {
        Asks::Http(HttpProbe { tls: Some(ProbeTls { ca: Some(pair.0.clone()) }), ..get() })
    };
    for ca in [IsCa::NoCa, is_ca()] {
        let pair = own(ca, 2020..2090);
        let address = https(acceptor(&pair, true, None)).await;
        assert_eq!(ask(address, by(&pair)).await, passes("200 OK"));
        let Asks::Http(mut elsewhere) = by(&pair) else { continue };
        elsewhere.host = Some("localhost".into());
        let name = "certificate is not for localhost";
        assert_eq!(ask(address, Asks::Http(elsewhere)).await, fails(name));
    }
    let pair = own(is_ca(), 2020..2021);
    let address = https(acceptor(&pair, true, None)).await;
    assert_eq!(ask(address, by(&pair)).await, fails("certificate expired"));
    // One that calls itself the same but is not.
    let (mine, theirs) = (own(is_ca(), 2020..2090), own(is_ca(), 2020..2090));
    let address = https(acceptor(&theirs, true, None)).await;
    assert_eq!(ask(address, by(&mine)).await.0, Verdict::Fails);
}

#[tokio::test]
async fn https_what_is_no_tls_is_called_so() {
    let tls = Some(ProbeTls { ca: None });
    let probe = Asks::Http(HttpProbe { tls, ..get() });
    let plain = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read(&mut [0; 1024]).await;
    })
    .await;
    assert_eq!(ask(plain, probe.clone()).await, fails("the answer is no TLS"));
    let silent_one = mute().await;
    assert_eq!(ask_briefly(silent_one, probe).await, silent("no TLS handshake within 300 ms"));
    let broken = Asks::Http(HttpProbe { tls: Some(ProbeTls { ca: Some("none".into()) }), ..get() });
    let (verdict, text) = ask(plain, broken).await;
    assert!(verdict == Verdict::Fails && text.starts_with("the CA cannot be used"), "{text}");
}

fn health(service: &str) -> GrpcProbe {
    GrpcProbe { service: service.into(), host: None, tls: None }
}

/// Waits until somebody takes connections there.
async fn accepting(address: SocketAddr) {
    while TcpStream::connect(address).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A server of grpc.health.v1: the whole serves, `web` has the given status.
async fn grpc(web: ServingStatus) -> SocketAddr {
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("web", web).await;
    let address = TcpListener::bind(loopback(0)).await.unwrap().local_addr().unwrap();
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve(address));
    accepting(address).await;
    address
}

#[tokio::test]
async fn grpc_says_what_the_server_says() {
    let serving = grpc(ServingStatus::Serving).await;
    assert_eq!(ask(serving, Asks::Grpc(health(""))).await, passes("SERVING"));
    assert_eq!(ask(serving, Asks::Grpc(health("web"))).await, passes("SERVING"));
    let unknown = "the server knows no service \"db\"";
    assert_eq!(ask(serving, Asks::Grpc(health("db"))).await, fails(unknown));
    let not = grpc(ServingStatus::NotServing).await;
    assert_eq!(ask(not, Asks::Grpc(health("web"))).await, fails("NOT_SERVING"));
    let vague = grpc(ServingStatus::Unknown).await;
    assert_eq!(ask(vague, Asks::Grpc(health("web"))).await, fails("UNKNOWN"));
}

#[tokio::test]
async fn grpc_what_is_none_is_called_so() {
    // A gRPC server without the health service.
    let (_, reflected) = tonic_health::server::health_reporter();
    let address = TcpListener::bind(loopback(0)).await.unwrap().local_addr().unwrap();
    let other = tonic::service::interceptor::InterceptedService::new(
        reflected,
        |_: tonic::Request<()>| -> Result<tonic::Request<()>, tonic::Status> {
            Err(tonic::Status::unimplemented("nothing here"))
        },
    );
    tokio::spawn(tonic::transport::Server::builder().add_service(other).serve(address));
    accepting(address).await;
    let none = "UNIMPLEMENTED: the server has no grpc.health.v1";
    assert_eq!(ask(address, Asks::Grpc(health(""))).await, fails(none));
    // HTTP/1.
    let (verdict, text) =
        ask(replies("HTTP/1.1 400 Bad Request\r\n\r\n").await, Asks::Grpc(health(""))).await;
    assert!(verdict == Verdict::Fails && !text.is_empty(), "{text}");
    let closed = server(|_| async {}).await;
    assert_eq!(ask(closed, Asks::Grpc(health(""))).await.0, Verdict::Fails);
    let silent_one = mute().await;
    assert_eq!(ask_briefly(silent_one, Asks::Grpc(health(""))).await, silent("no answer within 300 ms"));
}

#[tokio::test]
async fn grpc_over_tls() {
    let pki = Pki::new();
    let acceptor = acceptor(&pki.issue(&["127.0.0.1"], 2020..2090), true, Some(b"h2"));
    let inner = grpc(ServingStatus::Serving).await;
    let address = server(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut inner = TcpStream::connect(inner).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut inner).await;
        }
    })
    .await;
    let probe = |tls| Asks::Grpc(GrpcProbe { tls, ..health("web") });
    assert_eq!(ask(address, probe(pki.trusted())).await, passes("SERVING"));
    assert_eq!(ask(address, probe(Some(ProbeTls { ca: None }))).await, passes("SERVING"));
    let wrong = "certificate is signed by none of the given CA's";
    assert_eq!(ask(address, probe(Pki::new().trusted())).await, fails(wrong));
}

#[tokio::test]
async fn a_check_is_never_asked_twice_at_once_and_its_answers_are_told_as_they_change() {
    let at_once = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = at_once.clone();
    let address = server(move |mut stream| {
        let seen = seen.clone();
        async move {
            let others = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            request(&mut stream).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            let code = if others == 0 { 200 } else { 500 };
            seen.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            let _ = stream.write_all(format!("HTTP/1.1 {code} OK\r\n\r\n").as_bytes()).await;
        }
    })
    .await;
    let host = Host::new();
    let mut asked = host.watch(address, Asks::Http(get()));
    for _ in 0..10 {
        let answer = asked.next().await;
        assert_eq!((answer.verdict, &*answer.text), (Verdict::Passes, "200 OK"));
        assert!(answer.took >= Duration::from_millis(100));
    }
}

#[tokio::test]
async fn more_than_there_are_descriptors_for_wait_for_their_turn_and_that_is_said() {
    let silent_one = mute().await;
    let launcher = host::TestLauncher { files: Some(40), ..Default::default() };
    let mut host = Host::with(launcher);
    let slow = Schedule { timeout: QUICK, ..schedule(silent_one, Asks::Http(get())) };
    let mut asked: Vec<Asked> = (0..50).map(|_| host.watch_with(slow.clone())).collect();
    for asked in &mut asked {
        let answer = asked.next().await;
        assert_eq!((answer.verdict, &*answer.text), (Verdict::Silent, "no answer within 300 ms"));
    }
    let Report::Trouble { text, .. } = host.report().await else { panic!("no trouble") };
    assert!(text.ends_with("8 connections are open, which is the most at a time"), "{text}");
}
