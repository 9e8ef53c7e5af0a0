//! As much of redis' protocol as a counter needs. A connection serves one visitor: redis may go and come back
//! at any time, and the next visitor connects again.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer that is asked for here is longer.
const ANSWER_MAX: u64 = 64 << 10;

pub struct Connection<S = TcpStream> {
    stream: BufReader<S>,
}

impl Connection {
    /// `timeout` bounds the connecting, and each read and write after it.
    pub fn open(address: SocketAddr, timeout: Duration) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Connection { stream: BufReader::new(stream) })
    }
}

impl<S: Read + Write> Connection<S> {
    /// Sends a command and returns its answer: a text or a number as text, `None` where redis has no value.
    ///
    /// # Errors
    /// The connection's, and what redis itself refuses, in its words.
    pub fn ask(&mut self, words: &[&str]) -> io::Result<Option<String>> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(command.as_bytes())?;

        let line = self.line()?;
        let strange = || io::Error::other(format!("a strange answer: {line:?}"));
        let (kind, rest) = line.split_at_checked(1).ok_or_else(strange)?;
        match kind {
            "+" | ":" => Ok(Some(rest.to_owned())),
            "-" => Err(io::Error::other(rest.to_owned())),
            "$" if rest == "-1" => Ok(None),
            "$" => {
                let length: u64 = rest.parse().map_err(|_| strange())?;
                if length > ANSWER_MAX {
                    return Err(strange());
                }
                self.text(length).map(Some)
            }
            _ => Err(strange()),
        }
    }

    /// A text of this many bytes, and the end of its line.
    fn text(&mut self, length: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        (&mut self.stream).take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length || !self.line()?.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        (&mut self.stream).take(ANSWER_MAX).read_until(b'\n', &mut line)?;
        let line = line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(String::from_utf8_lossy(line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers what it was given, and keeps what it was asked.
    struct Peer {
        answers: &'static [u8],
        asked: Vec<u8>,
    }

    impl Read for Peer {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.answers.read(buffer)
        }
    }

    impl Write for Peer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.asked.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn connection(answers: &'static [u8]) -> Connection<Peer> {
        Connection { stream: BufReader::new(Peer { answers, asked: Vec::new() }) }
    }

    #[test]
    fn numbers_texts_and_nothing_are_answers() {
        let mut redis = connection(b":7\r\n$5\r\nhello\r\n$-1\r\n+OK\r\n");
        assert_eq!(redis.ask(&["INCR", "visits"]).ok(), Some(Some("7".to_owned())));
        assert_eq!(redis.stream.get_ref().asked, b"*2\r\n$4\r\nINCR\r\n$6\r\nvisits\r\n");
        assert_eq!(redis.ask(&["GET", "greeting"]).ok(), Some(Some("hello".to_owned())));
        assert_eq!(redis.ask(&["GET", "nothing"]).ok(), Some(None));
        assert_eq!(redis.ask(&["PING"]).ok(), Some(Some("OK".to_owned())));
    }

    #[test]
    fn a_refusal_is_in_redis_own_words() {
        let refused = connection(b"-LOADING Redis is loading\r\n").ask(&["PING"]);
        assert_eq!(refused.map_err(|error| error.to_string()), Err("LOADING Redis is loading".to_owned()));
    }

    #[test]
    fn a_torn_or_strange_answer_is_an_error() {
        for answers in [&b""[..], b":7", b"$5\r\nhel", b"$99999999999\r\n", b"\r\n", b"*1\r\n"] {
            assert!(connection(answers).ask(&["PING"]).is_err(), "{}", answers.escape_ascii());
        }
    }
}
