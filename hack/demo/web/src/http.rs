//! As much of HTTP as a visitor behind nginx needs: one request a connection, and only its path counts.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A request's head that is longer than this is refused.
const HEAD_MAX: u64 = 8 << 10;

/// Reads a request as far as its empty line and returns its path, without what follows a `?`.
pub fn read_path(visitor: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    let mut visitor = visitor.take(HEAD_MAX);
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = visitor.read(&mut piece)?;
        if length == 0 {
            return Err(io::Error::other("the head of the request has no end within 8 KiB"));
        }
        head.extend_from_slice(&piece[..length]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET" | "HEAD"), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
            Ok(target.split('?').next().unwrap_or_default().to_owned())
        }
        _ => Err(io::Error::other("only GET is understood")),
    }
}

/// The answer to a visitor.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    pub fn good(text: &str) -> Answer {
        Answer { status: 200, text: text.to_owned() }
    }

    pub fn bad(status: u16, text: &str) -> Answer {
        Answer { status, text: text.to_owned() }
    }

    pub fn write(&self, visitor: &mut impl Write) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            _ => "Service Unavailable",
        };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            self.status,
            self.text.len()
        );
        visitor.write_all(format!("{head}{}", self.text).as_bytes())
    }
}

/// The whole answer of a server to a GET, at most as long as a head may be.
pub fn get(address: SocketAddr, path: &str, timeout: Duration) -> io::Result<String> {
    let mut server = TcpStream::connect_timeout(&address, timeout)?;
    server.set_read_timeout(Some(timeout))?;
    server.set_write_timeout(Some(timeout))?;
    server.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    server.take(HEAD_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_read_without_its_query() {
        let mut request: &[u8] = b"GET /healthz?full=1 HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(read_path(&mut request).ok().as_deref(), Some("/healthz"));
    }

    #[test]
    fn a_head_without_an_end_is_refused() {
        let mut cut: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n";
        assert!(read_path(&mut cut).is_err());
        let mut long = io::repeat(b'a');
        assert!(read_path(&mut long).is_err());
    }

    #[test]
    fn other_methods_are_refused() {
        let mut request: &[u8] = b"POST / HTTP/1.1\r\n\r\n";
        assert!(read_path(&mut request).is_err());
    }

    #[test]
    fn an_answer_tells_its_length() {
        let mut written = Vec::new();
        assert!(Answer::good("visits: 1\n").write(&mut written).is_ok());
        let text = String::from_utf8_lossy(&written).into_owned();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Length: 10\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nvisits: 1\n"), "{text}");
    }
}
