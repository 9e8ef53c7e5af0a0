//! A terminal of the machine: which one it is, and how a program gets it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use kelson_spec::service::TerminalSpec;
use kelson_sys::terminal;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, setsid};

/// A terminal by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal(PathBuf);

impl Terminal {
    /// The terminal of this name in `/dev`, or the one to which `/dev/console` leads.
    ///
    /// # Errors
    /// The machine has no console.
    pub fn find(name: Option<&str>, sys: &Path) -> io::Result<Terminal> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => {
                let list = sys.join("class/tty/console/active");
                let active = std::fs::read_to_string(&list)
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", list.display())))?;
                // The last one is /dev/console.
                let last = active.split_whitespace().last().map(str::to_owned);
                last.ok_or_else(|| io::Error::other("this machine has no console; name one: tty: tty1"))?
            }
        };
        Ok(Terminal(Path::new("/dev").join(name)))
    }

    /// Its kind, for `TERM`.
    pub fn kind(&self) -> &'static str {
        TerminalSpec::kind(&self.0)
    }

    /// Makes it the controlling terminal of this process and its standard input, output and error, with the usual modes,
    /// whatever its last user left.
    ///
    /// # Errors
    /// When it cannot be opened or is no terminal, with its path.
    pub fn take(&self) -> io::Result<()> {
        let at = |errno: Errno| io::Error::other(format!("{}: {}", self.0.display(), errno.desc()));
        // PID 1 has made a session for this service.
        let _ = setsid();
        // A line without a carrier would not open.
        let flags = (OFlag::O_NOCTTY | OFlag::O_NONBLOCK).bits();
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.0);
        let file =
            file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.0.display())))?;
        // PID 1 has stopped the program that had it before.
        terminal::take(&file, true).map_err(at)?;
        terminal::reset(&file).map_err(at)?;
        let blocking = nix::fcntl::FcntlArg::F_SETFL(OFlag::O_RDWR);
        nix::fcntl::fcntl(&file, blocking).map_err(at)?;
        dup2_stdin(&file).and_then(|()| dup2_stdout(&file)).and_then(|()| dup2_stderr(&file)).map_err(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_active_console_is_taken_unless_another_is_named() {
        let sys = tempfile::tempdir().unwrap();
        assert!(
            Terminal::find(None, sys.path()).unwrap_err().to_string().contains("class/tty/console/active")
        );
        let list = sys.path().join("class/tty/console/active");
        std::fs::create_dir_all(list.parent().unwrap()).unwrap();
        std::fs::write(&list, "tty0 ttyS0\n").unwrap();
        assert_eq!(Terminal::find(None, sys.path()).unwrap(), Terminal("/dev/ttyS0".into()));
        assert_eq!(Terminal::find(Some("tty2"), sys.path()).unwrap(), Terminal("/dev/tty2".into()));
        std::fs::write(&list, "\n").unwrap();
        assert!(Terminal::find(None, sys.path()).unwrap_err().to_string().contains("has no console"));
    }

    #[test]
    fn what_is_no_terminal_is_refused_by_its_path() {
        let error = Terminal("/dev/no-such".into()).take().unwrap_err().to_string();
        assert!(error.starts_with("/dev/no-such: No such file"), "{error}");
    }
}
