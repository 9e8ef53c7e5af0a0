//! A registry of images for tests, over TLS, that can be as hostile as a test wants.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::authority::Authority;
use crate::image::{Image, hex_digest, parts};
use crate::signer::{self, Signed};

const OCI: &str = "application/vnd.oci.image";

/// What a registry does besides what it should.
#[derive(Debug, Default)]
pub struct Faults {
    /// Each answer with a blob is cut off after this number of bytes.
    pub cut_after: Option<usize>,
    /// The next answers have these statuses, with `Retry-After` where it is not 0.
    pub statuses: Vec<(u16, u64)>,
    /// Layers have another byte.
    pub damaged: bool,
    /// Layers have this number of bytes more (or fewer).
    pub longer: i64,
    /// Only a token opens it, which holds for this number of requests.
    pub token_uses: Option<u64>,
    /// Only this `Authorization` opens it, or the server of tokens.
    pub credentials: Option<String>,
    /// Where blobs are instead.
    pub blobs_at: Option<String>,
    /// A pause before each 64 KiB of a blob.
    pub pace: Duration,
    /// Knows no ranges.
    pub whole: bool,
    /// Connections are closed at once.
    pub down: bool,
    /// An answer with a blob stops in its middle and waits.
    pub stall: bool,
}

/// A request that came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub authorization: Option<String>,
    pub range: Option<String>,
}

#[derive(Default)]
struct State {
    /// `REPOSITORY/REFERENCE`: media type and bytes.
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    /// `sha256:…`
    blobs: BTreeMap<String, Vec<u8>>,
    faults: Faults,
    asked: Vec<Asked>,
    tokens: BTreeMap<String, u64>,
}

/// A registry at a free port of the loopback. It serves until the test ends.
#[derive(Clone)]
pub struct Registry {
    /// `127.0.0.1:PORT`.
    pub host: String,
    state: Arc<Mutex<State>>,
    /// Bytes of blobs that were sent.
    sent: Arc<AtomicU64>,
}

