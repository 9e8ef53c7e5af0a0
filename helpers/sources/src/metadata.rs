//! The metadata of a machine in a cloud, as EC2 serves them (version 2, with tokens), and other clouds after it.
//!
//! A session begins with a token, which each question carries. All of it is HTTP on the link of the machine, so no name is
//! looked up and nothing is encrypted.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kelson_load::TREE_MAX;

use crate::SourceError;
use crate::no_cloud::{Seed, seed};

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// The pause after an attempt that failed: the network may come up, and the service of the cloud with it.
const AGAIN: Duration = Duration::from_secs(1);
/// For how long a token is asked for.
const TOKEN_SECONDS: u32 = 60;
/// The longest header of an answer.
const HEADER_MAX: usize = 16 << 10;

/// Why there is no metadata.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// Another attempt may succeed.
    #[error("{0} does not answer: {1}")]
    Unreachable(SocketAddr, io::Error),
    #[error("{path}: the answer has status {status}; 200 was expected")]
    Status { path: &'static str, status: u16 },
    #[error("{path}: the answer makes no sense: {what}")]
    Answer { path: &'static str, what: &'static str },
    #[error("{0}")]
    Source(#[from] SourceError),
}

/// An answer of HTTP.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    pub status: u16,
    pub body: &'a [u8],
}

/// Reads an answer that is complete.
///
/// # Errors
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Answer<'_>, &'static str> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or("its header does not end")?;
    let (header, body) = bytes.split_at(end);
    let header = std::str::from_utf8(header).map_err(|_| "its header is not text")?;
    let mut body = body.get(4..).unwrap_or_default();
    let mut lines = header.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    if !first.next().is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err("it is not HTTP/1");
    }
    let status = first.next().filter(|status| status.len() == 3).and_then(|status| status.parse().ok());
    let status = status.ok_or("it has no status")?;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err("it comes in chunks, which are not read here");
        }
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.trim().parse::<usize>().map_err(|_| "its length is not a number")?;
            body = body.get(..length).ok_or("it is shorter than it says")?;
        }
    }
    Ok(Answer { status, body })
}

