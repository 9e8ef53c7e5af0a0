//! Times: the clock that also counts while the host is suspended, and an alarm by it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, SystemTime};

use kelson_sys::descriptor::Watched;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Since the boot of the kernel, by `CLOCK_BOOTTIME`.
pub type Moment = Duration;

/// A moment in the unit of messages and files.
pub fn micros(at: Moment) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or(u64::MAX)
}

/// One instant by both clocks. The time of day may jump: texts depend on it, and by a fraction of a second the renewals.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    pub at: Moment,
    pub wall: SystemTime,
}

impl Now {
    pub fn read() -> Now {
        let at = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).map(Duration::from);
        Now { at: at.unwrap_or_default(), wall: SystemTime::now() }
    }
}

/// Waits for a [`Moment`]; a suspend does not delay it.
pub struct Alarm {
    timer: TimerFd,
    /// The same timer.
    watched: Watched<OwnedFd>,
}

impl Alarm {
    /// Must be called on the runtime.
    ///
    /// # Errors
    /// When no descriptor is free.
    pub fn new() -> io::Result<Alarm> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
        let watched = Watched::reading(timer.as_fd().try_clone_to_owned()?)?;
        Ok(Alarm { timer, watched })
    }

    /// Until the moment has come. `None`: never. Cancelled by dropping.
    pub async fn at(&self, moment: Option<Moment>) {
        let Some(moment) = moment else { return std::future::pending().await };
        // A timer of zero would be none.
        let at = TimeSpec::from_duration(moment.max(Duration::from_nanos(1)));
        let _ = self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME);
        while Now::read().at < moment {
            match self.watched.readable().await {
                // What it was set to before may have shown first.
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_may_be_set_again() {
        let alarm = Alarm::new().unwrap();
        for _ in 0..3 {
            let at = Now::read().at + Duration::from_millis(5);
            alarm.at(Some(at)).await;
            assert!(Now::read().at >= at);
        }
        let never = tokio::time::timeout(Duration::from_millis(10), alarm.at(None)).await;
        assert!(never.is_err());
    }
}
