//! A terminal that keeps what is on its screen.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::at;
use crate::fake::Fake;
use crate::terminal::{is_raw, resize, send, terminal};

/// The dashboard on a terminal that also stays open here.
pub struct OnScreen {
    pub child: Child,
    ours: std::fs::File,
    theirs: OwnedFd,
    written: Receiver<Vec<u8>>,
    vt: vt100::Parser,
    /// Every byte that came.
    pub bytes: Vec<u8>,
}

/// The program on a terminal of 80x24 without colours, asking once a second.
pub fn dashboard(fake: &Fake) -> Command {
    let mut command = at(&fake.socket(), "dashboard --interval 1s");
    command.env("TERM", "vt220").env("NO_COLOR", "1").env("LANG", "C.UTF-8");
    command
}

impl OnScreen {
    pub fn start(command: Command) -> OnScreen {
        OnScreen::sized(command, 80, 24)
    }

    pub fn sized(command: Command, columns: u16, rows: u16) -> OnScreen {
        let mut on = OnScreen::unread(command, columns, rows);
        let (send, written) = channel();
        on.written = written;
        let mut from = on.ours.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                if send.send(chunk[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        on
    }

    /// One that takes no more than fits into the kernel.
    pub fn unread(mut command: Command, columns: u16, rows: u16) -> OnScreen {
        let (ours, slave) = terminal(columns, rows);
        std::fs::File::from(slave.try_clone().unwrap()).write_all(b"$ kelsonctl dashboard\n").unwrap();
        let theirs = || Stdio::from(slave.try_clone().unwrap());
        let child = command.stdin(theirs()).stdout(theirs()).stderr(theirs()).spawn().unwrap();
        let vt = vt100::Parser::new(rows.max(24), columns.max(80), 0);
        OnScreen { child, ours, theirs: slave, written: channel().1, vt, bytes: Vec::new() }
    }

    /// Presses keys.
    pub fn keys(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.vt.screen_mut().set_size(rows, columns);
        resize(&self.theirs, &self.child, columns, rows);
    }

    /// Waits for more on the screen; false once there was none for so long.
    fn more(&mut self, patience: Duration) -> bool {
        match self.written.recv_timeout(patience) {
            Ok(bytes) => {
                self.vt.process(&bytes);
                self.bytes.extend(bytes);
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        }
    }

    /// The lines of the screen without the blanks at their ends.
    pub fn text(&self) -> String {
        let (_, columns) = self.vt.screen().size();
        let mut rows: Vec<String> =
            self.vt.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows.join("\n") + "\n"
    }

    /// Reads until the screen is as it should be; what is on it then.
    pub fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let text = self.text();
            if holds(&text) {
                return text;
            }
            self.more(Duration::from_millis(100));
            assert!(Instant::now() < deadline, "{what} was never on the screen:\n{text}");
        }
    }

    pub fn until_seen(&mut self, what: &str) -> String {
        self.until(what, |text| text.contains(what))
    }

    /// Reads until the screen is that of a file. `KELSON_BLESS=1` writes it again, once the screen stands
    /// still.
    pub fn until_as(&mut self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/dashboard/{name}.txt"));
        if std::env::var_os("KELSON_BLESS").is_some() {
            while self.more(Duration::from_secs(3)) {}
            std::fs::write(&path, self.text()).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        self.until(&format!("{}:\n{kept}", path.display()), |text| text == kept);
    }

    /// Takes up what is written, for as long as something is.
    pub fn drain(&mut self) {
        while self.more(Duration::from_millis(300)) {}
    }

    /// The colour of the first letter of this word.
    pub fn colour(&self, word: &str) -> vt100::Color {
        let text = self.text();
        let (row, line) = text.lines().enumerate().find(|(_, line)| line.contains(word)).unwrap();
        let column = line[..line.find(word).unwrap()].chars().count();
        self.vt.screen().cell(row.try_into().unwrap(), column.try_into().unwrap()).unwrap().fgcolor()
    }

    pub fn is_raw(&self) -> bool {
        is_raw(&self.theirs)
    }

    /// The exit status, and what is on the screen: the terminal is as it was before.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap().code();
        assert!(!self.is_raw());
        self.drain();
        let screen = self.vt.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        (status, self.text())
    }
}

impl Drop for OnScreen {
    fn drop(&mut self) {
        // One that has ended already is no fault.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
