//! The numbers of signals as images name them.

const NAMES: [(&str, i32); 33] = [
    ("ABRT", libc::SIGABRT),
    ("ALRM", libc::SIGALRM),
    ("BUS", libc::SIGBUS),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("FPE", libc::SIGFPE),
    ("HUP", libc::SIGHUP),
    ("ILL", libc::SIGILL),
    ("INT", libc::SIGINT),
    ("IO", libc::SIGIO),
    ("IOT", libc::SIGABRT),
    ("KILL", libc::SIGKILL),
    ("PIPE", libc::SIGPIPE),
    ("POLL", libc::SIGIO),
    ("PROF", libc::SIGPROF),
    ("PWR", libc::SIGPWR),
    ("QUIT", libc::SIGQUIT),
    ("SEGV", libc::SIGSEGV),
    ("STKFLT", 16),
    ("STOP", libc::SIGSTOP),
    ("SYS", libc::SIGSYS),
    ("TERM", libc::SIGTERM),
    ("TRAP", libc::SIGTRAP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("VTALRM", libc::SIGVTALRM),
    ("WINCH", libc::SIGWINCH),
    ("XCPU", libc::SIGXCPU),
];

/// What programs call SIGRTMIN and SIGRTMAX: the C library keeps the two below for itself.
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;

/// `SIGTERM`, `term`, `15`, `SIGRTMIN+3`, `RTMAX-1`.
pub fn number(text: &str) -> Option<i32> {
    let text = text.trim().to_ascii_uppercase();
    if let Ok(number) = text.parse::<i32>() {
        return (1..=RTMAX).contains(&number).then_some(number);
    }
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    if name == "XFSZ" {
        return Some(libc::SIGXFSZ);
    }
    if let Some(above) = name.strip_prefix("RTMIN") {
        return real_time(RTMIN, above, '+');
    }
    if let Some(below) = name.strip_prefix("RTMAX") {
        return real_time(RTMAX, below, '-');
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

fn real_time(from: i32, offset: &str, sign: char) -> Option<i32> {
    let number = match offset.strip_prefix(sign) {
        None if offset.is_empty() => from,
        None => return None,
        Some(digits) if !digits.bytes().all(|b| b.is_ascii_digit()) => return None,
        Some(digits) if sign == '+' => from.checked_add(digits.parse().ok()?)?,
        Some(digits) => from.checked_sub(digits.parse().ok()?)?,
    };
    (RTMIN..=RTMAX).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named_in_many_ways() {
        for (text, is) in [
            ("SIGTERM", Some(15)),
            ("TERM", Some(15)),
            ("sigquit", Some(3)),
            ("15", Some(15)),
            (" SIGWINCH ", Some(28)),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+3", Some(37)),
            ("RTMAX-1", Some(63)),
            ("SIGRTMAX", Some(64)),
            ("SIGXFSZ", Some(25)),
            ("SIGRTMIN+31", None),
            ("SIGRTMIN-1", None),
            ("SIGRTMIN+-1", None),
            ("RTMAX-31", None),
            ("0", None),
            ("65", None),
            ("-1", None),
            ("", None),
            ("SIG", None),
            ("SIGNONE", None),
        ] {
            assert_eq!(number(text), is, "{text:?}");
        }
    }
}
