//! The report of a crash by the next incarnation: to the kernel log and as an event.

use std::fmt::Write as _;

use nix::sys::signal::Signal;

use super::page::{Cause, Crash};
use crate::options::CrashLimit;

/// Describes the crash in one sentence: `SIGSEGV at address 0x10 in thread "init"`.
pub fn what(crash: &Crash) -> String {
    let thread = match crash.thread.as_str() {
        "init" => String::new(),
        other => format!(" in its thread {other}"),
    };
    match crash.cause {
        Cause::Panic => format!("panic{thread} at {}", crash.text),
        Cause::Stall => "its main loop stood still for 10 s".to_owned(),
        Cause::Signal => {
            let name = Signal::try_from(crash.signal)
                .map_or_else(|_| format!("signal {}", crash.signal), |signal| signal.as_str().to_owned());
            if crash.code <= 0 {
                let sender = match crash.sender {
                    // abort(3) sends it to the own thread.
                    1 => "by itself".to_owned(),
                    0 => "from outside".to_owned(),
                    pid => format!("sent by PID {pid}"),
                };
                format!("{name} {sender}{thread}")
            } else {
                format!("{name} at address {:#x}{thread}", crash.address)
            }
        }
    }
}

/// The addresses, counted from the program's first byte, the innermost first.
pub fn backtrace(crash: &Crash) -> String {
    let build = build_id().map(|id| format!(", build {id}")).unwrap_or_default();
    let mut text = format!("the crash's backtrace in version {}{build}:", env!("CARGO_PKG_VERSION"));
    for frame in &crash.frames {
        let _ = write!(text, " {frame:#x}");
    }
    text
}

/// Identifies the program, to find the file with the same addresses: the linker's build ID, in hexadecimal.
pub fn build_id() -> Option<String> {
    use std::io::Read as _;
    let mut start = Vec::new();
    // The copy in memory: no disk is waited for. The build id stands at its start.
    std::fs::File::open("/proc/self/exe").ok()?.take(64 << 10).read_to_end(&mut start).ok()?;
    note(&start).map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The contents of the note `GNU` of type 3 (`NT_GNU_BUILD_ID`).
fn note(program: &[u8]) -> Option<&[u8]> {
    const HEAD: &[u8] = b"\x03\0\0\0GNU\0";
    let place = program.windows(HEAD.len()).position(|window| window == HEAD)?;
    let size = program.get(place.checked_sub(4)?..place)?.try_into().ok().map(u32::from_le_bytes)?;
    let size = usize::try_from(size).ok().filter(|size| (8..=64).contains(size))?;
    let place = place.checked_add(HEAD.len())?;
    program.get(place..place.checked_add(size)?)
}

/// The event of a crash after which PID 1 goes on.
pub fn goes_on(crash: &Crash, crashes: u32, limit: CrashLimit) -> String {
    format!(
        "PID 1 crashed and goes on: {} ({crashes} of {} in {})",
        what(crash),
        limit.count,
        kelson_sys::units::duration(limit.window)
    )
}

/// The line of the log before the end.
pub fn too_often(crash: &Crash, crashes: u32, limit: CrashLimit) -> String {
    format!(
        "PID 1 crashed {crashes} times in {} (kelson.crashLimit), last by {}: stopping everything, then this machine starts again",
        kelson_sys::units::duration(limit.window),
        what(crash)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn crash() -> Crash {
        Crash {
            cause: Cause::Signal,
            signal: libc::SIGSEGV,
            code: 1,
            sender: 0,
            address: 16,
            time: Duration::ZERO,
            thread: "init".to_owned(),
            frames: vec![0x1f00, 0x20],
            text: String::new(),
        }
    }

    #[test]
    fn a_build_id_is_found_where_the_linker_puts_it() {
        let program = b"\x7fELF....\x04\0\0\0\x08\0\0\0\x03\0\0\0GNU\0ABCDEFGH....";
        assert_eq!(note(program), Some(b"ABCDEFGH".as_slice()));
        assert_eq!(note(&program[..program.len() - 6]), None);
        assert_eq!(note(b"\x7fELF"), None);
        assert!(build_id().is_some_and(|id| id.len() >= 16));
    }

    #[test]
    fn each_cause_has_its_words() {
        let base = crash();
        assert_eq!(what(&base), "SIGSEGV at address 0x10");
        let other = Crash { thread: "spawn-1".to_owned(), ..base.clone() };
        assert_eq!(what(&other), "SIGSEGV at address 0x10 in its thread spawn-1");
        let sent = Crash { code: libc::SI_USER, sender: 77, ..base.clone() };
        assert_eq!(what(&sent), "SIGSEGV sent by PID 77");
        assert_eq!(what(&Crash { sender: 0, ..sent.clone() }), "SIGSEGV from outside");
        assert_eq!(what(&Crash { sender: 1, signal: libc::SIGABRT, ..sent }), "SIGABRT by itself");
        let panic = Crash { cause: Cause::Panic, text: "src/a.rs:1:2: oh".to_owned(), ..base.clone() };
        assert_eq!(what(&panic), "panic at src/a.rs:1:2: oh");
        assert_eq!(
            what(&Crash { cause: Cause::Stall, ..base.clone() }),
            "its main loop stood still for 10 s"
        );
        assert!(backtrace(&base).ends_with(": 0x1f00 0x20"), "{}", backtrace(&base));
        let limit = CrashLimit { count: 3, window: Duration::from_secs(60) };
        assert_eq!(
            goes_on(&base, 1, limit),
            "PID 1 crashed and goes on: SIGSEGV at address 0x10 (1 of 3 in 1m)"
        );
        assert!(
            too_often(&base, 3, limit)
                .starts_with("PID 1 crashed 3 times in 1m (kelson.crashLimit), last by")
        );
    }
}
