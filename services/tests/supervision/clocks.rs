//! The clocks of a machine that can be suspended: CLOCK_BOOTTIME and the time of day go on then, CLOCK_MONOTONIC stands
//! still. The latter is played by tokio's clock, which jumps; the call that reads the others is replaced in this test binary.

use std::cell::Cell;
use std::time::Duration;

use kelson_spec::service::{Check, Probe, ServiceSpec};

use crate::house::*;

thread_local! {
    /// How long the machine that this thread plays has been suspended.
    static SUSPENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// How far its time of the day was set forward.
    static SET: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The machine has never been suspended, and nobody has set its clock.
pub fn begin() {
    SUSPENDED.set(Duration::ZERO);
    SET.set(Duration::ZERO);
}

/// The time of the day is set forward.
pub fn set_forward(time: Duration) {
    SET.set(SET.get() + time);
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
    let is_of_the_day = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI);
    if let (0, true, Ok(set)) = (result, is_of_the_day, SET.try_with(Cell::get)) {
        // SAFETY: as above.
        unsafe { (*time).tv_sec += i64::try_from(set.as_secs()).unwrap() };
    }
    libc::c_int::try_from(result).unwrap()
}

#[test]
fn ages_go_on_when_the_clock_is_set_by_years() {
    const YEARS: Duration = Duration::from_secs(50 * 365 * 86_400);
    // Of services, of how a check stands and of its last result.
    let ages = async |house: &House| {
        let check = house.manager.checks("checked").await.pop().unwrap();
        let result = check.results.last().unwrap().ago.unwrap();
        let [web, job] = ["web", "job"].map(|name| house.now(name).entered.elapsed());
        [web, job, check.lasts.unwrap(), result]
    };
    let ruin = first_life(async {
        begin();
        let probe = Probe::Exec { command: vec!["seldom".into()] };
        let seldom = Check { interval: secs(3600), ..Check::new("seldom", probe) };
        let checked = ServiceSpec { health: vec![seldom], ..spec("checked") };
        let house = House::with([spec("web"), once("job"), checked]).await;
        house.exit("job", 3).await;
        tokio::time::sleep(secs(60)).await;
        let before = ages(&house).await;
        set_forward(YEARS);
        assert_eq!(ages(&house).await, before);
        assert!(before.iter().all(|age| *age >= secs(50) && *age < secs(70)), "{before:?}");
        house
    });
    next_life(ruin, async |house| {
        let after = ages(&house).await;
        assert!(after.iter().all(|age| *age >= secs(50) && *age < secs(70)), "{after:?}");
        begin();
    });
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
