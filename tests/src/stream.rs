//! A program whose lines are read as they come.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::ctl::Output;
use crate::deadline::PATIENCE;

/// The lines of a running program. It is killed when this is dropped.
#[derive(Debug)]
pub struct Lines {
    child: Child,
    lines: Receiver<String>,
    name: String,
}

impl Lines {
    /// Starts it; `name` is for messages.
    pub fn of(mut command: Command, name: &str) -> Lines {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let output = child.stdout.take().expect("it is piped");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        Lines { child, lines, name: name.to_owned() }
    }

    /// The next line; `None` when none comes in time or the program has ended.
    pub fn next(&mut self, patience: Duration) -> Option<String> {
        self.lines.recv_timeout(patience).ok()
    }

    /// The next line, which is `what`; panics when none comes in time or the program has ended.
    #[track_caller]
    pub fn one(&mut self, what: &str, patience: Duration) -> String {
        self.lines.recv_timeout(patience).unwrap_or_else(|error| self.give_up(what, &[], error))
    }

    /// The next line that holds `text`; panics when none comes in time.
    #[track_caller]
    pub fn find(&mut self, text: &str, patience: Duration) -> String {
        let deadline = Instant::now() + patience;
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(error) => self.give_up(&format!("line with \"{text}\""), &seen, error),
            }
        }
    }

    /// All lines up to the program's end, and its end.
    #[track_caller]
    pub fn rest(mut self) -> (Vec<String>, Output) {
        let mut rest = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{} does not end; so far\n{}", self.name, rest.join("\n"))
                }
            }
        }
        let status = self.child.wait().expect("it is our child").code().unwrap_or(-1);
        let stderr = self.stderr();
        (rest, Output::new(status, String::new(), stderr, self.name.clone()))
    }
}

impl Lines {
    /// Ends the test and the program, with what that said.
    #[track_caller]
    fn give_up(&mut self, what: &str, seen: &[String], error: RecvTimeoutError) -> ! {
        let why = if error == RecvTimeoutError::Timeout { "in time" } else { "before its end" };
        let _ = self.child.kill();
        let (stderr, seen, name) = (self.stderr(), seen.join("\n"), &self.name);
        panic!("{name}: no {what} {why}; there came\n{seen}\nand on stderr\n{stderr}");
    }

    /// All of it; to be asked for once the program has ended.
    fn stderr(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            let _ = pipe.read_to_string(&mut text);
        }
        text
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
