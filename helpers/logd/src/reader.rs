//! The thread that reads the pipes and talks to PID 1. It makes no call that can wait, but for its epoll.
//!
//! A pipe that is left alone for a while ([`Pause`]) is taken out of the epoll: the kernel reports its end in any case.

mod pipes;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kelson_proto::v1;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::admission::Admission;
use super::console::Console;
use super::flow::{Flow, Pause};
use super::outlet::Outlets;
use super::store::{Lost, Store};
use super::stream::Stream;
use super::troubles::Troubles;
use kelson_helper::supervisor;
use kelson_helper::transport::{self as control, FROM_HELPER, Packet, TO_HELPER};

/// Read at a time from one pipe: as lines of a file, also short ones, it fits into the queue of a service.
const READ: usize = 16 * 1024;
/// Losses are reported to PID 1 no more often.
const TELL: Duration = Duration::from_secs(1);
/// At its end, and at that of logd, a pipe is read at most so often in one go: a service that never stops writing must
/// not keep logd.
const LAST_READS: usize = 16;

const CONTROL: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
const CLIENT: u64 = u64::MAX - 2;
const SIGNAL: u64 = u64::MAX - 3;
const TIMER: u64 = u64::MAX - 4;

/// The reader has ended.
pub struct End {
    /// The rest may take so long.
    pub within: Duration,
    /// PID 1 takes a closed socket for the end of the process: to be kept until then.
    control: OwnedFd,
    pub outlets: Outlets,
}

/// See the module.
pub struct Reader {
    control: OwnedFd,
    receiver: control::Receiver,
    signals: Option<SignalFd>,
    epoll: Epoll,
    store: Arc<Store>,
    troubles: Arc<Troubles>,
    admission: Arc<Admission>,
    /// Clients that PID 1 is to be asked about.
    asks: VecDeque<(u64, OwnedFd)>,
    streams: HashMap<u64, Stream>,
    flows: HashMap<Arc<str>, Flow>,
    /// Services that are left alone, and those with suppressed lines that are not noted yet.
    paused: Vec<Arc<str>>,
    suppressing: Vec<Arc<str>>,
    timer: TimerFd,
    /// When it ends.
    armed: Option<Instant>,
    /// Removed services that still have pipes.
    leaving: Vec<Arc<str>>,
    outbox: VecDeque<v1::logd_report::Report>,
    /// The socket was full; its room is awaited.
    full: bool,
    told: Option<Instant>,
    buffer: Vec<u8>,
    console: Console,
    outlets: Outlets,
    /// The start of the host, see [`super::run`].
    boot: u16,
    /// Called once, at the first client.
    clients: Option<Box<dyn FnOnce()>>,
}

