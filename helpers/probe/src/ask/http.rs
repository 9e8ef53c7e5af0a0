//! `http`: one GET, on a connection of its own.
//!
//! Redirects are not followed. The status decides, and where a body is wanted, its first [`BODY_MAX`] bytes; nothing
//! more is taken from the peer.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use kelson_spec::pattern;
use kelson_spec::service::HttpProbe;
use regex_lite::Regex;
use tokio::task::JoinSet;

use super::answer::{Answer, Deadline, Unaskable};
use super::stream::beside;
use super::text;
use super::tls::{Tls, connect};
use crate::fault::of_this_check;

/// So much of a body is looked at.
const BODY_MAX: usize = 64 << 10;
/// The longest head of an answer, in bytes, and the most lines of it.
const HEAD_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 256;
/// A pattern and a body whose lengths come to less by one another are matched where we stand; others on a thread, so that
/// no other check waits for them.
const MATCH_HERE: usize = 1 << 18;
const USUAL: RangeInclusive<u16> = 200..=399;
const AGENT: HeaderValue = HeaderValue::from_static(concat!("kelson-probe/", env!("CARGO_PKG_VERSION")));

/// The request that the check makes.
pub struct Get {
    uri: Uri,
    headers: HeaderMap,
    status: Vec<(u16, u16)>,
    body: Option<Arc<Pattern>>,
    tls: Option<Tls>,
}

struct Pattern {
    text: String,
    regex: Regex,
}

impl Get {
    pub fn new(asks: &HttpProbe, address: SocketAddr) -> Result<Get, Unaskable> {
        let uri = asks.path.parse().map_err(|error| Unaskable::Path(asks.path.clone(), error))?;
        let mut headers = HeaderMap::new();
        headers.insert(HOST, value(&host(asks, address))?);
        headers.insert(USER_AGENT, AGENT);
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        for (name, text) in &asks.headers {
            let name =
                HeaderName::try_from(name.as_str()).map_err(|_| Unaskable::HeaderName(name.clone()))?;
            headers.insert(name, value(text)?);
        }
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        let body = match &asks.body {
            Some(text) => {
                let regex =
                    pattern::compile(text).map_err(|error| Unaskable::Pattern(text.clone(), error))?;
                Some(Arc::new(Pattern { text: text.clone(), regex }))
            }
            None => None,
        };
        let tls = match &asks.tls {
            Some(tls) => Some(Tls::new(tls, asks.host.as_deref(), address, b"http/1.1")?),
            None => None,
        };
        Ok(Get { uri, headers, status: asks.status.clone(), body, tls })
    }

    pub async fn ask(&self, address: SocketAddr, deadline: Deadline) -> Result<Answer, Answer> {
        let stream = connect(address, self.tls.as_ref(), deadline).await?;
        let setup = async {
            http1::Builder::new()
                .max_buf_size(HEAD_MAX)
                .max_headers(HEADERS_MAX)
                .handshake::<_, String>(TokioIo::new(stream))
                .await
                .map_err(|error| failure(&error))
        };
        let (mut sender, connection) = deadline.bounds("answer", setup).await?;
        let mut request = Request::new(String::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let talk = async {
            let response = deadline
                .bounds("answer", async {
                    sender.send_request(request).await.map_err(|error| failure(&error))
                })
                .await?;
            self.judge(response, deadline).await
        };
        // The talking side learns of its end, and may be at the search for a pattern by then.
        beside(connection, talk, |_| None).await
    }

    async fn judge(&self, response: Response<Incoming>, deadline: Deadline) -> Result<Answer, Answer> {
        let status = response.status();
        if !self.wanted(status) {
            return Err(Answer::fails(format!("status {}, wanted {}", status.as_u16(), self.ranges())));
        }
        if let Some(pattern) = &self.body {
            let body = deadline.bounds("whole answer", beginning(response.into_body())).await?;
            let matching = matches(Arc::clone(pattern), body);
            if !deadline.bounds("end of the search for the pattern", matching).await? {
                return Err(Answer::fails(format!("{status}, body does not match {:?}", pattern.text)));
            }
        }
        Ok(match status {
            StatusCode::OK => Answer::passes("200 OK"),
            other => Answer::passes(other.to_string()),
        })
    }

    fn wanted(&self, status: StatusCode) -> bool {
        let code = status.as_u16();
        match self.status.as_slice() {
            [] => USUAL.contains(&code),
            ranges => ranges.iter().any(|(first, last)| (*first..=*last).contains(&code)),
        }
    }

    fn ranges(&self) -> String {
        let texts: Vec<String> = match self.status.as_slice() {
            [] => return format!("{}-{}", USUAL.start(), USUAL.end()),
            ranges => ranges
                .iter()
                .map(|(first, last)| match first == last {
                    true => first.to_string(),
                    false => format!("{first}-{last}"),
                })
                .collect(),
        };
        texts.join(" or ")
    }
}

fn value(text: &str) -> Result<HeaderValue, Unaskable> {
    HeaderValue::try_from(text).map_err(|_| Unaskable::HeaderValue(text.to_owned()))
}

/// The value of `Host`: with the port where it is not the scheme's own.
fn host(asks: &HttpProbe, address: SocketAddr) -> String {
    let usual = if asks.tls.is_some() { 443 } else { 80 };
    match (&asks.host, address.port() == usual, address) {
        (Some(host), true, _) => host.clone(),
        (Some(host), false, _) => format!("{host}:{}", address.port()),
        (None, true, SocketAddr::V6(address)) => format!("[{}]", address.ip()),
        (None, true, _) => address.ip().to_string(),
        (None, false, _) => address.to_string(),
    }
}

/// The first bytes of a body, at most [`BODY_MAX`].
async fn beginning(mut body: Incoming) -> Result<Vec<u8>, Answer> {
    let mut bytes = Vec::new();
    while bytes.len() < BODY_MAX
        && let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        let frame = frame.map_err(|error| failure(&error))?;
        if let Some(data) = frame.data_ref() {
            let room = BODY_MAX.saturating_sub(bytes.len());
            bytes.extend_from_slice(data.get(..room).unwrap_or(data));
        }
    }
    Ok(bytes)
}

/// Whether the body holds the pattern. Dropped, a search that has not begun does not begin.
async fn matches(pattern: Arc<Pattern>, body: Vec<u8>) -> Result<bool, Answer> {
    let short = pattern.text.len().saturating_mul(body.len()) < MATCH_HERE;
    // A count in braces makes a short pattern long.
    let here = short && !pattern.text.contains('{');
    let work = move || pattern.regex.is_match(&String::from_utf8_lossy(&body));
    if here {
        return Ok(work());
    }
    let mut searches = JoinSet::new();
    searches.spawn_blocking(of_this_check(work));
    let found = searches.join_next().await.and_then(Result::ok);
    found.ok_or_else(|| Answer::fails("the pattern could not be searched for"))
}

/// Why there is no answer.
fn failure(error: &hyper::Error) -> Answer {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<std::io::Error>() {
            return Answer::fails(text::io_error(error));
        }
        source = inner.source();
    }
    if error.is_parse_version_h2() {
        return Answer::fails("the server speaks nothing but HTTP/2");
    }
    if error.is_parse() {
        let why = error.to_string();
        return Answer::fails(if why.contains("too large") {
            "the head of the answer is too long"
        } else {
            "the answer is no HTTP"
        });
    }
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return Answer::fails("connection closed before the answer");
    }
    Answer::fails(error.to_string())
}