impl Registry {
    /// With the certificate of the CA's machine; `None`: plain HTTP.
    pub fn start(authority: Option<&Authority>) -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Registry::serve(listener, authority)
    }

    /// At this address.
    pub fn serve(listener: TcpListener, authority: Option<&Authority>) -> Registry {
        let host = listener.local_addr().expect("a bound socket").to_string();
        let tls = authority.map(tls);
        let registry = Registry { host, state: Arc::default(), sent: Arc::default() };
        let serving = registry.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (registry, tls) = (serving.clone(), tls.clone());
                if registry.state().faults.down {
                    continue;
                }
                std::thread::spawn(move || {
                    // A client that goes away is no failure of the registry.
                    let _ = match tls {
                        Some(tls) => {
                            ServerConnection::new(tls).map_err(io::Error::other).and_then(|connection| {
                                registry.answer(&mut StreamOwned::new(connection, stream))
                            })
                        }
                        None => registry.answer(&mut { stream }),
                    };
                });
            }
        });
        registry
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn fault(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state().faults);
    }

    /// The requests so far, which are then forgotten.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state().asked)
    }

    /// Bytes of blobs that were sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Takes images of one name, each for its architecture, as a push does. Its name is `REPOSITORY:TAG`. Returns the
    /// digest of the tag: of the manifest, or of the index where there are several.
    pub fn push(&self, images: &[Image]) -> String {
        let (repository, tag) = images[0].reference.rsplit_once(':').expect("REPOSITORY:TAG");
        let mut descriptors = Vec::new();
        let mut state = self.state();
        let mut top = (String::new(), Vec::new());
        for image in images {
            let (manifest, blobs) = parts(image);
            state.blobs.extend(blobs);
            let digest = format!("sha256:{}", hex_digest(&manifest));
            top = (format!("{OCI}.manifest.v1+json"), manifest.clone());
            descriptors.push(json!({
                "mediaType": top.0, "digest": digest, "size": manifest.len(),
                "platform": {"os": "linux", "architecture": image.architecture},
            }));
            state.manifests.insert(format!("{repository}/{digest}"), top.clone());
        }
        if images.len() > 1 {
            top = index(&descriptors);
        }
        let digest = format!("sha256:{}", hex_digest(&top.1));
        state.manifests.insert(format!("{repository}/{digest}"), top.clone());
        state.manifests.insert(format!("{repository}/{tag}"), top);
        digest
    }

    /// Takes signatures of an image of a repository, in the place of those before.
    pub fn attach(&self, repository: &str, digest: &str, signatures: &[Signed]) {
        let (manifest, blobs) = signer::parts(signatures);
        let mut state = self.state();
        state.blobs.extend(blobs);
        let name = format!("{repository}/{}", signer::tag(digest));
        state.manifests.insert(name, (format!("{OCI}.manifest.v1+json"), manifest));
    }

    fn answer(&self, stream: &mut (impl Read + Write)) -> io::Result<()> {
        let mut lines = Vec::new();
        let mut reader = BufReader::new(&mut *stream);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let header = |name: &str| {
            lines.iter().skip(1).find_map(|line| {
                let (found, value) = line.split_once(':')?;
                found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
        let asked = Asked { path, authorization: header("authorization"), range: header("range") };
        let mut state = self.state();
        state.asked.push(asked.clone());
        let reply = state.reply(&asked, &self.host);
        let Faults { cut_after: cut, stall, pace, .. } = state.faults;
        drop(state);
        let Reply { status, headers, body, blob } = reply;
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
        )?;
        let end = match cut {
            Some(most) if blob => most.min(length),
            _ => length,
        };
        if stall && blob {
            stream.write_all(&body[..end / 2])?;
            stream.flush()?;
            std::thread::sleep(Duration::from_secs(60));
            return Ok(());
        }
        for part in body[..end].chunks(64 << 10) {
            if blob {
                std::thread::sleep(pace);
            }
            stream.write_all(part)?;
        }
        if blob {
            self.sent.fetch_add(end as u64, Ordering::SeqCst);
        }
        stream.flush()
    }
}

struct Reply {
    status: u16,
    headers: String,
    body: Vec<u8>,
    blob: bool,
}

impl Reply {
    fn of(status: u16, headers: String) -> Reply {
        Reply { status, headers, body: Vec::new(), blob: false }
    }
}

impl State {
    fn reply(&mut self, asked: &Asked, host: &str) -> Reply {
        if let Some((status, after)) =
            (!self.faults.statuses.is_empty()).then(|| self.faults.statuses.remove(0))
        {
            let after = if after > 0 { format!("Retry-After: {after}\r\n") } else { String::new() };
            return Reply::of(status, after);
        }
        if asked.path.starts_with("/token?") {
            return self.token(asked);
        }
        if let Some(refusal) = self.refuse(asked, host) {
            return refusal;
        }
        let Some(path) = asked.path.strip_prefix("/v2/") else { return Reply::of(404, String::new()) };
        if let Some((repository, reference)) = path.split_once("/manifests/") {
            return match self.manifests.get(&format!("{repository}/{reference}")) {
                Some((media_type, bytes)) => Reply {
                    status: 200,
                    headers: format!(
                        "Content-Type: {media_type}\r\nDocker-Content-Digest: sha256:{}\r\n",
                        hex_digest(bytes)
                    ),
                    body: bytes.clone(),
                    blob: false,
                },
                None => Reply::of(404, String::new()),
            };
        }
        let Some((_, digest)) = path.split_once("/blobs/") else { return Reply::of(404, String::new()) };
        if let Some(place) = &self.faults.blobs_at {
            return Reply::of(307, format!("Location: {place}/v2/{path}\r\n"));
        }
        match self.blobs.get(digest) {
            Some(bytes) => self.blob(bytes.clone(), asked),
            None => Reply::of(404, String::new()),
        }
    }

    fn blob(&self, mut bytes: Vec<u8>, asked: &Asked) -> Reply {
        let is_layer = serde_json::from_slice::<Value>(&bytes).is_err();
        if self.faults.damaged && is_layer {
            bytes[0] ^= 1;
        }
        if is_layer {
            let length = bytes.len() as i64 + self.faults.longer;
            bytes.resize(usize::try_from(length).expect("it stays positive"), 0);
        }
        let from = asked
            .range
            .as_deref()
            .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        match from.filter(|_| !self.faults.whole) {
            Some(from) => {
                let total = bytes.len();
                let headers = format!("Content-Range: bytes {from}-{}/{total}\r\n", total - 1);
                Reply { status: 206, headers, body: bytes.split_off(from), blob: true }
            }
            None => Reply { status: 200, headers: String::new(), body: bytes, blob: true },
        }
    }

    fn token(&mut self, asked: &Asked) -> Reply {
        if self.faults.credentials.is_some() && self.faults.credentials != asked.authorization {
            return Reply::of(401, String::new());
        }
        let token = format!("token-{}", self.tokens.len());
        self.tokens.insert(format!("Bearer {token}"), self.faults.token_uses.unwrap_or(u64::MAX));
        let body = json!({"token": token}).to_string().into_bytes();
        Reply { status: 200, headers: String::new(), body, blob: false }
    }

    fn refuse(&mut self, asked: &Asked, host: &str) -> Option<Reply> {
        if self.faults.token_uses.is_some() {
            let left = asked.authorization.as_ref().and_then(|token| self.tokens.get_mut(token));
            return match left.filter(|left| **left > 0) {
                Some(left) => {
                    *left -= 1;
                    None
                }
                None => Some(Reply::of(
                    401,
                    format!("WWW-Authenticate: Bearer realm=\"https://{host}/token\",service=\"test\"\r\n"),
                )),
            };
        }
        let wanted = self.faults.credentials.as_ref()?;
        (asked.authorization.as_ref() != Some(wanted))
            .then(|| Reply::of(401, "WWW-Authenticate: Basic realm=\"test\"\r\n".to_owned()))
    }
}

fn index(descriptors: &[Value]) -> (String, Vec<u8>) {
    let media_type = format!("{OCI}.index.v1+json");
    let index = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": descriptors});
    (media_type, index.to_string().into_bytes())
}

fn tls(authority: &Authority) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(authority.path("machine.pem")).expect("a certificate");
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(authority.path("machine.key")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a key that fits its certificate");
    Arc::new(config)
}

/// A proxy that opens ways to servers, and how many it has opened.
pub fn proxy() -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let host = listener.local_addr().expect("a bound socket").to_string();
    let opened = Arc::<AtomicU64>::default();
    let counts = Arc::clone(&opened);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let counts = Arc::clone(&counts);
            std::thread::spawn(move || open(client, &counts));
        }
    });
    (host, opened)
}

fn open(mut client: TcpStream, counts: &AtomicU64) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default();
    let mut server = TcpStream::connect(target)?;
    counts.fetch_add(1, Ordering::SeqCst);
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || io::copy(&mut from, &mut to));
    io::copy(&mut server, &mut client)?;
    client.shutdown(std::net::Shutdown::Both)
}
