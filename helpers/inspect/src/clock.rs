//! The clock, and how good it is.

use std::time::{Duration, SystemTime};

use kelson_proto::v1::ClockResponse;
use nix::time::{ClockId, clock_gettime};
use prost_types::{Duration as Lasting, Timestamp};

use crate::system::{System, lasting, line, number};

pub fn read(system: &System) -> ClockResponse {
    // SAFETY: all bytes zero is a `timex`; modes 0 asks and changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives over the call.
    let answered = unsafe { libc::adjtimex(&raw mut state) } >= 0;
    let synchronized = answered && state.status & libc::STA_UNSYNC == 0;
    let micros = |micros: libc::c_long| lasting(Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
    let unit = if state.status & libc::STA_NANO == 0 { 1000 } else { 1 };
    let clocksource = system.sys.join("devices/system/clocksource/clocksource0/current_clocksource");
    let hardware = number(&system.sys.join("class/rtc/rtc0/since_epoch"));
    ClockResponse {
        time: Some(SystemTime::now().into()),
        uptime: uptime().map(lasting),
        synchronized,
        max_error: synchronized.then(|| micros(state.maxerror)),
        estimated_error: synchronized.then(|| micros(state.esterror)),
        offset: answered.then(|| signed(state.offset.saturating_mul(unit))),
        hardware: hardware
            .and_then(|seconds| i64::try_from(seconds).ok())
            .map(|seconds| Timestamp { seconds, nanos: 0 }),
        source: line(&clocksource),
    }
}

/// Since the kernel's start.
pub fn uptime() -> Option<Duration> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    let nanos = u32::try_from(now.tv_nsec()).ok()?;
    Some(Duration::new(u64::try_from(now.tv_sec()).ok()?, nanos))
}

fn signed(nanos: i64) -> Lasting {
    const SECOND: i64 = 1_000_000_000;
    let rest = nanos.checked_rem(SECOND).unwrap_or(0);
    Lasting { seconds: nanos.checked_div(SECOND).unwrap_or(0), nanos: i32::try_from(rest).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    #[test]
    fn this_machine_has_a_clock() {
        let played = Played::new(&[
            ("sys/class/rtc/rtc0/since_epoch", "1700000000\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ]);
        let clock = read(&played.system);
        assert!(clock.time.unwrap().seconds > 1_700_000_000 && clock.uptime.unwrap().seconds > 0);
        assert_eq!((clock.hardware.unwrap().seconds, clock.source.as_str()), (1_700_000_000, "tsc"));
        assert_eq!(clock.synchronized, clock.max_error.is_some());
    }

    #[test]
    fn an_offset_may_be_negative() {
        assert_eq!(signed(-1_500_000_000), Lasting { seconds: -1, nanos: -500_000_000 });
        assert_eq!(signed(7), Lasting { seconds: 0, nanos: 7 });
    }
}
