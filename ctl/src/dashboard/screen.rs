//! The terminal while the dashboard has it, and given back as it was, on whichever way this ends.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use ratatui::Terminal;
use ratatui::layout::Size;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::backend::{Bytes, ENTER, LEAVE};
use super::model::{Model, Shown};
use super::view::{self, Looks};
use crate::console::keyboard::{Keyboard, window_size};
use crate::console::thread;
use crate::failure::Failure;

/// For so long a terminal that takes nothing is waited for at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// The terminal, ours until it is dropped.
pub struct Screen {
    terminal: Terminal<Bytes>,
    writer: Writer,
    looks: Looks,
    /// It was given back already, after a panic: nothing is drawn on it any more.
    left: Arc<AtomicBool>,
    /// Dropped last: the terminal's own modes.
    _keyboard: Keyboard,
}

impl Screen {
    /// # Errors
    /// The terminal cannot be had.
    pub fn enter(looks: Looks) -> Result<Screen, Failure> {
        let keyboard = Keyboard::hand_over()?;
        // Before what the keyboard does about a panic, and before its message.
        let left = Arc::new(AtomicBool::new(false));
        let (is_left, earlier) = (Arc::clone(&left), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            if !is_left.swap(true, Ordering::Relaxed) {
                // The lock of the standard output may be held by a thread that waits for the terminal.
                // SAFETY: it reads as many bytes as the text has.
                unsafe { libc::write(libc::STDOUT_FILENO, LEAVE.as_ptr().cast(), LEAVE.len()) };
            }
            earlier(panic);
        }));
        let Ok(terminal) = Terminal::new(Bytes::new(size()));
        let mut writer = Writer::new()?;
        writer.write(ENTER.as_bytes().to_vec());
        Ok(Screen { terminal, writer, looks, left, _keyboard: keyboard })
    }

    /// True where the terminal has taken all that was drawn. A slow one misses what passed in between.
    pub fn is_free(&self) -> bool {
        !self.writer.busy
    }

    /// Returns once it has. Cancelled by dropping, without loss.
    ///
    /// # Errors
    /// The terminal is gone.
    pub async fn freed(&mut self) -> io::Result<()> {
        self.writer.written().await
    }

    /// Draws what has changed since the last time. To be called while it is free.
    pub fn draw(&mut self, model: &Model) -> Shown {
        self.terminal.backend_mut().resize(size());
        let mut shown = Shown::default();
        let Ok(_) =
            self.terminal.draw(|frame| shown = view::draw(frame, model, self.looks, SystemTime::now()));
        let bytes = self.terminal.backend_mut().take();
        if !self.left.load(Ordering::Relaxed) {
            self.writer.write(bytes);
        }
        shown
    }

    /// Has everything redrawn.
    pub fn forget(&mut self) {
        let Ok(()) = self.terminal.clear();
    }

    /// Gives the terminal back.
    pub async fn leave(mut self) {
        if self.left.swap(true, Ordering::Relaxed) {
            return;
        }
        let farewell = async {
            while self.writer.busy {
                self.writer.written().await?;
            }
            self.writer.write(LEAVE.as_bytes().to_vec());
            self.writer.written().await
        };
        // A terminal that takes nothing shows nothing either.
        let _ = timeout(FAREWELL, farewell).await;
    }
}

/// The terminal's size; a serial console does not tell.
fn size() -> Size {
    let answer = window_size();
    match (u16::try_from(answer.columns), u16::try_from(answer.rows)) {
        (Ok(columns @ 1..), Ok(rows @ 1..)) => Size::new(columns, rows),
        _ => Size::new(80, 24),
    }
}

/// Writes on a thread of its own: a terminal may take nothing for as long as it likes.
struct Writer {
    pieces: mpsc::Sender<Vec<u8>>,
    done: mpsc::Receiver<io::Result<()>>,
    busy: bool,
}

impl Writer {
    fn new() -> Result<Writer, Failure> {
        let (pieces, mut waiting) = mpsc::channel::<Vec<u8>>(1);
        let (report, done) = mpsc::channel(1);
        thread("screen", move || {
            while let Some(piece) = waiting.blocking_recv() {
                let mut stdout = io::stdout().lock();
                let written = stdout.write_all(&piece).and_then(|()| stdout.flush());
                // What waits in the kernel for a slow line is not shown yet.
                // SAFETY: it takes a plain number.
                unsafe { libc::tcdrain(libc::STDOUT_FILENO) };
                if report.blocking_send(written).is_err() {
                    return;
                }
            }
        })?;
        Ok(Writer { pieces, done, busy: false })
    }

    fn write(&mut self, piece: Vec<u8>) {
        if !piece.is_empty() {
            // There is room: nothing is written before the last is done.
            self.busy = self.pieces.try_send(piece).is_ok() || self.busy;
        }
    }

    async fn written(&mut self) -> io::Result<()> {
        if !self.busy {
            return std::future::pending().await;
        }
        let written = self.done.recv().await;
        self.busy = false;
        written.unwrap_or_else(|| Err(io::Error::other("its thread has ended")))
    }
}
