//! The terminal of a service: made ready for a run, and for its next user once the service has ended.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use kelson_spec::service::TerminalSpec;
use kelson_sys::terminal;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Uid, fchown};

use crate::failure::at;
use crate::open_file;

/// Of a terminal that has a user: the group, `tty` as a rule, may write to it.
const MODE: Mode = Mode::from_bits_truncate(0o620);
/// One that is being closed cannot be opened for a moment.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// No scrolling region, the first line, no text and nothing scrolled away, and all attributes as at first.
const CLEAR: &[u8] = b"\x1b[r\x1b[H\x1b[3J\x1bc";
/// Any virtual terminal.
const SCREEN: &str = "/dev/tty0";

/// Makes it ready for the next run, and gives it to the user.
pub fn take(spec: &TerminalSpec, uid: Option<u32>) -> Result<File, String> {
    let path = &spec.path;
    let file = ready(spec)?;
    if let Some(uid) = uid {
        fchown(&file, Some(Uid::from_raw(uid)), None)
            .and_then(|()| fchmod(&file, MODE))
            .map_err(|errno| at(path, format!("cannot give it to user {uid}: {}", errno.desc())))?;
    }
    open_file::block(&file).map_err(|errno| at(path, errno.desc()))?;
    Ok(file)
}

/// Makes it ready for others, and gives it back to root, if the service had a user of its own.
pub fn leave(spec: &TerminalSpec, uid: Option<u32>) -> Result<(), String> {
    // One that is gone, as the device of a line that was pulled out, has nobody to be left to.
    match open(&spec.path) {
        Ok(file) if terminal::is_terminal(&file) => {}
        _ => return Ok(()),
    }
    // No run needs it to have a size.
    let spec = TerminalSpec { rows: None, columns: None, ..spec.clone() };
    take(&spec, uid.map(|_| 0)).map(drop)
}

fn ready(spec: &TerminalSpec) -> Result<File, String> {
    let path = &spec.path;
    let cannot = |what: &str, errno: Errno| at(path, format!("cannot {what}: {}", errno.desc()));
    let mut file = checked(path)?;
    if spec.hang_up {
        terminal::hang_up(&file).map_err(|errno| cannot("hang it up", errno))?;
        // That was its end for this descriptor too.
        drop(file);
        file = checked(path)?;
    }
    let mut is_free = false;
    if spec.clear {
        // One that is open is not freed.
        drop(file);
        is_free = free(path);
        file = checked(path)?;
    }
    if spec.reset {
        terminal::reset(&file).map_err(|errno| cannot("reset it", errno))?;
    }
    // Only now: the reset drops what has not been sent yet.
    if spec.clear && !is_free {
        // A line that takes nothing is not waited for.
        let _ = file.write_all(CLEAR);
    }
    if spec.rows.or(spec.columns).is_some() {
        let (rows, columns) = terminal::size(&file).map_err(|errno| cannot("resize it", errno))?;
        terminal::resize(&file, spec.rows.unwrap_or(rows), spec.columns.unwrap_or(columns))
            .map_err(|errno| cannot("resize it", errno))?;
    }
    Ok(file)
}

/// Frees a virtual terminal that nobody has open: the next who opens it finds an empty one.
fn free(path: &Path) -> bool {
    let Some(number) = TerminalSpec::virtual_number(path) else { return false };
    open(Path::new(SCREEN)).is_ok_and(|screen| terminal::disallocate(&screen, number).is_ok())
}

fn checked(path: &Path) -> Result<File, String> {
    let file = open(path).map_err(|error| at(path, error))?;
    match terminal::is_terminal(&file) {
        true => Ok(file),
        false => Err(at(path, "it is no terminal")),
    }
}

/// Without the wait for a line that has no carrier. What is no device is not opened: that could have an effect.
fn open(path: &Path) -> io::Result<File> {
    if !path.metadata()?.file_type().is_char_device() {
        return Err(io::Error::other("it is no terminal"));
    }
    let mut tries = 1..TRIES;
    loop {
        match open_file::open(path, OFlag::O_NONBLOCK, true) {
            Err(error) if error.raw_os_error() == Some(libc::EIO) && tries.next().is_some() => sleep(PAUSE),
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;

    use nix::pty::{OpenptyResult, openpty};
    use nix::sys::termios::{LocalFlags, SetArg, cfmakeraw, tcgetattr, tcsetattr};
    use nix::unistd::ttyname;

    use super::*;

    fn pair() -> (OpenptyResult, TerminalSpec) {
        let pty = openpty(None, None).unwrap();
        let spec = TerminalSpec { path: ttyname(&pty.slave).unwrap(), ..TerminalSpec::default() };
        (pty, spec)
    }

    #[test]
    fn a_terminal_is_made_ready() {
        let (pty, plain) = pair();
        let mut raw = tcgetattr(&pty.slave).unwrap();
        cfmakeraw(&mut raw);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &raw).unwrap();
        let is_usual = |file: &File| tcgetattr(file).unwrap().local_flags.contains(LocalFlags::ICANON);
        assert!(!is_usual(&take(&plain, None).unwrap()), "nothing asks for a reset");
        let spec =
            TerminalSpec { reset: true, clear: true, rows: Some(25), columns: Some(80), ..plain.clone() };
        let mut file = take(&spec, None).unwrap();
        assert!(is_usual(&file));
        assert_eq!(terminal::size(&file), Ok((25, 80)));
        file.write_all(b"login: ").unwrap();
        let mut shown = [0; 64];
        let count = File::from(pty.master).read(&mut shown).unwrap();
        let shown = String::from_utf8_lossy(&shown[..count]).into_owned();
        assert!(shown.starts_with("\x1b[r\x1b[H\x1b[3J\x1bc"), "{shown:?}");
    }

    #[test]
    fn a_terminal_is_its_users_and_given_back() {
        let (pty, spec) = pair();
        let found = || std::fs::metadata(&spec.path).unwrap();
        let before = found().gid();
        let file = take(&spec, Some(1234)).unwrap();
        assert_eq!((found().uid(), found().gid(), found().mode() & 0o777), (1234, before, 0o620));
        drop(file);
        leave(&spec, Some(1234)).unwrap();
        assert_eq!(found().uid(), 0);
        drop(pty);
        leave(&spec, Some(1234)).unwrap();
    }

    #[test]
    fn who_has_it_open_loses_it_only_if_it_is_hung_up() {
        let (pty, spec) = pair();
        let mut stranger = File::from(pty.slave.try_clone().unwrap());
        drop(take(&spec, None).unwrap());
        stranger.write_all(b"a").unwrap();
        let mut file = take(&TerminalSpec { hang_up: true, ..spec }, None).unwrap();
        assert!(stranger.write_all(b"b").is_err());
        file.write_all(b"c").unwrap();
    }

    #[test]
    fn what_is_no_terminal_is_named() {
        let said = |path: &str| {
            take(&TerminalSpec { path: path.into(), ..TerminalSpec::default() }, None).unwrap_err()
        };
        assert_eq!(said("/dev/null"), "/dev/null: it is no terminal");
        assert_eq!(said("/etc/passwd"), "/etc/passwd: it is no terminal");
        assert!(said("/dev/no-such").starts_with("/dev/no-such: No such file"));
    }
}
