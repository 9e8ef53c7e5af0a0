//! Where a fault of PID 1 arrives, and what becomes of it: it is written down, and the program is executed again.
//!
//! All that runs in here may have interrupted anything, an allocation or a lock included. So there is no
//! memory to ask for, no lock to take and no format to make: numbers are stored and system calls are made. A
//! failure while it is written down (a stack that was overwritten, another fault) costs the backtrace and not
//! the next incarnation.

use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use kelson_services::host::ShutdownAction;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};

use super::page::{Cause, Ending, Facts};
use super::plan::{Plan, plan};
use super::stack::alternate_stack;
use super::trace::Place;
use crate::options::Mode;
use crate::shutdown::final_call::exit_status;
use crate::signals;

/// The signals of a fault of the process itself.
const FAULTS: [Signal; 7] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGABRT,
    Signal::SIGTRAP,
    Signal::SIGSYS,
];
/// For the backtrace.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);
/// How often it is tried to execute the program, 100 ms apart: memory may be short for a moment.
const TRIES: u32 = 50;
/// How long the last sync may take.
const SYNC: Duration = Duration::from_secs(5);
/// The signal to a main loop that stands still.
const STALL: c_int = libc::SIGABRT;

/// How long the main thread may take to execute the program for another one.
const HANDED_OVER_WITHIN: Duration = Duration::from_secs(1);
/// What the kernel calls a thread under a filter (`SECCOMP_MODE_FILTER`).
const SECCOMP_FILTER: c_int = 2;

/// The thread whose fault is being written down.
static DYING: AtomicI32 = AtomicI32::new(0);
/// The watcher has found the main loop standing still.
static STALLED: AtomicBool = AtomicBool::new(false);
/// The main thread is to execute the program for a thread under a seccomp filter.
static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// From now on faults and panics lead to the next incarnation.
///
/// # Errors
/// When a handler cannot be set, or there is no memory for its stack.
pub fn install() -> std::io::Result<()> {
    alternate_stack()?;
    // Another fault in here must arrive: blocked, it would end PID 1.
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK | SaFlags::SA_NODEFER;
    let fault = SigAction::new(SigHandler::SigAction(on_fault), flags, SigSet::empty());
    for signal in FAULTS {
        // SAFETY: the handler does nothing that is unsafe in a handler.
        unsafe { sigaction(signal, &fault) }?;
    }
    let alarm = SigAction::new(SigHandler::Handler(on_alarm), SaFlags::SA_ONSTACK, SigSet::empty());
    // SAFETY: as above.
    unsafe { sigaction(Signal::SIGALRM, &alarm) }?;
    std::panic::set_hook(Box::new(|panic| {
        let mut text = [0; 384];
        let mut rest = text.as_mut_slice();
        if let Some(place) = panic.location() {
            let _ = write!(rest, "{}:{}:{}: ", place.file(), place.line(), place.column());
        }
        let said = panic.payload();
        let said = said.downcast_ref::<&str>().copied().or_else(|| said.downcast_ref().map(String::as_str));
        // The rest is left out if it does not fit.
        let _ = rest.write_all(said.unwrap_or("it did not say why").as_bytes());
        let left = rest.len();
        let text = text.get(..text.len().saturating_sub(left)).unwrap_or_default();
        let facts = Facts { cause: Cause::Panic, signal: 0, code: 0, sender: 0, address: 0, text };
        die(&facts, Some(Place::here()));
    }));
    Ok(())
}

/// The main loop stands still: it is interrupted where it stands, for its backtrace. Where not even a
/// signal reaches it, the caller dies in its place.
pub fn stalled(main: libc::pid_t) -> ! {
    STALLED.store(true, Ordering::SeqCst);
    // SAFETY: a system call on numbers.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), main, STALL) };
    std::thread::sleep(REPORT_TIMEOUT.saturating_mul(2));
    die(&STALL_FACTS, None)
}

const STALL_FACTS: Facts<'static> =
    Facts { cause: Cause::Stall, signal: 0, code: 0, sender: 0, address: 0, text: b"" };

/// Ends a crash that takes longer than this with a reboot.
pub fn end_after(patience: Duration) {
    let mut set = SigSet::empty();
    set.add(Signal::SIGALRM);
    let _ = sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&set), None);
    alarm_after(patience);
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // A child that is just being made shares our memory until it executes its own program: its fault is not ours.
    // SAFETY: system calls without memory.
    unsafe {
        if libc::syscall(libc::SYS_getpid) != 1 {
            libc::_exit(128_i32.saturating_add(signal));
        }
    }
    if signal == STALL
        && HANDED_OVER.load(Ordering::SeqCst)
        && let Some(plan) = plan()
    {
        go_on(plan);
    }
    // SAFETY: the kernel hands it over.
    let place = unsafe { Place::interrupted(context) };
    if signal == STALL && STALLED.load(Ordering::SeqCst) {
        die(&STALL_FACTS, place);
    }
    // SAFETY: the kernel hands over a siginfo of its own.
    let info = unsafe { info.as_ref() };
    let code = info.map_or(0, |info| info.si_code);
    // The contents depend on the origin of the signal: a process has a PID, a fault has an address.
    let (sender, address) = match info {
        // SAFETY: signals that processes send bear their PID.
        Some(info) if code <= 0 => (unsafe { info.si_pid() }, 0),
        // SAFETY: faults bear an address.
        Some(info) => (0, unsafe { info.si_addr() }.addr()),
        None => (0, 0),
    };
    let address = u64::try_from(address).unwrap_or_default();
    die(&Facts { cause: Cause::Signal, signal, code, sender, address, text: b"" }, place)
}

