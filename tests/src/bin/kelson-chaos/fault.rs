//! The faults of PID 1.

use std::io;
use std::thread::JoinHandle;

use kelson_tests::{Ctl, Output};

/// The names of all faults.
pub const NAMES: [&str; 13] = [
    "reexec",
    "segv",
    "bus",
    "ill",
    "fpe",
    "abrt",
    "panic",
    "panic-in-thread",
    "abort",
    "null-write",
    "stack-overflow",
    "spin",
    "deadlock",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Asked for by `kelsonctl reexec`.
    Reexec,
    /// A signal that the processor sends for a mistake in a program.
    Signal(i32),
    /// A mistake that a PID 1 built for it makes on demand: `kelsonctl fault NAME`.
    Mistake(&'static str),
}

impl Fault {
    pub fn named(name: &str) -> Option<Fault> {
        let name = NAMES.into_iter().find(|known| *known == name)?;
        Some(match name {
            "reexec" => Fault::Reexec,
            "segv" => Fault::Signal(libc::SIGSEGV),
            "bus" => Fault::Signal(libc::SIGBUS),
            "ill" => Fault::Signal(libc::SIGILL),
            "fpe" => Fault::Signal(libc::SIGFPE),
            "abrt" => Fault::Signal(libc::SIGABRT),
            "null-write" => Fault::Mistake("segv"),
            mistake => Fault::Mistake(mistake),
        })
    }

    /// Does it, and returns at once.
    ///
    /// # Errors
    /// It could not be done.
    pub fn inject(self, ctl: &Ctl) -> io::Result<Injected> {
        let words = match self {
            Fault::Signal(signal) => {
                // SAFETY: kill(2) has no preconditions.
                return match unsafe { libc::kill(1, signal) } {
                    0 => Ok(Injected::default()),
                    _ => Err(io::Error::last_os_error()),
                };
            }
            Fault::Reexec => vec!["reexec"],
            Fault::Mistake(name) => vec!["fault", name],
        };
        let ctl = ctl.clone();
        Ok(Injected { command: Some(std::thread::spawn(move || ctl.run(&words))) })
    }
}

/// A fault that is under way, by the command that asked for it where there is one.
#[derive(Default)]
pub struct Injected {
    command: Option<JoinHandle<Output>>,
}

impl Injected {
    /// To be asked once PID 1 has answered again: what the command has to complain of.
    pub fn complaint(self) -> Option<String> {
        let output = self.command?.join().ok()?;
        (output.status != 0).then(|| format!("kelsonctl: status {}: {}", output.status, output.stderr.trim()))
    }
}
