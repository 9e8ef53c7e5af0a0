//! `grpc`: `grpc.health.v1.Health/Check`, on a connection of its own.

use std::net::SocketAddr;

use h2::RecvStream;
use h2::client::{self, SendRequest};
use hyper::body::Bytes as Data;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use kelson_spec::service::GrpcProbe;
use prost::Message as _;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::answer::{Answer, Deadline, Unaskable};
use super::stream::{Bytes, beside};
use super::text;
use super::tls::{Tls, connect};

const METHOD: &str = "/grpc.health.v1.Health/Check";
const AGENT: HeaderValue = HeaderValue::from_static(concat!("kelson-probe/", env!("CARGO_PKG_VERSION")));
/// A message begins with whether it is compressed and its length.
const PREFIX: usize = 5;
/// The answer is a few bytes; longer is none.
const ANSWER_MAX: usize = 4 << 10;
const HEAD_MAX: u32 = 16 << 10;
/// Codes of gRPC with a meaning of their own here.
const OK: i32 = 0;
const NOT_FOUND: i32 = 5;
const UNIMPLEMENTED: i32 = 12;

/// The call that the check makes.
pub struct Call {
    uri: Uri,
    message: Data,
    service: String,
    tls: Option<Tls>,
}

impl Call {
    pub fn new(asks: &GrpcProbe, address: SocketAddr) -> Result<Call, Unaskable> {
        let scheme = if asks.tls.is_some() { "https" } else { "http" };
        let authority = match &asks.host {
            Some(host) => format!("{host}:{}", address.port()),
            None => address.to_string(),
        };
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(authority.as_str())
            .path_and_query(METHOD)
            .build()
            .map_err(|_| Unaskable::Authority(authority))?;
        let request = HealthCheckRequest { service: asks.service.clone() }.encode_to_vec();
        let length = u32::try_from(request.len()).unwrap_or(u32::MAX);
        let mut message = vec![0];
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(&request);
        let tls = match &asks.tls {
            Some(tls) => Some(Tls::new(tls, asks.host.as_deref(), address, b"h2")?),
            None => None,
        };
        Ok(Call { uri, message: message.into(), service: asks.service.clone(), tls })
    }

    pub async fn ask(&self, address: SocketAddr, deadline: Deadline) -> Result<Answer, Answer> {
        let stream = connect(address, self.tls.as_ref(), deadline).await?;
        deadline.bounds("answer", self.talk(stream)).await
    }

    async fn talk(&self, stream: Box<dyn Bytes>) -> Result<Answer, Answer> {
        let (sender, connection) = client::Builder::new()
            .enable_push(false)
            .max_header_list_size(HEAD_MAX)
            .handshake::<_, Data>(stream)
            .await
            .map_err(|error| failure(&error))?;
        let end = |ended: Result<(), h2::Error>| {
            let closed = || Answer::fails("connection closed before the answer");
            Some(Err(ended.map_or_else(|error| failure(&error), |()| closed())))
        };
        beside(connection, self.call(sender), end).await
    }

    async fn call(&self, sender: SendRequest<Data>) -> Result<Answer, Answer> {
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
            return Err(Answer::fails(format!("status {}: no gRPC server", response.status().as_u16())));
        }
        // A server that has nothing to say but an error says it in the head.
        if let Some(refused) = self.refused(response.headers()) {
            return Err(refused);
        }
        let mut stream = response.into_body();
        let message = message(&mut stream).await?;
        let trailers = stream.trailers().await.map_err(|error| failure(&error))?;
        if let Some(refused) = trailers.as_ref().and_then(|trailers| self.refused(trailers)) {
            return Err(refused);
        }
        let message = message.get(PREFIX..).unwrap_or_default();
        let answer = HealthCheckResponse::decode(message)
            .map_err(|_| Answer::fails("the answer is none of grpc.health.v1"))?;
        Err(match answer.status() {
            ServingStatus::Serving => return Ok(Answer::passes("SERVING")),
            ServingStatus::NotServing => Answer::fails("NOT_SERVING"),
            ServingStatus::Unknown => Answer::fails("UNKNOWN"),
            ServingStatus::ServiceUnknown => self.unknown(),
        })
    }

    fn unknown(&self) -> Answer {
        Answer::fails(format!("the server knows no service {:?}", self.service))
    }

    /// Makes an answer of a gRPC status, unless it is OK or not here.
    fn refused(&self, headers: &HeaderMap) -> Option<Answer> {
        let code: i32 = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
        let said = headers.get("grpc-message").map(|message| percent_decoded(message.as_bytes()));
        match code {
            OK => None,
            NOT_FOUND => Some(self.unknown()),
            UNIMPLEMENTED => Some(Answer::fails("UNIMPLEMENTED: the server has no grpc.health.v1")),
            code => {
                let name = name(code);
                Some(Answer::fails(match said.filter(|said| !said.is_empty()) {
                    Some(said) => format!("{name}: {said}"),
                    None => name.to_owned(),
                }))
            }
        }
    }
}

/// The bytes of the answer.
async fn message(stream: &mut RecvStream) -> Result<Vec<u8>, Answer> {
    let mut bytes = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.map_err(|error| failure(&error))?;
        // Reading makes room for more; if the connection is gone, the next step reports it.
        let _ = stream.flow_control().release_capacity(data.len());
        bytes.extend_from_slice(&data);
        if bytes.len() > ANSWER_MAX {
            return Err(Answer::fails("the answer is none of grpc.health.v1: it is too long"));
        }
    }
    Ok(bytes)
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
        6 => "ALREADY_EXISTS",
        7 => "PERMISSION_DENIED",
        8 => "RESOURCE_EXHAUSTED",
        9 => "FAILED_PRECONDITION",
        10 => "ABORTED",
        11 => "OUT_OF_RANGE",
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