impl Reader {
    pub fn new(
        control: OwnedFd,
        signals: Option<SignalFd>,
        store: Arc<Store>,
        troubles: Arc<Troubles>,
        admission: Arc<Admission>,
        boot: u16,
    ) -> io::Result<Reader> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&control, EpollEvent::new(EpollFlags::EPOLLIN, CONTROL))?;
        epoll.add(&*troubles, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        if let Some(signals) = &signals {
            epoll.add(signals, EpollEvent::new(EpollFlags::EPOLLIN, SIGNAL))?;
        }
        let outlets = Outlets::new(&troubles);
        Ok(Reader {
            control,
            receiver: control::Receiver::new(TO_HELPER),
            signals,
            epoll,
            store,
            troubles,
            admission,
            asks: VecDeque::new(),
            streams: HashMap::new(),
            flows: HashMap::new(),
            paused: Vec::new(),
            suppressing: Vec::new(),
            timer,
            armed: None,
            leaving: Vec::new(),
            outbox: VecDeque::new(),
            full: false,
            told: None,
            buffer: vec![0; READ],
            console: Console::default(),
            outlets,
            boot,
            clients: None,
        })
    }

    /// `start` is called when somebody first connects to `listener`; no thread waits for clients before.
    pub fn on_client(&mut self, listener: &impl AsFd, start: Box<dyn FnOnce()>) -> io::Result<()> {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT;
        self.epoll.add(listener, EpollEvent::new(flags, CLIENT))?;
        self.clients = Some(start);
        Ok(())
    }

    /// Until PID 1 says so, or is gone, or a signal asks for it. Pipes are then read as far as they are full.
    pub fn run(mut self) -> End {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            self.arm();
            let found = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(found) => found,
                Err(Errno::EINTR) => 0,
                // It cannot be; without it nothing can be read, and the next logd may do better.
                Err(_) => return self.end(Duration::from_secs(1)),
            };
            let events = events.get(..found).unwrap_or_default();
            for event in events.iter().filter(|event| event.data() >= TIMER) {
                if let Some(end) = self.special(event.data()) {
                    return self.end(end);
                }
            }
            for event in events.iter().filter(|event| event.data() < TIMER) {
                // Its writers are gone: what it holds is all, and stands before what the next run writes.
                let reads = if event.events().contains(EpollFlags::EPOLLHUP) { LAST_READS } else { 1 };
                self.read(event.data(), reads);
            }
            let now = Instant::now();
            self.note_suppressed(now);
            self.resume(now);
            self.report_lost();
            self.send();
        }
    }

    /// The next time at which something is to be done although nothing has come; as a rule there is none.
    fn deadline(&self) -> Option<Instant> {
        let flows = |names: &[Arc<str>], at: fn(&Flow) -> Option<Instant>| {
            names.iter().filter_map(|name| at(self.flows.get(name)?)).min()
        };
        let report = self.store.any_lost().then(|| match self.told {
            Some(told) => told.checked_add(TELL).unwrap_or(told),
            None => Instant::now(),
        });
        let resume = flows(&self.paused, |flow| flow.pause.map(Pause::until));
        let note = flows(&self.suppressing, |flow| flow.rate.as_ref()?.due());
        [report, resume, note].into_iter().flatten().min()
    }

    fn arm(&mut self) {
        let deadline = self.deadline();
        if deadline == self.armed {
            return;
        }
        let set = match deadline {
            // A timer of zero would never end.
            Some(at) => {
                let rest = at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
                self.timer.set(Expiration::OneShot(TimeSpec::from(rest)), TimerSetTimeFlags::empty())
            }
            None => self.timer.unset(),
        };
        // It cannot fail with a span that is one.
        self.armed = deadline.filter(|_| set.is_ok());
    }

    /// Gives how long the end may take, if this was the end.
    fn special(&mut self, token: u64) -> Option<Duration> {
        match token {
            CONTROL => return self.commands(),
            WAKE => {
                for message in self.troubles.take() {
                    self.trouble(message);
                }
                self.asks.extend(self.admission.take());
            }
            TIMER => {
                // Nonblocking: it has ended.
                let _ = self.timer.wait();
                self.armed = None;
            }
            CLIENT => {
                if let Some(start) = self.clients.take() {
                    start();
                }
            }
            // Nothing else is left: SIGTERM or SIGINT.
            _ if self
                .signals
                .as_mut()
                .is_some_and(|signals| matches!(signals.read_signal(), Ok(Some(_)))) =>
            {
                return Some(Duration::from_secs(1));
            }
            _ => {}
        }
        None
    }

    fn trouble(&mut self, message: String) {
        self.outbox.push_back(v1::logd_report::Report::Trouble(v1::LogdTrouble { message }));
    }

    fn commands(&mut self) -> Option<Duration> {
        loop {
            match self.receiver.receive::<v1::LogdCommand>(self.control.as_fd()) {
                Ok(Some(packet)) => {
                    if let Some(end) = self.command(packet) {
                        return Some(end);
                    }
                }
                // PID 1 is gone, or has given this one up.
                Ok(None) => return Some(Duration::from_secs(1)),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.trouble(format!("a message of PID 1 was not understood: {error}"));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if control::would_block(&error) => return None,
                // Nobody would read the pipes that were handed over: the next logd gets them, and all others, once
                // more.
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                    self.trouble(
                        "no descriptor is free for the output of a service: another kelson-logd takes over"
                            .into(),
                    );
                    self.send();
                    return Some(Duration::from_secs(1));
                }
                Err(_) => return Some(Duration::from_secs(1)),
            }
        }
    }

    fn command(&mut self, packet: Packet<v1::LogdCommand>) -> Option<Duration> {
        match packet.message.command? {
            v1::logd_command::Command::Run(run) => self.take_run(run, packet.descriptors),
            v1::logd_command::Command::Ping(ping) => {
                self.outbox.push_back(v1::logd_report::Report::Pong(supervisor::pong(&ping)));
            }
            v1::logd_command::Command::Forget(forget) => {
                let service: Arc<str> = forget.service.into();
                self.leaving.push(service.clone());
                self.leave(&service);
            }
            v1::logd_command::Command::Directory(directory) if directory.path.starts_with('/') => {
                self.store.set_directory(directory.path.into());
            }
            v1::logd_command::Command::Directory(directory) => {
                self.trouble(format!("the log directory \"{}\" is not an absolute path", directory.path));
            }
            v1::logd_command::Command::Verdict(verdict) => {
                self.admission.answer(verdict.number, verdict.refusal);
            }
            v1::logd_command::Command::Stop(stop) => {
                return Some(Duration::from_millis(stop.within_ms.into()));
            }
        }
        None
    }

    fn report_lost(&mut self) {
        if !self.store.any_lost() || self.told.is_some_and(|told| told.elapsed() < TELL) {
            return;
        }
        self.told = Some(Instant::now());
        self.outbox.extend(dropped(&self.store));
    }

    /// Sends what fits; the rest waits until the socket has room.
    fn send(&mut self) {
        let mut full = false;
        while let Some(report) = self.outbox.pop_front() {
            let message = v1::LogdReport { report: Some(report) };
            match control::send(self.control.as_fd(), &message, FROM_HELPER, &[]) {
                Err(error) if control::would_block(&error) => {
                    self.outbox.extend(message.report);
                    self.outbox.rotate_right(1);
                    full = true;
                    break;
                }
                // A closed socket shows when it is read.
                _ => {}
            }
        }
        while !full && let Some((number, socket)) = self.asks.pop_front() {
            let report = v1::logd_report::Report::Client(v1::LogdClient { number });
            let message = v1::LogdReport { report: Some(report) };
            match control::send(self.control.as_fd(), &message, FROM_HELPER, &[socket.as_fd()]) {
                Err(error) if control::would_block(&error) => {
                    self.asks.push_front((number, socket));
                    full = true;
                }
                _ => {}
            }
        }
        if full != self.full {
            let room = if full { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            let _ =
                self.epoll.modify(&self.control, &mut EpollEvent::new(EpollFlags::EPOLLIN | room, CONTROL));
            self.full = full;
        }
    }

    /// Reads what is there and closes the store.
    fn end(mut self, within: Duration) -> End {
        for stream in self.streams.values_mut() {
            let Some(flow) = self.flows.get_mut(&stream.service) else { continue };
            for _ in 0..LAST_READS {
                let (rate, beside) = (flow.rate.as_mut(), (&mut self.console, &mut self.outlets));
                if !stream.read(&mut self.buffer, &self.store, beside, rate).is_ok_and(|read| read > 0) {
                    break;
                }
            }
            stream.finish(&self.store, &mut self.outlets, flow.rate.as_mut());
        }
        for (service, flow) in &mut self.flows {
            if let Some(rate) = flow.rate.as_mut().filter(|rate| rate.due().is_some()) {
                self.store.lose(service, rate.take(), &rate.reason(), false);
            }
        }
        self.told = None;
        self.report_lost();
        self.send();
        self.store.close();
        End { within, control: self.control, outlets: self.outlets }
    }
}

/// The losses that PID 1 does not know of.
fn dropped(store: &Store) -> impl Iterator<Item = v1::logd_report::Report> + use<> {
    store.take_lost().into_iter().map(|(service, lost, reason)| {
        let (service, reason) = (service.to_string(), reason.to_string());
        let Lost { lines, bytes } = lost;
        v1::logd_report::Report::Dropped(v1::LogdDropped { service, lines, bytes, reason })
    })
}

impl End {
    /// Tells PID 1 what could not be written, as far as its socket takes it.
    pub fn report_lost(&self, store: &Store) {
        store.abandon();
        for report in dropped(store) {
            let message = v1::LogdReport { report: Some(report) };
            // PID 1 may be gone.
            let _ = control::send(self.control.as_fd(), &message, FROM_HELPER, &[]);
        }
    }
}