/// The seed that the server at this address has, waited for until the deadline.
///
/// # Errors
/// Nobody answers by then, or the answers make no sense.
pub fn read(server: SocketAddr, deadline: Instant) -> Result<Seed, MetadataError> {
    loop {
        match attempt(server) {
            Err(MetadataError::Unreachable(..)) if left(deadline) > AGAIN => sleep(AGAIN),
            result => return result,
        }
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn attempt(server: SocketAddr) -> Result<Seed, MetadataError> {
    let header = format!("X-aws-ec2-metadata-token-ttl-seconds: {TOKEN_SECONDS}");
    let token = ask(server, "PUT", "/latest/api/token", &header, ANSWER)?;
    let token = token.ok_or(MetadataError::Status { path: "/latest/api/token", status: 404 })?;
    let token = text("/latest/api/token", token)?;
    let header = format!("X-aws-ec2-metadata-token: {token}");
    let get = |path| ask(server, "GET", path, &header, ANSWER);
    let id = "/latest/meta-data/instance-id";
    let instance = text(id, get(id)?.unwrap_or_default())?;
    let name = "/latest/meta-data/local-hostname";
    let hostname = get(name)?.map(|name_of| text(name, name_of)).transpose()?;
    let user_data = get("/latest/user-data")?.unwrap_or_default();
    Ok(seed(&instance, hostname.as_deref(), &user_data)?)
}

/// One line of visible characters: it may stand in a header, or in a message.
fn text(path: &'static str, body: Vec<u8>) -> Result<String, MetadataError> {
    let line = String::from_utf8(body).unwrap_or_default().trim().to_owned();
    match line.is_empty() || line.contains(|c: char| !c.is_ascii_graphic()) {
        true => Err(MetadataError::Answer { path, what: "it is no line of text" }),
        false => Ok(line),
    }
}

/// The body of the answer to a question with one line of a header. `None`: the server has nothing at this path.
///
/// # Errors
/// No answer came in this time, or one of another kind.
pub fn ask(
    server: SocketAddr,
    method: &str,
    path: &'static str,
    header: &str,
    within: Duration,
) -> Result<Option<Vec<u8>>, MetadataError> {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\n{header}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        server.ip()
    );
    let bytes =
        exchange(server, &request, within).map_err(|error| MetadataError::Unreachable(server, error))?;
    let answer = parse(&bytes).map_err(|what| MetadataError::Answer { path, what })?;
    match answer.status {
        200 => Ok(Some(answer.body.to_vec())),
        404 => Ok(None),
        status => Err(MetadataError::Status { path, status }),
    }
}

fn exchange(server: SocketAddr, request: &str, within: Duration) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&server, within)?;
    stream.set_write_timeout(Some(within))?;
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let left = within.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(part.get(..count).unwrap_or_default()),
        }
        if bytes.len() > TREE_MAX.saturating_add(HEADER_MAX) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server of metadata that answers each request by its first line and the token in it.
    fn stand_in(answer: fn(&str, Option<&str>) -> (u16, &'static str)) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = io::BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let token = lines.iter().find_map(|line| line.strip_prefix("X-aws-ec2-metadata-token: "));
                let first = lines.first().cloned().unwrap_or_default();
                let asks_for_token =
                    lines.iter().any(|line| line.starts_with("X-aws-ec2-metadata-token-ttl-seconds: "));
                let (status, body) = match first.strip_prefix("PUT /latest/api/token ") {
                    Some(_) if asks_for_token => (200, "tok=="),
                    Some(_) => (400, ""),
                    None => answer(&first, token),
                };
                let length = body.len();
                write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
            }
        });
        address
    }

    fn read_now(server: SocketAddr) -> Result<Seed, String> {
        read(server, Instant::now()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_seed_is_asked_for_with_a_token() {
        let server = stand_in(|line, token| match (line.split(' ').nth(1), token) {
            (_, None) => (401, ""),
            (Some("/latest/meta-data/instance-id"), Some("tok==")) => (200, "i-0abc"),
            (Some("/latest/meta-data/local-hostname"), Some("tok==")) => (200, "ip-10-0-0-1.ec2.internal"),
            (Some("/latest/user-data"), Some("tok==")) => (200, "modules: [a]\n"),
            _ => (403, ""),
        });
        let seed = read_now(server).unwrap();
        assert_eq!((seed.instance.as_str(), seed.files.len()), ("i-0abc", 1));
        let text = String::from_utf8(seed.files[0].content.clone()).unwrap();
        assert_eq!(text, "modules: [a]\nhostname: \"ip-10-0-0-1.ec2.internal\"\n");
    }

    #[test]
    fn a_machine_without_user_data_has_a_name_at_most() {
        let server =
            stand_in(|line, _| if line.contains("instance-id") { (200, "i-1") } else { (404, "<html>") });
        assert_eq!(
            read_now(server).unwrap(),
            Seed { instance: "i-1".to_owned(), files: Vec::new(), of_cloud_init: false }
        );
    }

    #[test]
    fn what_goes_wrong_is_named() {
        let error = read_now(stand_in(|_, _| (403, ""))).unwrap_err();
        assert_eq!(error, "/latest/meta-data/instance-id: the answer has status 403; 200 was expected");
        let error = read_now(stand_in(|_, _| (404, ""))).unwrap_err();
        assert_eq!(error, "/latest/meta-data/instance-id: the answer makes no sense: it is no line of text");
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = read_now(nobody).unwrap_err();
        assert!(error.starts_with(&format!("{nobody} does not answer: ")), "{error}");
    }

    #[test]
    fn a_server_that_comes_late_is_waited_for() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let late = thread::spawn(move || read(address, Instant::now() + Duration::from_secs(20)));
        sleep(Duration::from_millis(200));
        let listener = TcpListener::bind(address).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        // With a part of the request unread, the end of the connection would be a reset.
        let lines = io::BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        lines.take_while(|line| !line.is_empty()).for_each(drop);
        stream.write_all(b"HTTP/1.1 500 no\r\n\r\n").unwrap();
        drop(stream);
        assert!(late.join().unwrap().unwrap_err().to_string().ends_with("has status 500; 200 was expected"));
    }

    #[test]
    fn an_answer_is_read_as_far_as_it_says() {
        let ok = |bytes: &'static [u8]| parse(bytes).map(|answer| (answer.status, answer.body));
        assert_eq!(ok(b"HTTP/1.0 200 OK\r\nContent-length: 2\r\n\r\nabc"), Ok((200, &b"ab"[..])));
        assert_eq!(ok(b"HTTP/1.1 404 Not Found\r\n\r\nall"), Ok((404, &b"all"[..])));
        for (bytes, what) in [
            (&b"HTTP/1.1 200 OK\r\n"[..], "its header does not end"),
            (b"SSH-2.0\r\n\r\n", "it is not HTTP/1"),
            (b"HTTP/1.1 20 OK\r\n\r\n", "it has no status"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", "it is shorter than it says"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0",
                "it comes in chunks, which are not read here",
            ),
        ] {
            assert_eq!(ok(bytes), Err(what));
        }
    }
}
