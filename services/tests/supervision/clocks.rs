//! The clocks of a machine that can be suspended: CLOCK_BOOTTIME and the time of day go on then, CLOCK_MONOTONIC stands
//! still. The latter is played by tokio's clock, which jumps; the call that reads the others is replaced in this test binary.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// How long the machine that this thread plays has been suspended.
    static SUSPENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The machine has never been suspended.
pub fn begin() {
    SUSPENDED.set(Duration::ZERO);
}

/// The machine is suspended, and resumes after this time.
pub fn suspend(time: Duration) {
    SUSPENDED.set(SUSPENDED.get() + time);
}

/// # Safety
/// As of clock_gettime(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the caller vouches for the place of the answer.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    let goes_on = matches!(
        clock,
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_BOOTTIME | libc::CLOCK_TAI
    );
    if let (0, true, Ok(suspended)) = (result, goes_on, SUSPENDED.try_with(Cell::get)) {
        // SAFETY: as above; the call has written an answer there.
        unsafe { (*time).tv_sec += i64::try_from(suspended.as_secs()).unwrap() };
    }
    libc::c_int::try_from(result).unwrap()
}

#[test]
fn a_suspend_passes_on_the_clocks_that_go_on_alone() {
    let read = || (std::time::SystemTime::now(), std::time::Instant::now());
    let (day, monotonic) = read();
    suspend(Duration::from_secs(86_400));
    let (day_after, monotonic_after) = read();
    begin();
    assert!(day_after.duration_since(day).unwrap() >= Duration::from_secs(86_400));
    assert!(monotonic_after - monotonic < Duration::from_secs(3_600));
}
