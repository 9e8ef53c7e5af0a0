//! Terminals: who has them, their modes, their size and their screen.

use std::os::fd::{AsFd, AsRawFd as _};

use nix::errno::Errno;
use nix::sys::termios::{
    ControlFlags, FlushArg, InputFlags, LocalFlags, OutputFlags, SetArg, SpecialCharacterIndices as Special,
    tcflush, tcgetattr, tcsetattr,
};

/// `TIOCSCTTY`.
const TAKE: libc::Ioctl = 0x540e;
/// `TIOCNXCL`: it can be opened again.
const SHARED: libc::Ioctl = 0x540d;
/// `TIOCVHANGUP`.
const HANG_UP: libc::Ioctl = 0x5437;
/// `KDSETMODE`, and `KD_TEXT`.
const SCREEN_MODE: (libc::Ioctl, libc::c_ulong) = (0x4b3a, 0);
/// `KDSKBMODE`, and `K_UNICODE`.
const KEYBOARD_MODE: (libc::Ioctl, libc::c_ulong) = (0x4b45, 3);
/// `VT_DISALLOCATE`.
const DISALLOCATE: libc::Ioctl = 0x5608;

/// An ioctl(2) that takes a number or nothing.
fn call(terminal: &impl AsFd, request: libc::Ioctl, argument: libc::c_ulong) -> nix::Result<()> {
    // SAFETY: the descriptor is open, and none of the requests of this file takes an address.
    let result = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), request, argument) };
    Errno::result(result).map(|_| ())
}

/// Makes it the controlling terminal of the calling process; with `force` also if another session has it.
///
/// # Errors
/// The process leads no session, or has a terminal already, or may not take this one.
pub fn take(terminal: &impl AsFd, force: bool) -> nix::Result<()> {
    call(terminal, TAKE, force.into())
}

/// All who have it open lose it, this process too.
///
/// # Errors
/// This process may not do so.
pub fn hang_up(terminal: &impl AsFd) -> nix::Result<()> {
    call(terminal, HANG_UP, 0)
}

/// Frees the virtual terminal of this number, by a descriptor of any of them.
///
/// # Errors
/// `EBUSY`: it is in front, or somebody has it open.
pub fn disallocate(any: &impl AsFd, number: u8) -> nix::Result<()> {
    call(any, DISALLOCATE, number.into())
}

/// Gives it this size; the kernel tells the processes in front of it.
///
/// # Errors
/// It is no terminal.
pub fn resize(terminal: &impl AsFd, rows: u16, columns: u16) -> nix::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: it reads one winsize, which lives on this stack.
    let result = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    Errno::result(result).map(|_| ())
}

/// Its rows and columns.
///
/// # Errors
/// It is no terminal.
pub fn size(terminal: &impl AsFd) -> nix::Result<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: it writes one winsize, which lives on this stack.
    let result = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    Errno::result(result).map(|_| (size.ws_row, size.ws_col))
}

/// Whether it is one.
pub fn is_terminal(file: &impl AsFd) -> bool {
    tcgetattr(file).is_ok()
}

/// Gives it the usual modes and control characters, whatever its last user left, and drops what waits there. A screen shows
/// text again.
///
/// # Errors
/// It is no terminal.
pub fn reset(terminal: &impl AsFd) -> nix::Result<()> {
    // Not every terminal has these.
    let _ = call(terminal, SHARED, 0);
    let _ = call(terminal, SCREEN_MODE.0, SCREEN_MODE.1);
    let _ = call(terminal, KEYBOARD_MODE.0, KEYBOARD_MODE.1);
    let mut modes = tcgetattr(terminal)?;
    modes.input_flags.insert(InputFlags::ICRNL | InputFlags::IXON | InputFlags::BRKINT | InputFlags::IMAXBEL);
    modes.input_flags.insert(InputFlags::IUTF8);
    modes.input_flags.remove(InputFlags::IGNBRK | InputFlags::IGNCR | InputFlags::INLCR | InputFlags::ISTRIP);
    modes.output_flags.insert(OutputFlags::OPOST | OutputFlags::ONLCR);
    modes.control_flags.insert(ControlFlags::CREAD | ControlFlags::CLOCAL);
    modes.local_flags = LocalFlags::ISIG
        | LocalFlags::ICANON
        | LocalFlags::IEXTEN
        | LocalFlags::ECHO
        | LocalFlags::ECHOE
        | LocalFlags::ECHOK
        | LocalFlags::ECHOCTL
        | LocalFlags::ECHOKE;
    for (place, character) in CHARACTERS {
        if let Some(known) = modes.control_chars.get_mut(place as usize) {
            *known = character;
        }
    }
    tcsetattr(terminal, SetArg::TCSANOW, &modes)?;
    tcflush(terminal, FlushArg::TCIOFLUSH)
}

/// The usual control characters, as `stty sane` sets them.
const CHARACTERS: [(Special, u8); 15] = [
    (Special::VINTR, 0o3),
    (Special::VQUIT, 0o34),
    (Special::VERASE, 0o177),
    (Special::VKILL, 0o25),
    (Special::VEOF, 0o4),
    (Special::VSTART, 0o21),
    (Special::VSTOP, 0o23),
    (Special::VSUSP, 0o32),
    (Special::VLNEXT, 0o26),
    (Special::VWERASE, 0o27),
    (Special::VREPRINT, 0o22),
    (Special::VEOL, 0),
    (Special::VEOL2, 0),
    (Special::VTIME, 0),
    (Special::VMIN, 1),
];

#[cfg(test)]
mod tests {
    use nix::pty::openpty;
    use nix::sys::termios::cfmakeraw;

    use super::*;

    #[test]
    fn a_terminal_gets_its_usual_modes_back() {
        let pty = openpty(None, None).unwrap();
        let mut raw = tcgetattr(&pty.slave).unwrap();
        cfmakeraw(&mut raw);
        raw.control_chars[Special::VINTR as usize] = 7;
        tcsetattr(&pty.slave, SetArg::TCSANOW, &raw).unwrap();
        reset(&pty.slave).unwrap();
        let now = tcgetattr(&pty.slave).unwrap();
        assert!(now.local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG));
        assert!(now.input_flags.contains(InputFlags::ICRNL));
        assert!(now.output_flags.contains(OutputFlags::OPOST));
        assert_eq!(now.control_chars[Special::VINTR as usize], 3);
    }

    #[test]
    fn a_terminal_has_the_size_that_it_was_given() {
        let pty = openpty(None, None).unwrap();
        resize(&pty.slave, 25, 80).unwrap();
        assert_eq!(size(&pty.master), Ok((25, 80)));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(is_terminal(&pty.slave) && !is_terminal(&file));
        assert_eq!(resize(&file, 1, 1), Err(Errno::ENOTTY));
    }
}
