//! The real program against a host that does what the test says: output and exit status of every command.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)] // a test panics to say what is wrong

mod acting;
mod configuration;
mod contexts;
mod dashboard;
mod ending;
mod exec;
mod fake;
mod familiar;
mod files;
mod fleet;
mod generate;
mod images;
mod local;
mod looking;
mod machine;
mod metrics;
mod nodes;
mod reaching;
mod reading;
mod statuses;
mod streams;
mod support;
mod terminal;
mod transcript;
mod watch;

#[path = "../../src/samples.rs"]
#[allow(dead_code, reason = "unit tests use the rest")]
mod samples;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use fake::{Fake, State};
use kelson_proto::v1::{Event, Service};

/// Variables of the program that the environment of the tests may have.
pub const ENVIRONMENT: &str =
    "KELSON_ENDPOINT KELSONCONFIG HOME XDG_CONFIG_HOME NO_COLOR LC_ALL LC_CTYPE LANG COLORTERM";

/// The program, in an environment without words for it.
pub fn kelsonctl() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kelsonctl"));
    for name in ENVIRONMENT.split(' ') {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// The program with words, against the socket.
pub fn at(socket: &Path, words: &str) -> Command {
    let mut command = kelsonctl();
    command.arg("-e").arg(format!("unix://{}", socket.display())).args(words.split_whitespace());
    command
}

/// The result of a call.
#[derive(Debug, PartialEq, Eq)]
pub struct Done {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    /// It ended with this status, and said nothing beside its output.
    #[track_caller]
    pub fn silent(self, status: i32) -> Done {
        assert_eq!((self.status, self.err.as_str()), (status, ""), "{self:?}");
        self
    }

    /// It ended with this status, and there is no output.
    #[track_caller]
    pub fn refused(self, status: i32) -> Done {
        assert_eq!((self.status, self.out.as_str()), (status, ""), "{self:?}");
        self
    }
}

pub fn done(output: Output) -> Done {
    use std::os::unix::process::ExitStatusExt as _;
    Done {
        // As a shell tells of a signal.
        status: output.status.code().or(output.status.signal().map(|signal| 128 + signal)).unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Fake {
    /// Runs the program with these words against this host.
    pub fn run(&self, words: &str) -> Done {
        done(at(&self.socket(), words).output().unwrap())
    }

    /// The same, with a result in JSON.
    pub fn json(&self, words: &str) -> serde_json::Value {
        serde_json::from_str(&self.run(&format!("-o json {words}")).silent(0).out).unwrap()
    }
}

pub fn service(name: &str, state: kelson_proto::v1::State) -> Service {
    let since = Some(prost_types::Timestamp { seconds: 1_795_254_485, nanos: 123_000_000 });
    Service { since, ..samples::service(name, state) }
}

pub fn event(seq: u64, name: &str, message: &str) -> Event {
    let running = kelson_proto::v1::State::Running;
    Event { time: samples::at(1_795_254_485), ..samples::event(seq, name, running, message) }
}

/// A database that is up, and a web server that waits for a path.
pub fn two() -> State {
    use kelson_proto::v1::State::{Running, Waiting};
    let db = Service { up: true, pid: Some(812), restarts: 1, ..service("db", Running) };
    let web = Service { waiting_for: vec!["path \"/run/x\" to exist".to_owned()], ..service("web", Waiting) };
    State { services: vec![db, web], ..State::default() }
}