extern "C" fn on_alarm(_signal: c_int) {
    let Some(plan) = plan() else { return };
    if DYING.load(Ordering::SeqCst) != 0 {
        go_on(plan);
    }
    if plan.page.is_last() {
        end(plan);
    }
}

/// The end of this incarnation.
fn die(facts: &Facts<'_>, place: Option<Place>) -> ! {
    // SAFETY: a system call without arguments.
    let me = unsafe { libc::gettid() };
    let Some(plan) = plan() else {
        // Nothing was made ready: there is no next incarnation.
        // SAFETY: it ends the process.
        unsafe { libc::_exit(1) }
    };
    match DYING.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => tell(plan, facts, place),
        // A fault while another is written down.
        Err(dying) if dying == me => {}
        // The other one's `execve` ends this thread.
        Err(_) => rest(),
    }
    go_on(plan)
}

fn tell(plan: &Plan, facts: &Facts<'_>, place: Option<Place>) {
    plan.page.write(facts);
    if plan.page.is_last() {
        end(plan);
    }
    end_after(REPORT_TIMEOUT);
    if let Some(place) = place {
        place.walk(&mut |frame| plan.page.add_frame(frame));
    }
}

/// Executes the program again.
fn go_on(plan: &Plan) -> ! {
    alarm_after(Duration::ZERO);
    // Signals that arrive meanwhile wait for the next incarnation.
    signals::block();
    hand_over();
    for _ in 0..TRIES {
        plan.execute();
        pause_for(Duration::from_millis(100));
    }
    end(plan)
}

/// Has the main thread execute the program where this is a spawner thread under a seccomp filter: `execve` keeps the
/// filter, and all services of the next incarnation would inherit it. Returns on any other thread, and where the main
/// thread does not react within a second.
fn hand_over() {
    // SAFETY: system calls on numbers. A filter that PID 1 was started with is that of the main thread, too.
    unsafe {
        let main = libc::getpid();
        if libc::gettid() == main || libc::prctl(libc::PR_GET_SECCOMP) != SECCOMP_FILTER {
            return;
        }
        HANDED_OVER.store(true, Ordering::SeqCst);
        libc::syscall(libc::SYS_tgkill, main, main, STALL);
    }
    pause_for(HANDED_OVER_WITHIN);
}

/// There is no next incarnation: what can be written is written, and the machine starts again.
fn end(plan: &Plan) -> ! {
    alarm_after(Duration::ZERO);
    if plan.mode == Mode::Container {
        let Ending { action, status } = plan.page.ending().unwrap_or_else(|| Ending::of(None));
        let status = exit_status(action, status, false);
        // SAFETY: it ends the process.
        unsafe { libc::_exit(status.into()) };
    }
    // A sync may never return: a child makes it.
    // SAFETY: a child without shared memory makes two system calls.
    unsafe {
        let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        if child == 0 {
            libc::sync();
            libc::_exit(0);
        }
        let child = libc::pid_t::try_from(child).unwrap_or(-1);
        let mut waited = Duration::ZERO;
        while child > 0 && waited < SYNC && libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) == 0 {
            pause_for(Duration::from_millis(50));
            waited = waited.saturating_add(Duration::from_millis(50));
        }
    }
    let how = match plan.page.ending().map(|ending| ending.action) {
        Some(ShutdownAction::PowerOff) => libc::RB_POWER_OFF,
        Some(ShutdownAction::Halt) => libc::RB_HALT_SYSTEM,
        _ => libc::RB_AUTOBOOT,
    };
    // SAFETY: a system call on numbers.
    unsafe {
        libc::reboot(how);
        libc::reboot(libc::RB_AUTOBOOT);
    }
    rest()
}

/// PID 1 must not end.
fn rest() -> ! {
    loop {
        pause_for(Duration::from_secs(3600));
    }
}

fn pause_for(time: Duration) {
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or_default(),
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: the time lives over the call.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

/// SIGALRM after this time; zero: never.
fn alarm_after(time: Duration) {
    let value = libc::timeval {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or_default(),
        tv_usec: time.subsec_micros().into(),
    };
    let once = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    let mut before = MaybeUninit::<libc::itimerval>::uninit();
    // SAFETY: both live over the call. By its number, since the C library's function has other types elsewhere.
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const once, before.as_mut_ptr()) };
}
