//! Signals to PID 1, as a stream of what they ask for and who asked.
//!
//! All signals are blocked from the first line of `main` and read from a signalfd, instead of handled (signal-hook):
//! blocked signals wait in the kernel while PID 1 re-executes itself, where handled ones would be lost between two
//! lives; no system call is ever interrupted; every thread is covered, because the mask is inherited; and the sender's
//! PID and user come with each signal, so that the log can say who asked for the reboot.
//!
//! Signals of one number that wait are merged into one by the kernel. For requests that is right; for SIGCHLD the
//! reaper asks for all exits anyway.

use std::io;

use kelson_services::host::ShutdownAction;
use kelson_sys::descriptor::Watched;
use kelson_sys::process;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::options::Mode;

/// The action that a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// End the run of the host.
    Shutdown(ShutdownAction),
    /// Read the service files again.
    Reload,
    /// Children have ended.
    Child,
    /// It is meant for the main service of a container. Without one it has the meaning of [`without_main`].
    Main,
}

/// The sender of a signal, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// The kernel itself: ctrl-alt-del, a terminal's key.
    Kernel,
    Process {
        pid: u32,
        uid: u32,
        /// Empty if it has ended meanwhile.
        command: String,
    },
}

impl std::fmt::Display for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sender::Kernel => write!(f, "the kernel"),
            Sender::Process { pid: 0, .. } => write!(f, "a process outside this PID namespace"),
            Sender::Process { pid, uid, command } if command.is_empty() => {
                write!(f, "PID {pid} of user {uid}")
            }
            Sender::Process { pid, uid, command } => write!(f, "{command} (PID {pid}, user {uid})"),
        }
    }
}

/// A signal that asks for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    pub meaning: Meaning,
    pub number: i32,
    pub sender: Sender,
}

impl std::fmt::Display for Signal {
    /// `SIGTERM from systemctl (PID 812, user 0)`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} from {}", name(self.number), self.sender)
    }
}

/// The stream of signals.
#[derive(Debug)]
pub struct Signals {
    fd: Watched<SignalFd>,
    mode: Mode,
}

impl Signals {
    /// Needs a Tokio runtime, and [`block`] before it.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn new(mode: Mode) -> io::Result<Signals> {
        let fd = SignalFd::with_flags(&all(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Signals { fd: Watched::reading(fd)?, mode })
    }

    /// The next signal that asks for something; others are passed over. Cancelled by dropping, without loss.
    ///
    /// # Errors
    /// When the signalfd cannot be read, which does not get better by itself.
    pub async fn next(&mut self) -> io::Result<Signal> {
        loop {
            let mut guard = self.fd.readable().await?;
            let info = match guard.get_inner().read_signal() {
                Ok(Some(info)) => info,
                Ok(None) => {
                    guard.clear_ready();
                    continue;
                }
                Err(errno) => return Err(errno.into()),
            };
            let number = i32::try_from(info.ssi_signo).unwrap_or_default();
            let meaning = meaning(number, self.mode);
            if meaning == Some(Meaning::Main) && !is_for_main(number, info.ssi_code, info.ssi_pid) {
                continue;
            }
            if let Some(meaning) = meaning {
                return Ok(Signal {
                    meaning,
                    number,
                    sender: sender(info.ssi_code, info.ssi_pid, info.ssi_uid, number),
                });
            }
        }
    }
}

/// Blocks all signals in this thread and all that it will make. Signals of a fault (SIGSEGV and its kind) stay
/// as they are: blocked, the kernel would kill PID 1 at once, and the host with it.
pub fn block() {
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&all()), None);
}

/// All signals but those of a fault of the process itself.
fn all() -> SigSet {
    let mut set = SigSet::all();
    for fault in [
        Number::SIGSEGV,
        Number::SIGBUS,
        Number::SIGFPE,
        Number::SIGILL,
        Number::SIGTRAP,
        Number::SIGABRT,
        Number::SIGSYS,
    ] {
        set.remove(fault);
    }
    set
}

