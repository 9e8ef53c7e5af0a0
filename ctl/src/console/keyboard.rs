//! The terminal here, handed over: each key comes as it is pressed, Ctrl-C too, and nothing is shown by itself.

use std::sync::Arc;

use kelson_proto::v1::WindowSize;

use crate::failure::Failure;

const INPUT: i32 = libc::STDIN_FILENO;

/// The terminal is in raw mode while this is held, and as before afterwards, after a panic too.
pub struct Keyboard {
    before: Arc<libc::termios>,
}

impl Keyboard {
    /// # Errors
    /// When the standard input is no terminal that can be asked.
    pub fn hand_over() -> Result<Keyboard, Failure> {
        let cannot =
            || Failure::Failed(format!("cannot hand over the terminal: {}", std::io::Error::last_os_error()));
        // SAFETY: all zero is a termios, and the call writes one through the pointer.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        if unsafe { libc::tcgetattr(INPUT, &raw mut before) } != 0 {
            return Err(cannot());
        }
        let before = Arc::new(before);
        // A release build ends in its panic without a drop.
        let (saved, earlier) = (Arc::clone(&before), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            restore(&saved);
            earlier(panic);
        }));
        let mut raw = *before;
        // SAFETY: it changes the termios that the pointer leads to.
        unsafe { libc::cfmakeraw(&raw mut raw) };
        let keyboard = Keyboard { before };
        // SAFETY: it reads a termios through the pointer.
        if unsafe { libc::tcsetattr(INPUT, libc::TCSANOW, &raw const raw) } != 0 {
            return Err(cannot());
        }
        Ok(keyboard)
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

fn restore(before: &libc::termios) {
    // Not once all is shown: a terminal that was stopped never shows it. One that has gone needs nothing.
    // SAFETY: it reads a termios through the pointer.
    unsafe { libc::tcsetattr(INPUT, libc::TCSANOW, before) };
}

/// The size of the terminal that the output leads to.
pub fn window_size() -> WindowSize {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: it writes one winsize through the pointer; where it fails it writes nothing.
    unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    WindowSize { rows: size.ws_row.into(), columns: size.ws_col.into() }
}
