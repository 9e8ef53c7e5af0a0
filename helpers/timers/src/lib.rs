//! The process `kelson-timers`: knows when the schedules of services are due, and tells PID 1.
//!
//! One thread, which waits for PID 1, for the clock and for the time since the boot. The [`agenda`] has the times, the
//! [`zone`] knows time zones, the [`state`] is the file that makes up for downtime. A start is asked for first and
//! written down once PID 1 has taken it: a crash in between leads to a start, never to a start that is missed.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::indexing_slicing))]

mod agenda;
mod state;
mod zone;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use agenda::{Agenda, Now, Timer};
use kelson_helper::random::Random;
use kelson_helper::transport::{self, FROM_HELPER, Receiver, TO_HELPER};
use kelson_helper::{exit, supervisor};
use kelson_proto::v1::{TimerBegin, TimerDue, TimerNext, TimersCommand, TimersReport};
use kelson_proto::v1::{timers_command::Command, timers_report::Report};
use kelson_spec::service::Schedule;
use kelson_spec::wire;
use kelson_sys::process;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use state::State;

const USAGE: &str = "kelson-timers knows when services are due for init, which starts it.";

/// Runs it until PID 1 asks it to end or is gone; gives the exit status. Descriptor 3 is the socket to PID 1; the one word
/// is the state folder.
pub fn main(words: &[OsString]) -> i32 {
    let ended = match words {
        [folder] => transport::control().and_then(|control| run(control, Path::new(folder))),
        _ => Err(io::Error::other(USAGE)),
    };
    exit::status("kelson-timers", ended)
}

struct Helper {
    control: OwnedFd,
    agenda: Agenda,
    state: State,
    /// When PID 1 began, in microseconds since the boot of the kernel: in a container this is its boot.
    begin: u64,
    random: Random,
    /// The file has to be written.
    changed: bool,
    /// The file cannot be written, and PID 1 knows.
    unwritten: bool,
}

