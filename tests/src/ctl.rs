//! `kelsonctl` as the tests use it, and its JSON.

use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::deadline::{PATIENCE, pause_after};
use crate::paths;
use crate::stream::Lines;

/// One line of `kelsonctl services -o json`, as DESIGN.md fixes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    pub name: String,
    pub state: String,
    pub up: bool,
    pub healthy: Option<bool>,
    pub restarts: u32,
    pub pid: Option<i32>,
    pub since: serde_json::Value,
    pub waiting_for: Vec<String>,
    pub message: String,
    pub builtin: bool,
    pub stopped: bool,
}

/// One line of `kelsonctl events -o json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Event {
    pub seq: u64,
    pub time: serde_json::Value,
    /// Empty: the host itself.
    pub service: String,
    pub state: String,
    pub message: String,
}

impl Event {
    /// When it happened, to the millisecond; only differences mean something.
    #[track_caller]
    pub fn at(&self) -> Duration {
        time_of(&self.time)
    }
}

/// A time that kelsonctl prints, to the millisecond; only differences mean something.
#[track_caller]
pub fn time_of(time: &serde_json::Value) -> Duration {
    let text = time.as_str().unwrap_or_default();
    let numbers: Vec<u64> = text.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect();
    let [_, _, day, hour, minute, second, milli] = numbers[..] else { panic!("{time} is no time") };
    Duration::from_millis((((day * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli)
}

/// The outcome for one service, from `kelsonctl start|stop|restart -o json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Action {
    pub name: String,
    /// `done`, `nothing-to-do`, `superseded`, `refused`, `failed`.
    pub outcome: String,
    pub message: String,
    pub state: String,
    pub up: bool,
}

/// One link of the chain of `kelsonctl why -o json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Reason {
    pub subject: String,
    pub text: String,
    pub state: String,
    pub holds: bool,
    pub causes: Vec<Reason>,
}

/// The result of a command, of `kelsonctl` as a rule.
#[derive(Debug, Clone)]
pub struct Output {
    /// 0 done, 1 failed, 2 usage, 3 not reachable, 4 denied, 5 timed out.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    command: String,
}

impl Output {
    /// Runs a command to its end; `said` is what it is called in messages.
    #[track_caller]
    pub fn of(mut command: Command, said: &str) -> Output {
        let output = command.output().unwrap_or_else(|error| panic!("{said}: {error}"));
        Output {
            // A signal is no status of its own.
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            command: said.to_owned(),
        }
    }

    /// Panics unless the status is 0.
    #[track_caller]
    pub fn ok(self) -> Output {
        self.expect(0)
    }

    /// Panics unless the status is this one.
    #[track_caller]
    pub fn expect(self, status: i32) -> Output {
        assert_eq!(self.status, status, "{}\n{}{}", self.command, self.stdout, self.stderr);
        self
    }

    /// Reads the output as one JSON value.
    #[track_caller]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}{}", self.command, self.stdout, self.stderr))
    }

    /// Reads the output as one JSON value a line.
    #[track_caller]
    pub fn json_lines<T: serde::de::DeserializeOwned>(&self) -> Vec<T> {
        self.stdout.lines().map(|line| read(&self.command, line)).collect()
    }
}

/// `kelsonctl` for one host: where it is and how it is reached.
#[derive(Debug, Clone)]
pub struct Ctl {
    program: PathBuf,
    endpoint: Option<String>,
    config: Option<PathBuf>,
    user: Option<u32>,
}

impl Ctl {
    /// Over a Unix socket, or at another address without certificates.
    pub fn at(endpoint: String) -> Ctl {
        Ctl { program: paths::binary("kelsonctl"), endpoint: Some(endpoint), config: None, user: None }
    }

    /// For commands that ask no host.
    pub fn nowhere() -> Ctl {
        Ctl { program: paths::binary("kelsonctl"), endpoint: None, config: None, user: None }
    }

    /// Run as this user, if not as that of the test.
    pub fn run_as(self, user: Option<u32>) -> Ctl {
        Ctl { user, ..self }
    }

    /// By a file of contexts, over TLS.
    pub fn with_config(file: PathBuf) -> Ctl {
        Ctl { program: paths::binary("kelsonctl"), endpoint: None, config: Some(file), user: None }
    }

    /// The command itself, for a test that reads its output in a way of its own, or not at all.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // Nothing of the operator who runs the tests leaks in.
        command
            .env_remove("KELSONCONFIG")
            .env_remove("KELSON_ENDPOINT")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("HOME")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        if let Some(endpoint) = &self.endpoint {
            command.args(["--endpoint", endpoint]);
        }
        if let Some(config) = &self.config {
            command.env("KELSONCONFIG", config);
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.args(args);
        command
    }

