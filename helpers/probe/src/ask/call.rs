//! One call of gRPC, on a connection of its own.

use h2::RecvStream;
use h2::client::{self, SendRequest};
use hyper::body::Bytes as Data;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use prost::Message;

use super::answer::{Answer, Unaskable};
use super::stream::{Bytes, beside};
use super::text;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("kelson-probe/", env!("CARGO_PKG_VERSION")));
/// A message begins with whether it is compressed and its length.
const PREFIX: usize = 5;
/// The answer is a few bytes; longer is none.
const ANSWER_MAX: usize = 4 << 10;
const HEAD_MAX: u32 = 16 << 10;
const OK: i32 = 0;

/// The method of a server, and what it is sent.
pub struct Call {
    uri: Uri,
    message: Data,
    /// For messages about its answers: `grpc.health.v1`.
    package: &'static str,
}

/// Why a call gave no answer.
pub enum Failure {
    Status(Status),
    /// The connection, or something that is no gRPC.
    Other(Answer),
}

/// The status with which a server refuses a call.
pub struct Status {
    pub code: i32,
    pub message: String,
}

impl From<Answer> for Failure {
    fn from(answer: Answer) -> Failure {
        Failure::Other(answer)
    }
}

impl From<Status> for Answer {
    fn from(status: Status) -> Answer {
        let name = name(status.code);
        Answer::fails(match status.message.is_empty() {
            false => format!("{name}: {}", status.message),
            true => name.to_owned(),
        })
    }
}

impl Call {
    /// `path`: of the method, such as `/grpc.health.v1.Health/Check`. `scheme`, `authority`: of the server.
    pub fn new(
        scheme: &str,
        authority: String,
        (package, path): (&'static str, &'static str),
        request: &impl Message,
    ) -> Result<Call, Unaskable> {
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(authority.as_str())
            .path_and_query(path)
            .build()
            .map_err(|_| Unaskable::Authority(authority))?;
        let request = request.encode_to_vec();
        let length = u32::try_from(request.len()).unwrap_or(u32::MAX);
        let mut message = vec![0];
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(&request);
        Ok(Call { uri, message: message.into(), package })
    }

    /// Calls over this connection, which ends with the answer.
    pub async fn over<T: Message + Default>(&self, stream: impl Bytes) -> Result<T, Failure> {
        let (sender, connection) = client::Builder::new()
            .enable_push(false)
            .max_header_list_size(HEAD_MAX)
            .handshake::<_, Data>(stream)
            .await
            .map_err(|error| failure(&error))?;
        let end = |ended: Result<(), h2::Error>| {
            let closed = || Answer::fails("connection closed before the answer");
            Some(Err(ended.map_or_else(|error| failure(&error), |()| closed()).into()))
        };
        let message = beside(connection, self.send(sender), end).await?;
        let message = message.get(PREFIX..).unwrap_or_default();
        T::decode(message)
            .map_err(|_| Answer::fails(format!("the answer is none of {}", self.package)).into())
    }

    async fn send(&self, sender: SendRequest<Data>) -> Result<Vec<u8>, Failure> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(USER_AGENT, AGENT);
        let mut sender = sender.ready().await.map_err(|error| failure(&error))?;
        let (response, mut body) = sender.send_request(request, false).map_err(|error| failure(&error))?;
        body.send_data(self.message.clone(), true).map_err(|error| failure(&error))?;
        let response = response.await.map_err(|error| failure(&error))?;
        if response.status() != StatusCode::OK {
            return Err(
                Answer::fails(format!("status {}: no gRPC server", response.status().as_u16())).into()
            );
        }
        // A server that has nothing to say but an error says it in the head.
        refused(response.headers())?;
        let mut stream = response.into_body();
        let message = self.message(&mut stream).await?;
        if let Some(trailers) = stream.trailers().await.map_err(|error| failure(&error))? {
            refused(&trailers)?;
        }
        Ok(message)
    }

    /// The bytes of the answer.
    async fn message(&self, stream: &mut RecvStream) -> Result<Vec<u8>, Answer> {
        let mut bytes = Vec::new();
        while let Some(data) = stream.data().await {
            let data = data.map_err(|error| failure(&error))?;
            // Reading makes room for more; if the connection is gone, the next step reports it.
            let _ = stream.flow_control().release_capacity(data.len());
            bytes.extend_from_slice(&data);
            if bytes.len() > ANSWER_MAX {
                let text = format!("the answer is none of {}: it is too long", self.package);
                return Err(Answer::fails(text));
            }
        }
        Ok(bytes)
    }
}

/// The gRPC status of these headers, unless it is OK or not here.
fn refused(headers: &HeaderMap) -> Result<(), Failure> {
    let code = headers.get("grpc-status").and_then(|code| code.to_str().ok()?.parse().ok());
    let Some(code) = code.filter(|code| *code != OK) else { return Ok(()) };
    let message = headers.get("grpc-message").map(|message| percent_decoded(message.as_bytes()));
    Err(Failure::Status(Status { code, message: message.unwrap_or_default() }))
}

fn failure(error: &h2::Error) -> Answer {
    if let Some(error) = error.get_io() {
        return Answer::fails(text::io_error(error));
    }
    if error.is_remote() {
        let reason = error.reason().map(|reason| format!(": {}", reason.description()));
        return Answer::fails(format!("the server ended the call{}", reason.unwrap_or_default()));
    }
    Answer::fails(format!("the answer is no HTTP/2: {error}"))
}

/// As gRPC's words for its codes are spelt.
fn name(code: i32) -> &'static str {
    match code {
        1 => "CANCELLED",
        3 => "INVALID_ARGUMENT",
        4 => "DEADLINE_EXCEEDED",
        5 => "NOT_FOUND",
        6 => "ALREADY_EXISTS",
        7 => "PERMISSION_DENIED",
        8 => "RESOURCE_EXHAUSTED",
        9 => "FAILED_PRECONDITION",
        10 => "ABORTED",
        11 => "OUT_OF_RANGE",
        12 => "UNIMPLEMENTED",
        13 => "INTERNAL",
        14 => "UNAVAILABLE",
        15 => "DATA_LOSS",
        16 => "UNAUTHENTICATED",
        _ => "UNKNOWN",
    }
}

/// `%41` is `A`; whatever is no such pair stays.
fn percent_decoded(bytes: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, more)) = rest.split_first() {
        let pair = (*first == b'%').then(|| more.get(..2)).flatten();
        let byte = pair
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match byte {
            Some(byte) => {
                decoded.push(byte);
                rest = more.get(2..).unwrap_or_default();
            }
            None => {
                decoded.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_errors_are_readable() {
        assert_eq!(percent_decoded(b"100%25 of %C3%A4 %zz %4"), "100% of ä %zz %4");
    }
}
