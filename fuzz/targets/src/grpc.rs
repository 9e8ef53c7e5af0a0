//! gRPC without its generated code: calls whose messages are any bytes, and a host that answers with any.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use h2::client::SendRequest;
use hyper::body::Bytes;
use hyper::{Method, Request, Response};
use tokio::net::{UnixListener, UnixStream};

/// One call.
pub struct Call<'a> {
    pub path: &'a str,
    /// On whose behalf, in the words of kelson-apid.
    pub identity: Option<&'a [u8]>,
    pub messages: Vec<&'a [u8]>,
}

/// A message as it stands in a stream.
fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("an input is short");
    let mut bytes = vec![0];
    bytes.extend(length.to_be_bytes());
    bytes.extend(message);
    bytes.into()
}

/// A connection to a host.
pub async fn connect(socket: &Path) -> SendRequest<Bytes> {
    let stream = UnixStream::connect(socket).await.expect("the host listens");
    let (sender, connection) = h2::client::handshake(stream).await.expect("a connection");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    sender
}

/// Makes a call and reads its answer, of which no more than this is taken.
pub async fn call(sender: &SendRequest<Bytes>, call: &Call<'_>) {
    const ANSWER: usize = 1 << 20;
    const LISTENS: Duration = Duration::from_secs(3);
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://kelson{}", call.path))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", "5S");
    if let Some(identity) = call.identity {
        request = request.header("kelson-identity", identity).header("kelson-role", "os:admin");
    }
    // A value that cannot stand in a header cannot be sent.
    let Ok(request) = request.body(()) else { return };
    let Ok(mut sender) = sender.clone().ready().await else { return };
    let Ok((response, mut body)) = sender.send_request(request, false) else { return };
    for message in &call.messages {
        let _ = body.send_data(framed(message), false);
    }
    let _ = body.send_data(Bytes::new(), true);
    let Ok(response) = response.await else { return };
    let mut stream = response.into_body();
    let mut read = 0;
    let rest = async {
        while let Some(Ok(bytes)) = stream.data().await {
            read += bytes.len();
            if read > ANSWER || stream.flow_control().release_capacity(bytes.len()).is_err() {
                return;
            }
        }
        let _ = stream.trailers().await;
    };
    // The rest goes on for as long as somebody listens.
    let _ = tokio::time::timeout(LISTENS, rest).await;
}

/// The answer of a host to every call.
pub struct Answer {
    pub messages: Vec<Vec<u8>>,
    pub status: u8,
}

/// A host on a socket, until it is dropped with its runtime.
pub fn host(socket: &Path, answer: &Arc<Answer>) {
    let listener = UnixListener::bind(socket).expect("a socket of this target");
    let answer = Arc::clone(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&answer)));
        }
    });
}

async fn serve(stream: UnixStream, answer: Arc<Answer>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let head = Response::builder().header("content-type", "application/grpc").body(());
        let Ok(mut body) = respond.send_response(head.expect("a plain head"), false) else { continue };
        for message in &answer.messages {
            let _ = body.send_data(framed(message), false);
        }
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("grpc-status", u16::from(answer.status).into());
        let _ = body.send_trailers(trailers);
    }
}