    /// Runs one command to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        Output::of(self.command(args), &format!("kelsonctl {}", args.join(" ")))
    }

    /// A command that goes on (`events -f`, `logs -f`): its lines as they come. Ended when dropped.
    pub fn follow(&self, args: &[&str]) -> Lines {
        Lines::of(self.command(args), &format!("kelsonctl {}", args.join(" ")))
    }

    #[track_caller]
    pub fn services(&self) -> Vec<Service> {
        self.run(&["-o", "json", "services"]).ok().json()
    }

    #[track_caller]
    pub fn service(&self, name: &str) -> Service {
        let all = self.services();
        let names: Vec<String> = all.iter().map(|service| service.name.clone()).collect();
        all.into_iter().find(|s| s.name == name).unwrap_or_else(|| panic!("no service {name} in {names:?}"))
    }

    /// Runs a `start`, `stop` or `restart` of one service, and returns its outcome, whatever the exit status;
    /// panics when a `--wait` among `args` is not over in time.
    #[track_caller]
    pub fn act(&self, args: &[&str]) -> Action {
        let timeout = format!("{}s", PATIENCE.as_secs());
        let bound: &[&str] = if args.contains(&"--wait") { &["--timeout", &timeout] } else { &[] };
        let mut results: Vec<Action> = self.run(&[&["-o", "json"], args, bound].concat()).json();
        assert_eq!(results.len(), 1, "one service, one answer: {results:?}");
        results.remove(0)
    }

    /// The chain of `kelsonctl why`.
    #[track_caller]
    pub fn why(&self, name: &str) -> Reason {
        self.run(&["-o", "json", "why", name]).ok().json()
    }

    /// All events that are still kept, oldest first.
    #[track_caller]
    pub fn events(&self) -> Vec<Event> {
        self.run(&["-o", "json", "events"]).ok().json_lines()
    }

    /// Events from this number on, as they come.
    pub fn follow_events(&self, since: u64) -> Events {
        Events { lines: self.follow(&["-o", "json", "events", "-f", "--since", &since.to_string()]) }
    }

    /// Returns when the service is so, which is asked again after each event; panics with `what` otherwise.
    #[track_caller]
    pub fn wait_for(
        &self,
        name: &str,
        what: &str,
        patience: Duration,
        mut is_so: impl FnMut(&Service) -> bool,
    ) -> Service {
        let newest = self.events().last().map_or(0, |event| event.seq);
        let deadline = Instant::now() + patience;
        let mut events = self.follow_events(newest + 1);
        loop {
            let asked = Instant::now();
            let service = self.service(name);
            if is_so(&service) {
                return service;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not within {patience:?}: {name} {what}; it is {service:?}");
            // Not every field changes with an event (an operator's stop that is under way): look now and then, too.
            let _ = events.next(left.min(pause_after(asked.elapsed()).max(Duration::from_millis(200))));
        }
    }
}

/// A stream of events. Ended when dropped.
#[derive(Debug)]
pub struct Events {
    lines: Lines,
}

impl Events {
    /// The next event; `None` when none comes in time or the stream has ended.
    #[track_caller]
    pub fn next(&mut self, patience: Duration) -> Option<Event> {
        self.lines.next(patience).map(|line| read("kelsonctl events", &line))
    }

    /// The next events have these numbers, without a gap or a repeat; panics otherwise. With the number of one that
    /// there is already: the stream has begun, and goes on over whatever becomes of the connection.
    #[track_caller]
    pub fn each_once(&mut self, numbers: RangeInclusive<u64>, patience: Duration) {
        let last = *numbers.end();
        for number in numbers {
            let line = self.lines.one(&format!("event {number} of {last}"), patience);
            assert_eq!(read::<Event>("kelsonctl events", &line).seq, number, "{line}");
        }
    }

    /// The next event that is so, others passed over; panics with `what` when none comes in time.
    #[track_caller]
    pub fn find(&mut self, what: &str, patience: Duration, is_so: impl FnMut(&Event) -> bool) -> Event {
        self.collect(what, patience, is_so).pop().expect("it ends with the one that was looked for")
    }

    /// All events up to the next one that is so, which is the last; panics with `what` when none comes in time.
    #[track_caller]
    pub fn collect(
        &mut self,
        what: &str,
        patience: Duration,
        mut is_so: impl FnMut(&Event) -> bool,
    ) -> Vec<Event> {
        let deadline = Instant::now() + patience;
        let mut seen = Vec::new();
        while let Some(event) = self.next(deadline.saturating_duration_since(Instant::now())) {
            let found = is_so(&event);
            seen.push(event);
            if found {
                return seen;
            }
        }
        let seen: Vec<String> =
            seen.iter().map(|e| format!("{} {} {} {}", e.seq, e.service, e.state, e.message)).collect();
        panic!("not within {patience:?}: an event {what}; there came\n{}", seen.join("\n"));
    }

    /// All events up to the end of the stream, and how it ended.
    #[track_caller]
    pub fn rest(self) -> (Vec<Event>, Output) {
        let (lines, output) = self.lines.rest();
        (lines.iter().map(|line| read("kelsonctl events", line)).collect(), output)
    }
}

#[track_caller]
fn read<T: serde::de::DeserializeOwned>(command: &str, line: &str) -> T {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{command}: {error} in {line}"))
}

impl Output {
    pub(crate) fn new(status: i32, stdout: String, stderr: String, command: String) -> Output {
        Output { status, stdout, stderr, command }
    }
}