/// Ctrl-alt-del becomes a SIGINT to us instead of the kernel's hard reset.
///
/// # Errors
/// Without CAP_SYS_BOOT.
pub fn catch_ctrl_alt_del() -> io::Result<()> {
    Ok(nix::sys::reboot::set_cad_enabled(false)?)
}

/// Waits for a signal that asks for an end of the run, without a runtime. False when the time was over before, or
/// another signal came. All signals must be blocked.
pub fn wait(patience: Option<std::time::Duration>) -> bool {
    let patience = patience.unwrap_or(std::time::Duration::from_secs(3600));
    let time = nix::sys::time::TimeSpec::from_duration(patience);
    // SAFETY: the set and the time live over the call; no information about the signal is asked for.
    let number = unsafe { libc::sigtimedwait(all().as_ref(), std::ptr::null_mut(), time.as_ref()) };
    matches!(meaning(number, Mode::Machine), Some(Meaning::Shutdown(_)))
}

/// The action that a signal asks for; `None`: nothing.
fn meaning(number: i32, mode: Mode) -> Option<Meaning> {
    use ShutdownAction::{Halt, PowerOff, Reboot};
    let action = match (mode, number) {
        (_, libc::SIGCHLD) => return Some(Meaning::Child),
        // A container's owner who sends one of these wants it to end.
        (Mode::Container, libc::SIGTERM | libc::SIGINT) => PowerOff,
        (Mode::Container, _) => return Some(Meaning::Main),
        (Mode::Machine, libc::SIGHUP) => return Some(Meaning::Reload),
        (Mode::Machine, libc::SIGTERM | libc::SIGINT) => Reboot,
        (Mode::Machine, libc::SIGUSR1) => Halt,
        (Mode::Machine, libc::SIGUSR2) => PowerOff,
        (Mode::Machine, _) => return of_any_mode(number).map(Meaning::Shutdown),
    };
    Some(Meaning::Shutdown(action))
}

/// By which managers of containers and virtual machines ask for an end.
fn of_any_mode(number: i32) -> Option<ShutdownAction> {
    match number {
        libc::SIGPWR => Some(ShutdownAction::PowerOff),
        _ => match number.checked_sub(libc::SIGRTMIN()) {
            Some(3) => Some(ShutdownAction::Halt),
            Some(4) => Some(ShutdownAction::PowerOff),
            Some(5) => Some(ShutdownAction::Reboot),
            _ => None,
        },
    }
}

/// The action that a signal to a container asks for that has no main service; `None`: nothing.
pub fn without_main(number: i32) -> Option<Meaning> {
    match number {
        libc::SIGHUP => Some(Meaning::Reload),
        _ => of_any_mode(number).map(Meaning::Shutdown),
    }
}

/// Whether the main service gets a signal that came to PID 1. It does not get those that PID 1 causes itself (SIGPIPE), nor
/// those by which the kernel reports the state of a terminal: that is PID 1's, and the service has none.
fn is_for_main(number: i32, code: i32, sender: u32) -> bool {
    let of_terminal = match number {
        libc::SIGTTIN | libc::SIGTTOU => true,
        libc::SIGTSTP | libc::SIGWINCH => code == libc::SI_KERNEL,
        _ => false,
    };
    !of_terminal && sender != std::process::id()
}

fn sender(code: i32, pid: u32, uid: u32, number: i32) -> Sender {
    if code == libc::SI_KERNEL {
        return Sender::Kernel;
    }
    // A child's own end names the child; its command would be read for nothing.
    let command = match number {
        libc::SIGCHLD => String::new(),
        _ => process::stat(pid, |stat| Some(stat.name())).ok().flatten().unwrap_or_default(),
    };
    Sender::Process { pid, uid, command }
}

