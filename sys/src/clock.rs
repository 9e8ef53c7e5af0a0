//! The kernel's clock as a protocol of time sets it: adjtimex(2).

use std::mem::zeroed;
use std::time::Duration;

use nix::errno::Errno;

/// Whether the kernel counts its clock as right. It stops doing so some hours after the last [`slew`] or [`step`].
pub fn is_synchronised() -> bool {
    // SAFETY: timex is plain numbers, for which all zeroes is a value.
    let mut timex: libc::timex = unsafe { zeroed() };
    // -1 (denied by a seccomp profile) is "not known", which is not synchronised.
    adjust(&mut timex).is_ok_and(|state| state != libc::TIME_ERROR) && timex.status & libc::STA_UNSYNC == 0
}

/// The folder of the clocks of the hardware.
pub const HARDWARE: &str = "/sys/class/rtc";

/// Whether the machine has a clock that runs while it is off.
pub fn is_kept_by_hardware() -> bool {
    std::fs::read_dir(HARDWARE).is_ok_and(|mut clocks| clocks.next().is_some())
}

/// Whether the last minute of this month has 61 seconds, or 59.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeapSecond {
    None,
    Inserted,
    Deleted,
}

/// What is known of the clock once an offset was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// What is to be added to the clock, in seconds.
    pub offset: f64,
    /// The largest error that the offset can have.
    pub error: Duration,
    pub leap: LeapSecond,
}

/// Has the kernel take the offset away little by little, at most 0.5 s, and counts the clock as synchronised. The next
/// measurement follows after `interval`.
///
/// # Errors
/// `EPERM` without `CAP_SYS_TIME`.
pub fn slew(measured: &Measured, interval: Duration) -> nix::Result<()> {
    let mut timex = synchronised(measured);
    timex.modes |= libc::ADJ_OFFSET | libc::ADJ_TIMECONST;
    timex.offset = nanoseconds(measured.offset);
    // The kernel's loop of STA_NANO takes the logarithm of the interval, less 4 as in ntp_loopfilter.
    timex.constant = i64::from(interval.as_secs().max(16).ilog2().saturating_sub(4));
    adjust(&mut timex).map(|_| ())
}

/// Adds the offset to the clock at once, and counts the clock as synchronised.
///
/// # Errors
/// `EPERM` without `CAP_SYS_TIME`; `EINVAL` when that is no time.
pub fn step(measured: &Measured) -> nix::Result<()> {
    // SAFETY: as above.
    let mut timex: libc::timex = unsafe { zeroed() };
    timex.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
    let whole = measured.offset.floor();
    timex.time.tv_sec = nanoseconds(whole).saturating_div(1_000_000_000);
    // The kernel wants the part of a second positive.
    timex.time.tv_usec = nanoseconds(measured.offset - whole).clamp(0, 999_999_999);
    adjust(&mut timex)?;
    // A step marks the clock as not synchronised.
    adjust(&mut synchronised(measured)).map(|_| ())
}

fn synchronised(measured: &Measured) -> libc::timex {
    // SAFETY: as above.
    let mut timex: libc::timex = unsafe { zeroed() };
    timex.modes = libc::ADJ_STATUS | libc::ADJ_NANO | libc::ADJ_MAXERROR | libc::ADJ_ESTERROR;
    timex.status = libc::STA_PLL
        | match measured.leap {
            LeapSecond::None => 0,
            LeapSecond::Inserted => libc::STA_INS,
            LeapSecond::Deleted => libc::STA_DEL,
        };
    let error = i64::try_from(measured.error.as_micros()).unwrap_or(i64::MAX);
    (timex.maxerror, timex.esterror) = (error, error);
    timex
}

/// The offset in nanoseconds; a number beyond all clocks becomes the largest.
#[allow(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

fn adjust(timex: &mut libc::timex) -> nix::Result<i32> {
    // SAFETY: adjtimex reads and writes the timex that it is given, which lives over the call.
    Errno::result(unsafe { libc::adjtimex(timex) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        // Which answer depends on the machine; the same twice, since nothing sets the clock in between.
        assert_eq!(is_synchronised(), is_synchronised());
    }

    #[test]
    fn an_offset_is_cut_to_nanoseconds() {
        assert_eq!(nanoseconds(-0.25), -250_000_000);
        assert_eq!(nanoseconds(f64::MAX), i64::MAX);
    }

    #[test]
    fn a_leap_second_is_announced_to_the_kernel() {
        let measured = |leap| Measured { offset: 0.0, error: Duration::from_millis(3), leap };
        let status = |leap| synchronised(&measured(leap)).status;
        assert_eq!(status(LeapSecond::None), libc::STA_PLL);
        assert_eq!(status(LeapSecond::Inserted), libc::STA_PLL | libc::STA_INS);
        assert_eq!(status(LeapSecond::Deleted), libc::STA_PLL | libc::STA_DEL);
        assert_eq!(synchronised(&measured(LeapSecond::None)).maxerror, 3000);
    }
}