fn run(control: OwnedFd, folder: &Path) -> io::Result<()> {
    let mut receiver = Receiver::new(TO_HELPER);
    let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
    let wall = TimerFd::new(ClockId::CLOCK_REALTIME, flags)?;
    let boot = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
    let begin = begin();
    let state = State::read(folder, format!("{} {begin}", process::boot_id().unwrap_or_default()));
    let mut helper = Helper {
        control,
        agenda: Agenda::default(),
        state,
        begin,
        random: Random::seeded(),
        changed: false,
        unwritten: false,
    };
    loop {
        loop {
            match receiver.receive(helper.control.as_fd()) {
                Ok(Some(packet)) => {
                    let message: TimersCommand = packet.message;
                    if let Some(Command::Stop(_)) = message.command {
                        return Ok(());
                    }
                    helper.command(message.command)?;
                }
                Ok(None) => return Ok(()),
                Err(error) if transport::would_block(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if std::mem::take(&mut helper.changed) {
            helper.write()?;
        }
        helper.ask(helper.now())?;
        let (by_clock, since_boot) = helper.agenda.deadlines();
        let is_set = arm(&wall, by_clock, TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET)?;
        arm(&boot, since_boot.map(|at| at.saturating_add(begin)), TimerSetTimeFlags::empty())?;
        if is_set {
            helper.clock_set()?;
            continue;
        }
        let watch = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut watched = [watch(helper.control.as_fd()), watch(wall.as_fd()), watch(boot.as_fd())];
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // The clocks say whether a time has come; that the clock was set shows here alone.
        if nix::unistd::read(wall.as_fd(), &mut [0; 8]) == Err(Errno::ECANCELED) {
            helper.clock_set()?;
        }
        let _ = nix::unistd::read(boot.as_fd(), &mut [0; 8]);
    }
}

/// True: the clock was set meanwhile.
fn arm(timer: &TimerFd, at: Option<u64>, flags: TimerSetTimeFlags) -> io::Result<bool> {
    let Some(at) = at else {
        timer.unset()?;
        return Ok(false);
    };
    // 0 would disarm it.
    let at = TimeSpec::from_duration(Duration::from_micros(at.max(1)));
    match timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME | flags) {
        Err(Errno::ECANCELED) => Ok(true),
        other => Ok(other.map(|()| false)?),
    }
}

/// When PID 1 began, which a re-exec does not change, in microseconds since the boot of the kernel.
fn begin() -> u64 {
    // The kernel shows it in hundredths of a second, whatever its own tick is.
    const TICK: u64 = 10_000;
    process::start_time(nix::unistd::getppid()).unwrap_or_default().saturating_mul(TICK)
}

impl Helper {
    fn now(&self) -> Now {
        let of = |clock| {
            let time = nix::time::clock_gettime(clock).map(Duration::from).unwrap_or_default();
            agenda::micros(time)
        };
        Now {
            wall: of(nix::time::ClockId::CLOCK_REALTIME),
            boot: of(nix::time::ClockId::CLOCK_BOOTTIME).saturating_sub(self.begin),
        }
    }

    fn command(&mut self, command: Option<Command>) -> io::Result<()> {
        match command {
            Some(Command::Ping(ping)) => self.say(Report::Pong(supervisor::pong(&ping))),
            Some(Command::Begin(TimerBegin { service, schedule })) => {
                let Ok(schedule) = wire::decode::<Schedule>(&schedule) else { return Ok(()) };
                let kept = self.state.kept.get(&service).copied();
                let timer = Timer::new(schedule, kept, self.now(), &mut self.random);
                if kept != Some(timer.kept) {
                    self.state.kept.insert(service.clone(), timer.kept);
                    self.changed = true;
                }
                self.agenda.timers.insert(service.clone(), timer);
                self.tell(&service)
            }
            Some(Command::End(service)) => {
                self.agenda.timers.remove(&service);
                Ok(())
            }
            Some(Command::Taken(TimerDue { service, .. })) => {
                let now = self.now();
                let Some(timer) = self.agenda.timers.get_mut(&service) else { return Ok(()) };
                timer.started(now, &mut self.random);
                self.state.kept.insert(service.clone(), timer.kept);
                self.changed = true;
                self.tell(&service)
            }
            Some(Command::Stop(_)) | None => Ok(()),
        }
    }

    /// Asks for the starts that are due.
    fn ask(&mut self, now: Now) -> io::Result<()> {
        let mut due = Vec::new();
        for (service, timer) in &mut self.agenda.timers {
            if timer.asked.is_none()
                && let Some(at) = timer.due(now)
            {
                timer.asked = Some(at);
                due.push(TimerDue { service: service.clone(), at });
            }
        }
        due.into_iter().try_for_each(|due| self.say(Report::Due(due)))
    }

    fn clock_set(&mut self) -> io::Result<()> {
        let now = self.now();
        for timer in self.agenda.timers.values_mut() {
            timer.clock_set(now, &mut self.random);
        }
        let names: Vec<String> = self.agenda.timers.keys().cloned().collect();
        names.iter().try_for_each(|name| self.tell(name))
    }

    /// Tells how the schedule of a service stands.
    fn tell(&self, service: &str) -> io::Result<()> {
        let Some(timer) = self.agenda.timers.get(service) else { return Ok(()) };
        self.say(Report::Next(TimerNext {
            service: service.to_owned(),
            next: timer.next(self.now()),
            last: Some(timer.kept.last).filter(|last| *last > 0),
            trouble: timer.trouble.clone(),
        }))
    }

    /// Without its file the helper works too, but nothing makes up for downtime.
    fn write(&mut self) -> io::Result<()> {
        let written = self.state.write();
        let was_unwritten = std::mem::replace(&mut self.unwritten, written.is_err());
        match written {
            Err(error) if !was_unwritten => self.say(Report::Trouble(format!(
                "the last starts cannot be written: {error}; what passes while the host is down is not made up for"
            ))),
            _ => Ok(()),
        }
    }

    /// Waits while PID 1 takes nothing: without it there is nothing to do.
    fn say(&self, report: Report) -> io::Result<()> {
        let message = TimersReport { report: Some(report) };
        loop {
            match transport::send(self.control.as_fd(), &message, FROM_HELPER, &[]) {
                Err(error) if transport::would_block(&error) => {
                    let mut watched = [PollFd::new(self.control.as_fd(), PollFlags::POLLOUT)];
                    match poll(&mut watched, PollTimeout::NONE) {
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                other => return other,
            }
        }
    }
}