fn name(number: i32) -> String {
    match Number::try_from(number) {
        Ok(known) => known.as_str().to_owned(),
        Err(_) => format!("SIGRTMIN+{}", number.saturating_sub(libc::SIGRTMIN())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ShutdownAction::{Halt, PowerOff, Reboot};

    #[test]
    fn each_signal_means_what_the_manual_says() {
        let machine = |number| meaning(number, Mode::Machine);
        let shutdown = |action| Some(Meaning::Shutdown(action));
        assert_eq!(machine(libc::SIGTERM), shutdown(Reboot));
        assert_eq!(machine(libc::SIGINT), shutdown(Reboot));
        assert_eq!(machine(libc::SIGUSR1), shutdown(Halt));
        assert_eq!(machine(libc::SIGUSR2), shutdown(PowerOff));
        assert_eq!(machine(libc::SIGPWR), shutdown(PowerOff));
        assert_eq!(machine(libc::SIGRTMIN() + 3), shutdown(Halt));
        assert_eq!(machine(libc::SIGRTMIN() + 4), shutdown(PowerOff));
        assert_eq!(machine(libc::SIGRTMIN() + 5), shutdown(Reboot));
        assert_eq!(machine(libc::SIGHUP), Some(Meaning::Reload));
        assert_eq!(machine(libc::SIGCHLD), Some(Meaning::Child));
        assert_eq!(machine(libc::SIGWINCH), None);
        assert_eq!(machine(libc::SIGRTMIN() + 6), None);
    }

    #[test]
    fn a_container_stops_on_two_signals_and_its_main_service_gets_the_others() {
        let container = |number| meaning(number, Mode::Container);
        let shutdown = |action| Some(Meaning::Shutdown(action));
        assert_eq!(container(libc::SIGTERM), shutdown(PowerOff));
        assert_eq!(container(libc::SIGINT), shutdown(PowerOff));
        assert_eq!(container(libc::SIGCHLD), Some(Meaning::Child));
        let realtime = libc::SIGRTMIN();
        for number in [libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGWINCH, realtime + 3, realtime + 9]
        {
            assert_eq!(container(number), Some(Meaning::Main));
        }
        assert_eq!(without_main(libc::SIGHUP), Some(Meaning::Reload));
        assert_eq!(without_main(libc::SIGPWR), shutdown(PowerOff));
        assert_eq!(without_main(realtime + 3), shutdown(Halt));
        assert_eq!(without_main(realtime + 5), shutdown(Reboot));
        for number in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGQUIT, realtime + 6] {
            assert_eq!(without_main(number), None);
        }
    }

    #[test]
    fn the_main_service_does_not_get_the_signals_of_a_terminal() {
        let outside = 0;
        for number in [libc::SIGWINCH, libc::SIGTSTP] {
            assert!(is_for_main(number, libc::SI_USER, outside));
            assert!(!is_for_main(number, libc::SI_KERNEL, outside));
        }
        assert!(!is_for_main(libc::SIGTTOU, libc::SI_USER, outside));
        assert!(is_for_main(libc::SIGHUP, libc::SI_KERNEL, outside));
        assert!(!is_for_main(libc::SIGPIPE, libc::SI_USER, std::process::id()));
    }

    #[test]
    fn faults_stay_unblocked() {
        assert!(!all().contains(Number::SIGSEGV));
        assert!(all().contains(Number::SIGTERM) && all().contains(Number::SIGPIPE));
    }

    #[test]
    fn a_signal_comes_with_its_sender() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // To this thread alone: the test program's other threads do not block it.
            let mut set = SigSet::empty();
            set.add(Number::SIGUSR2);
            set.thread_block().unwrap();
            let mut signals = Signals::new(Mode::Machine).unwrap();
            // SAFETY: a system call on our own thread.
            let sent =
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), libc::SIGUSR2) };
            assert_eq!(sent, 0);
            let signal = signals.next().await.unwrap();
            assert_eq!(signal.meaning, Meaning::Shutdown(PowerOff));
            let Sender::Process { pid, command, .. } = &signal.sender else { panic!("{:?}", signal.sender) };
            assert_eq!(*pid, std::process::id());
            assert!(!command.is_empty());
            assert!(signal.to_string().starts_with("SIGUSR2 from "), "{signal}");
        });
    }
}
