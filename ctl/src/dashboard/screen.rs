//! The terminal while the dashboard has it, and given back as it was, on whichever way this ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tokio::time::timeout;

use super::canvas::{Canvas, ENTER, LEAVE};
use super::model::{Model, Shown};
use super::view::{self, Looks};
use crate::console::keyboard::{Keyboard, window_size};
use crate::console::writer::{Piece, Writer};
use crate::failure::Failure;

/// For so long a terminal that takes nothing is waited for at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// The terminal, ours until it is dropped.
pub struct Screen {
    canvas: Canvas,
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
        let mut writer = Writer::new()?;
        writer.take(Piece::Output(ENTER.into()));
        Ok(Screen { canvas: Canvas::default(), writer, looks, left, _keyboard: keyboard })
    }

    /// True where the terminal has taken all that was drawn. A slow one misses what passed in between.
    pub fn is_free(&self) -> bool {
        !self.writer.is_busy()
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
        let mut next = Buffer::empty(area());
        let shown = view::draw(&mut next, model, self.looks, SystemTime::now());
        let bytes = self.canvas.show(next);
        if !bytes.is_empty() && !self.left.load(Ordering::Relaxed) {
            self.writer.take(Piece::Output(bytes));
        }
        shown
    }

    /// Has everything redrawn.
    pub fn forget(&mut self) {
        self.canvas.forget();
    }

    /// Gives the terminal back.
    pub async fn leave(mut self) {
        if self.left.swap(true, Ordering::Relaxed) {
            return;
        }
        let farewell = async {
            while self.writer.is_busy() {
                self.writer.written().await?;
            }
            self.writer.take(Piece::Output(LEAVE.into()));
            self.writer.written().await
        };
        // A terminal that takes nothing shows nothing either.
        let _ = timeout(FAREWELL, farewell).await;
    }
}

/// The terminal's size; a serial console does not tell.
fn area() -> Rect {
    let answer = window_size();
    match (u16::try_from(answer.columns), u16::try_from(answer.rows)) {
        (Ok(columns @ 1..), Ok(rows @ 1..)) => Rect::new(0, 0, columns, rows),
        _ => Rect::new(0, 0, 80, 24),
    }
}
