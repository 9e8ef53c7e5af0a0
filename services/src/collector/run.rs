//! One logd as PID 1 sees it: absent, being launched, or running; and what is said to it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_proto::v1;
use kelson_sys::descriptor::Watched;
use tokio::io::Interest;
use tokio::time::Instant;

use super::Command;
use super::heartbeat::{Heartbeat, after};
use super::kept::Kept;
use super::processor::Shares;
use kelson_helper::transport::{Packet, Receiver};
use kelson_helper::{BoxFuture, Launched};

/// What waits to be sent: numbers and small things, never a pipe.
pub enum Outgoing {
    Run(u64),
    Ping(u64),
    Forget(Arc<str>),
    Directory,
    Verdict { number: u64, refusal: String },
    Stop { within: Duration },
}

/// A logd that was started.
pub struct LogdRun {
    pub control: Watched<Kept>,
    pub receiver: Receiver,
    pub process: Launched,
    pub queue: VecDeque<Outgoing>,
    pub heartbeat: Heartbeat,
    pub asked: Asked,
    pub born: Instant,
    pub answered: bool,
    /// It was asked to end, and is killed then.
    pub stop_by: Option<Instant>,
    /// Its socket is closed: its exit is awaited until then.
    pub exit_by: Option<Instant>,
}

/// How logd stood when it was last to be asked.
pub struct Asked {
    at: Instant,
    shares: Shares,
}

/// One that is being started.
pub struct Launch {
    pub future: BoxFuture<'static, io::Result<Launched>>,
    pub control: OwnedFd,
    pub by: Instant,
}

/// Where logd is.
pub enum Logd {
    /// Nothing runs; the next is started then, or never again.
    Absent {
        retry: Option<Instant>,
    },
    Launching(Launch),
    Running(Box<LogdRun>),
}

/// What the driver wakes up for.
pub enum Event {
    Command(Option<Command>),
    Launched(io::Result<Launched>),
    Exited(String),
    Packet(io::Result<Option<Packet<v1::LogdReport>>>),
    Writable,
    Unread,
    Tick,
}

impl LogdRun {
    /// Asks it to end in order.
    pub fn stop(&mut self, within: Duration, now: Instant) {
        self.stop_by = Some(after(now, within));
        self.queue.push_back(Outgoing::Stop { within });
    }
}

impl Asked {
    pub fn new(pid: i32, now: Instant) -> Asked {
        Asked { at: now, shares: Shares::of(pid) }
    }

    /// It has mostly waited for a processor since.
    pub fn starved(&self, pid: i32, now: Instant) -> bool {
        let elapsed = now.duration_since(self.at);
        Shares::of(pid).starved_since(&self.shares, elapsed)
    }
}

impl Outgoing {
    /// The message, but for [`Outgoing::Run`], whose message comes with its pipes.
    pub fn message(&self, directory: &Path) -> v1::logd_command::Command {
        use v1::logd_command::Command;
        match self {
            Outgoing::Run(id) => Command::Run(v1::LogdRun { id: *id, ..Default::default() }),
            Outgoing::Ping(number) => Command::Ping(v1::LogdPing { number: *number }),
            Outgoing::Forget(service) => Command::Forget(v1::LogdForget { service: service.to_string() }),
            Outgoing::Directory => {
                Command::Directory(v1::LogdDirectory { path: directory.display().to_string() })
            }
            Outgoing::Verdict { number, refusal } => {
                Command::Verdict(v1::LogdVerdict { number: *number, refusal: refusal.clone() })
            }
            Outgoing::Stop { within } => Command::Stop(v1::LogdStop {
                within_ms: u32::try_from(within.as_millis()).unwrap_or(u32::MAX),
            }),
        }
    }
}

impl Logd {
    /// What comes next from logd; cancelled by dropping, without a loss.
    pub async fn event(&mut self) -> Event {
        match self {
            Logd::Absent { .. } => std::future::pending().await,
            Logd::Launching(launch) => Event::Launched(launch.future.as_mut().await),
            Logd::Running(run) => {
                let LogdRun { control, receiver, process, queue, exit_by, .. } = run.as_mut();
                let open = exit_by.is_none();
                let writable = async {
                    if queue.is_empty() {
                        std::future::pending::<()>().await;
                    }
                    // An error shows when it is written to.
                    let _ = control.writable().await.map(|mut ready| ready.retain_ready());
                };
                tokio::select! {
                    biased;
                    packet = control.async_io(Interest::READABLE, |fd| receiver.receive(fd.as_fd())), if open => {
                        Event::Packet(packet)
                    }
                    how = process.exit.as_mut() => Event::Exited(how),
                    () = writable, if open => Event::Writable,
                }
            }
        }
    }
}
