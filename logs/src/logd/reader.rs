//! The thread that reads the pipes and talks to PID 1. It makes no call that can wait, but for its epoll.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kelson_proto::v1;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::signalfd::SignalFd;

use super::admission::Admission;
use super::console::Console;
use super::line::Source;
use super::store::{Limits, Store};
use crate::control::{self, Packet};
use crate::valid_name;

/// Read at a time from one pipe.
const READ: usize = 64 * 1024;
/// What was lost is told to PID 1 no more often.
const TELL: Duration = Duration::from_secs(1);
/// At its end, and at that of logd, a pipe is read at most so often in one go: a service that never stops writing must not keep logd.
const LAST_READS: usize = 4;

const CONTROL: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
const CLIENT: u64 = u64::MAX - 2;
const SIGNAL: u64 = u64::MAX - 3;

/// The reader has ended.
pub struct End {
    /// The rest may take so long.
    pub within: Duration,
    /// PID 1 takes a closed socket for the end of the process: to be kept until then.
    pub control: OwnedFd,
}

struct Stream {
    pipe: OwnedFd,
    service: Arc<str>,
    /// The beginning of a line whose end has not come.
    held: Vec<u8>,
    stderr: bool,
    console: bool,
}

/// Texts for PID 1 from the other threads.
pub struct Troubles {
    texts: std::sync::Mutex<Vec<String>>,
    wake: EventFd,
}

impl Troubles {
    pub fn new() -> io::Result<Troubles> {
        let flags = nix::sys::eventfd::EfdFlags::EFD_CLOEXEC | nix::sys::eventfd::EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_value_and_flags(0, flags)?;
        Ok(Troubles { texts: std::sync::Mutex::new(Vec::new()), wake })
    }

    pub fn tell(&self, text: String) {
        self.texts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(text);
        self.wake();
    }

    /// Lets the reader look what was lost.
    pub fn wake(&self) {
        // It cannot fail but for a count that is full, and then the reader is awake.
        let _ = self.wake.write(1);
    }

