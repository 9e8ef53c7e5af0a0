//! The terminal here, handed over: each key comes as it is pressed, Ctrl-C too, and nothing is shown by itself.

use std::io::{Write as _, stdin};

use kelson_proto::v1::WindowSize;
use nix::sys::termios::{LocalFlags, SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

use crate::failure::Failure;
use crate::output::terminal::winsize;

/// The terminal is in raw mode while this is held, and as before afterwards, after a panic too.
pub struct Keyboard {
    before: libc::termios,
}

impl Keyboard {
    /// # Errors
    /// When the standard input is no terminal that can be asked.
    pub fn hand_over() -> Result<Keyboard, Failure> {
        Keyboard::changed(cfmakeraw)
    }

    /// As [`Keyboard::hand_over`], of a terminal that still takes lines, and does not show them.
    ///
    /// # Errors
    /// When the standard input is no terminal that can be asked.
    pub fn hide() -> Result<Keyboard, Failure> {
        Keyboard::changed(|terminal| terminal.local_flags.remove(LocalFlags::ECHO))
    }

    fn changed(change: impl FnOnce(&mut Termios)) -> Result<Keyboard, Failure> {
        let cannot = |errno| Failure::Failed(format!("cannot hand over the terminal: {errno}"));
        let mut raw = tcgetattr(stdin()).map_err(cannot)?;
        let keyboard = Keyboard { before: raw.clone().into() };
        // A release build ends in its panic without a drop.
        let (before, earlier) = (keyboard.before, std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            restore(before);
            earlier(panic);
        }));
        change(&mut raw);
        tcsetattr(stdin(), SetArg::TCSANOW, &raw).map_err(cannot)?;
        Ok(keyboard)
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        restore(self.before);
    }
}

fn restore(before: libc::termios) {
    // Not once all is shown: a terminal that was stopped never shows it. One that has gone needs nothing.
    let _ = tcsetattr(stdin(), SetArg::TCSANOW, &Termios::from(before));
}

/// A line of the terminal, which does not show it, without the newline at its end.
///
/// # Errors
/// When the standard input is no terminal that can be asked.
pub fn typed(question: &str) -> Result<Vec<u8>, Failure> {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{question}: ").and_then(|()| stderr.flush());
    let hidden = Keyboard::hide()?;
    let mut line = String::new();
    let read = stdin().read_line(&mut line);
    drop(hidden);
    let _ = writeln!(stderr);
    read.map_err(|error| Failure::Failed(format!("standard input: {error}")))?;
    Ok(line.strip_suffix('\n').unwrap_or(&line).as_bytes().to_vec())
}

/// The size of the terminal that the output leads to.
pub fn window_size() -> WindowSize {
    let size = winsize(libc::STDOUT_FILENO);
    WindowSize { rows: size.ws_row.into(), columns: size.ws_col.into() }
}