    fn take(&self) -> Vec<String> {
        let _ = self.wake.read();
        std::mem::take(&mut self.texts.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
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
    /// Removed services that still have pipes.
    leaving: Vec<Arc<str>>,
    outbox: VecDeque<v1::logd_report::Report>,
    /// The socket was full; its room is awaited.
    full: bool,
    told: Option<Instant>,
    buffer: Vec<u8>,
    console: Console,
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
    ) -> io::Result<Reader> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&control, EpollEvent::new(EpollFlags::EPOLLIN, CONTROL))?;
        epoll.add(&troubles.wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        if let Some(signals) = &signals {
            epoll.add(signals, EpollEvent::new(EpollFlags::EPOLLIN, SIGNAL))?;
        }
        Ok(Reader {
            control,
            receiver: control::Receiver::new(),
            signals,
            epoll,
            store,
            troubles,
            admission,
            asks: VecDeque::new(),
            streams: HashMap::new(),
            leaving: Vec::new(),
            outbox: VecDeque::new(),
            full: false,
            told: None,
            buffer: vec![0; READ],
            console: Console::default(),
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
            let found = match self.epoll.wait(&mut events, self.timeout()) {
                Ok(found) => found,
                Err(Errno::EINTR) => 0,
                // It cannot be; without it nothing can be read, and the next logd may do better.
                Err(_) => return self.end(Duration::from_secs(1)),
            };
            let events = events.get(..found).unwrap_or_default();
            for event in events.iter().filter(|event| event.data() >= SIGNAL) {
                if let Some(end) = self.special(event.data()) {
                    return self.end(end);
                }
            }
            for event in events.iter().filter(|event| event.data() < SIGNAL) {
                // Its writers are gone: what it holds is all, and stands before what the next run writes.
                let reads = if event.events().contains(EpollFlags::EPOLLHUP) { LAST_READS } else { 1 };
                self.read(event.data(), reads);
            }
            self.report_lost();
            self.send();
        }
    }

    /// Waits for ever, unless something lost is still to be told.
    fn timeout(&self) -> EpollTimeout {
        if !self.store.any_lost() {
            return EpollTimeout::NONE;
        }
        let rest = self.told.map_or(Duration::ZERO, |told| TELL.saturating_sub(told.elapsed()));
        let millis = u16::try_from(rest.as_millis()).unwrap_or(u16::MAX).saturating_add(1);
        EpollTimeout::from(millis)
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
                // Nobody would read the pipes that were handed over: the next logd gets them, and all others, once more.
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
                let pong = v1::LogdPong { number: ping.number };
                self.outbox.push_back(v1::logd_report::Report::Pong(pong));
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

    fn take_run(&mut self, run: v1::LogdRun, descriptors: Vec<OwnedFd>) {
        let ends = [(run.stdout, false), (run.stderr, true)].into_iter().filter(|(there, _)| *there);
        let ends: Vec<bool> = ends.map(|(_, stderr)| stderr).collect();
        if !valid_name(&run.service) || ends.len() != descriptors.len() || run.id >= SIGNAL / 2 {
            return self.trouble(format!("PID 1 handed over a run that is none: {run:?}"));
        }
        let service: Arc<str> = run.service.as_str().into();
        self.leaving.retain(|leaving| *leaving != service);
        let limits = Limits { max_size: run.max_size.max(4096), max_files: run.max_files.max(1) };
        self.store.open(&service, limits);
        if run.interrupted {
            let text = "kelson-logd was replaced; lines that the last one still held may be lost here";
            self.store.note(&service, text.to_owned());
        }
        if run.lost_bytes > 0 {
            let (lines, bytes) = (run.lost_lines, run.lost_bytes);
            let text = format!(
                "{lines} lines ({bytes} bytes) were lost here: no kelson-logd was there to read them"
            );
            self.store.note(&service, text);
        }
        for (stderr, pipe) in ends.into_iter().zip(descriptors) {
            let token = run.id.wrapping_shl(1) | u64::from(stderr);
            // Another life of PID 1 hands over all that it has: this is read already.
            if self.streams.contains_key(&token) {
                continue;
            }
            match self.epoll.add(&pipe, EpollEvent::new(EpollFlags::EPOLLIN, token)) {
                Ok(()) => {
                    let (service, console) = (service.clone(), run.console);
                    self.streams.insert(token, Stream { pipe, service, held: Vec::new(), stderr, console });
                }
                Err(error) => self.trouble(format!("the output of {service} cannot be read: {error}")),
            }
        }
    }

    /// Closes the file of a removed service once none of its pipes is left.
    fn leave(&mut self, service: &Arc<str>) {
        if self.leaving.contains(service) && !self.streams.values().any(|stream| stream.service == *service) {
            self.leaving.retain(|leaving| leaving != service);
            self.store.forget(service);
        }
    }

    /// Reads at most so often, up to the end.
    fn read(&mut self, token: u64, reads: usize) {
        let Some(stream) = self.streams.get_mut(&token) else { return };
        for _ in 0..reads {
            match stream.read(&mut self.buffer, &self.store, &mut self.console) {
                Ok(read) if read > 0 => {}
                Err(Errno::EAGAIN | Errno::EINTR) => return,
                Ok(_) | Err(_) => return self.ended(token),
            }
        }
    }

    fn ended(&mut self, token: u64) {
        let Some(mut stream) = self.streams.remove(&token) else { return };
        // By hand: PID 1 still holds the same pipe, and then closing does not remove it.
        let _ = self.epoll.delete(&stream.pipe);
        stream.finish(&self.store);
        let ended = v1::LogdEnded { id: token.wrapping_shr(1), stderr: stream.stderr };
        self.outbox.push_back(v1::logd_report::Report::Ended(ended));
        let service = stream.service.clone();
        self.leave(&service);
    }

    fn report_lost(&mut self) {
        if !self.store.any_lost() || self.told.is_some_and(|told| told.elapsed() < TELL) {
            return;
        }
        self.told = Some(Instant::now());
        for (service, lost, reason) in self.store.take_lost() {
            let (service, reason) = (service.to_string(), reason.to_string());
            let dropped = v1::LogdDropped { service, lines: lost.lines, bytes: lost.bytes, reason };
            self.outbox.push_back(v1::logd_report::Report::Dropped(dropped));
        }
    }

    /// Sends what fits; the rest waits until the socket has room.
    fn send(&mut self) {
        let mut full = false;
        while let Some(report) = self.outbox.pop_front() {
            let message = v1::LogdReport { report: Some(report) };
            match control::send(self.control.as_fd(), &message, &[]) {
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
            match control::send(self.control.as_fd(), &message, &[socket.as_fd()]) {
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
            for _ in 0..LAST_READS {
                if !stream.read(&mut self.buffer, &self.store, &mut self.console).is_ok_and(|read| read > 0) {
                    break;
                }
            }
            stream.finish(&self.store);
        }
        self.told = None;
        self.report_lost();
        self.send();
        self.store.close();
        End { within, control: self.control }
    }
}

impl Stream {
    fn source(&self) -> Source {
        if self.stderr { Source::Stderr } else { Source::Stdout }
    }

    fn read(&mut self, buffer: &mut [u8], store: &Store, console: &mut Console) -> Result<usize, Errno> {
        let read = nix::unistd::read(&self.pipe, buffer)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if self.console {
            console.write(&self.service, &self.held, bytes);
        }
        if read > 0 {
            store.feed(&self.service, self.source(), &mut self.held, bytes);
        }
        Ok(read)
    }

    /// The last output of a process, also without a newline.
    fn finish(&mut self, store: &Store) {
        store.feed_rest(&self.service, self.source(), &mut self.held);
    }
}
