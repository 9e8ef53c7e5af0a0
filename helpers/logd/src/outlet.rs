//! PID 1's own standard output or error, where lines of services with `logs.stdout` go as well.
//!
//! Its reader may be slow or gone, so one thread waits for the reader. It is started at the first line. A slow reader
//! slows down the services whose lines it gets, as it would without Kelson. One that takes nothing for [`STUCK`] holds
//! up nobody: lines that do not fit are dropped and counted until it reads again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::store::Lost;
use super::troubles::Troubles;

/// When this many bytes wait, logd reads no more lines of the services that wrote them.
const FULL: usize = 128 * 1024;
/// No more than this waits. One read of a service fits between `FULL` and `MOST`.
const MOST: usize = 2 * FULL;
/// Written at a time: a pipe takes it whole, or not at all (`PIPE_BUF`).
const CHUNK: usize = 4096;
/// A reader that has taken nothing for so long is not waited for.
const STUCK: Duration = Duration::from_secs(1);

/// Of the thread, which goes nowhere deep.
const STACK: usize = 64 * 1024;

/// Its two sides.
pub struct Outlets {
    stdout: Outlet,
    stderr: Outlet,
}

impl Outlets {
    pub fn new(troubles: &Arc<Troubles>) -> Outlets {
        let of = |name, open| Outlet::new(name, open, Arc::clone(troubles));
        Outlets {
            stdout: of("standard output", || io::stdout().as_fd().try_clone_to_owned()),
            stderr: of("standard error", || io::stderr().as_fd().try_clone_to_owned()),
        }
    }

    pub fn of(&mut self, stderr: bool) -> &mut Outlet {
        if stderr { &mut self.stderr } else { &mut self.stdout }
    }

    pub fn is_full(&self, stderr: bool, now: Instant) -> Option<Instant> {
        if stderr { self.stderr.is_full(now) } else { self.stdout.is_full(now) }
    }

    /// Waits until all is written, as long as somebody reads, and at most until then.
    pub fn settle(&self, until: Instant) {
        self.stdout.settle(until);
        self.stderr.settle(until);
    }
}

/// See the module.
pub struct Outlet {
    name: &'static str,
    open: fn() -> io::Result<OwnedFd>,
    troubles: Arc<Troubles>,
    /// Lines that are not in the queue yet.
    lines: Vec<u8>,
    /// Once there was a line.
    queue: Option<Arc<Queue>>,
}

impl Outlet {
    fn new(name: &'static str, open: fn() -> io::Result<OwnedFd>, troubles: Arc<Troubles>) -> Outlet {
        Outlet { name, open, troubles, lines: Vec::new(), queue: None }
    }

    /// Adds a line, with the name of its service before it if there is one.
    pub fn line(&mut self, service: Option<&str>, text: &[u8]) {
        if let Some(service) = service {
            self.lines.extend_from_slice(service.as_bytes());
            self.lines.extend_from_slice(b": ");
        }
        self.lines.extend_from_slice(text);
        self.lines.push(b'\n');
    }

    /// Has the lines written that were added, as far as there is room for them.
    pub fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        if self.queue.is_none() {
            match (self.open)().and_then(|file| Queue::begin(file, self.name, Arc::clone(&self.troubles))) {
                Ok(queue) => self.queue = Some(queue),
                Err(error) => {
                    let text = format!("lines cannot be copied to the {} of init: {error}", self.name);
                    self.troubles.tell(text);
                }
            }
        }
        if let Some(queue) = &self.queue {
            queue.add(&self.lines);
        }
        self.lines.clear();
        self.lines.shrink_to(FULL);
    }

    /// Until when nothing is to be added for now, if somebody reads: later it may be asked again.
    fn is_full(&self, now: Instant) -> Option<Instant> {
        let queue = self.queue.as_ref()?;
        let full = queue.lock().full_until(now);
        queue.awaited.store(full.is_some(), Ordering::Relaxed);
        full
    }

    fn settle(&self, until: Instant) {
        let Some(queue) = &self.queue else { return };
        let mut state = queue.lock();
        while state.size() > 0 || state.lost != Lost::default() {
            let now = Instant::now();
            let Some(rest) = state.alive_until(now).map(|alive| alive.min(until)) else { return };
            let Some(rest) = rest.checked_duration_since(now).filter(|rest| !rest.is_zero()) else { return };
            let waited = queue.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Between the reader of the pipes and the thread that writes.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// The reader of the pipes waits for room.
    awaited: AtomicBool,
    name: &'static str,
    troubles: Arc<Troubles>,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// Bytes that the thread has taken and not written.
    taken: usize,
    /// Since when the thread waits for the reader.
    since: Option<Instant>,
    /// Dropped behind all that waits.
    lost: Lost,
    /// Writing has failed, which was reported.
    failed: bool,
}

impl State {
    fn size(&self) -> usize {
        self.waiting.len().saturating_add(self.taken)
    }

    /// Until when somebody may be taken to read; `None`: nobody does.
    fn alive_until(&self, now: Instant) -> Option<Instant> {
        self.since.unwrap_or(now).checked_add(STUCK).filter(|until| *until > now)
    }

    fn full_until(&self, now: Instant) -> Option<Instant> {
        (self.size() >= FULL).then(|| self.alive_until(now)).flatten()
    }

    /// Adds the notes on dropped lines, in the place of those lines.
    fn note(&mut self) {
        let Lost { lines, bytes } = std::mem::take(&mut self.lost);
        if lines > 0 {
            let text =
                format!("kelson-logd: {lines} lines ({bytes} bytes) were lost here: nobody read this\n");
            self.waiting.extend_from_slice(text.as_bytes());
        }
    }
}

impl Queue {
    fn begin(file: OwnedFd, name: &'static str, troubles: Arc<Troubles>) -> io::Result<Arc<Queue>> {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            changed: Condvar::new(),
            awaited: AtomicBool::new(false),
            name,
            troubles,
        });
        let of_thread = Arc::clone(&queue);
        let work = move || of_thread.write(&file);
        std::thread::Builder::new().name("copy".into()).stack_size(STACK).spawn(work)?;
        Ok(queue)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, lines: &[u8]) {
        let mut state = self.lock();
        if state.size().saturating_add(lines.len()) > MOST {
            if state.lost == Lost::default() {
                self.troubles
                    .tell(format!("nobody reads the {} of init: lines that go there are dropped", self.name));
            }
            let count = lines.iter().filter(|byte| **byte == b'\n').count();
            return state.lost.add(count as u64, lines.len() as u64);
        }
        state.note();
        state.waiting.extend_from_slice(lines);
        self.changed.notify_all();
    }

    /// The thread: writes all that comes, and never ends.
    fn write(&self, file: &OwnedFd) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && state.lost == Lost::default() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            // What was dropped behind them, now that somebody reads again.
            state.note();
            let lines = std::mem::take(&mut state.waiting);
            state.taken = lines.len();
            drop(state);
            let mut rest = lines.as_slice();
            while !rest.is_empty() {
                self.lock().since = Some(Instant::now());
                let result = write_some(file.as_fd(), first_of(rest));
                // Nobody can read these lines any more.
                let written = result.unwrap_or(rest.len());
                rest = rest.get(written..).unwrap_or_default();
                let mut state = self.lock();
                (state.taken, state.since) = (rest.len(), None);
                if let Err(errno) = result
                    && !std::mem::replace(&mut state.failed, true)
                {
                    let (name, why) = (self.name, errno.desc());
                    self.troubles.tell(format!(
                        "the {name} of init cannot be written: {why}; lines that go there are dropped"
                    ));
                }
                state.failed &= result.is_err();
                let room = state.size() < FULL / 2;
                drop(state);
                self.changed.notify_all();
                if room && self.awaited.swap(false, Ordering::Relaxed) {
                    self.troubles.wake();
                }
            }
        }
    }
}

/// What is written at a time: whole lines, so that what others write there stands between lines.
fn first_of(lines: &[u8]) -> &[u8] {
    let most = lines.get(..CHUNK).unwrap_or(lines);
    let whole = most.iter().rposition(|byte| *byte == b'\n').map(|end| end.saturating_add(1));
    most.get(..whole.unwrap_or(most.len())).unwrap_or(most)
}

/// Waits for the reader, also where somebody else has made the file nonblocking.
fn write_some(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    loop {
        match nix::unistd::write(file, bytes) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                poll(&mut [PollFd::new(file, PollFlags::POLLOUT)], PollTimeout::NONE)?;
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use super::*;

    /// An outlet into a pipe, and the end that is read.
    fn outlet() -> (Outlet, File, Arc<Troubles>) {
        let (read, write) = nix::unistd::pipe().unwrap();
        let troubles = Arc::new(Troubles::new().unwrap());
        let queue = Queue::begin(write, "standard output", Arc::clone(&troubles)).unwrap();
        let mut outlet =
            Outlet::new("standard output", || Err(io::ErrorKind::NotFound.into()), Arc::clone(&troubles));
        outlet.queue = Some(queue);
        (outlet, read.into(), troubles)
    }

    fn read(file: &mut File, bytes: usize) -> String {
        let mut text = vec![0; bytes];
        file.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Fills it until somebody would have to wait; gives the number of lines, 1000 bytes each.
    fn fill(outlet: &mut Outlet) -> usize {
        let (line, mut lines) = ("x".repeat(999), 0);
        while outlet.is_full(Instant::now()).is_none() {
            outlet.line(None, line.as_bytes());
            outlet.flush();
            lines += 1;
        }
        lines
    }

    #[test]
    fn lines_are_whole_and_have_the_name_where_it_is_asked_for() {
        let (mut outlet, mut reader, _) = outlet();
        outlet.line(None, b"one");
        outlet.line(Some("web"), b"two");
        outlet.flush();
        assert_eq!(read(&mut reader, 13), "one\nweb: two\n");
        outlet.settle(Instant::now() + Duration::from_secs(10));
        assert_eq!(outlet.queue.as_ref().unwrap().lock().size(), 0);
        let long = "x".repeat(CHUNK);
        let lines = format!("{long}\nab\ncd");
        assert_eq!(first_of(lines.as_bytes()).len(), CHUNK);
        assert_eq!(first_of(&lines.as_bytes()[CHUNK..]), b"\nab\n");
        assert_eq!(first_of(b"cd"), b"cd");
    }

    #[test]
    fn a_slow_reader_loses_nothing() {
        let (mut outlet, mut reader, troubles) = outlet();
        let lines = fill(&mut outlet);
        assert!(lines * 1000 >= FULL);
        read(&mut reader, lines * 1000);
        outlet.settle(Instant::now() + Duration::from_secs(10));
        assert_eq!(outlet.is_full(Instant::now()), None);
        assert_eq!(troubles.take(), Vec::<String>::new());
    }

    #[test]
    fn a_reader_that_takes_nothing_is_waited_for_for_a_second_and_learns_what_was_lost() {
        let (mut outlet, mut reader, troubles) = outlet();
        let mut lines = fill(&mut outlet);
        // As long as the pipe takes something, this waits.
        outlet.settle(Instant::now() + Duration::from_secs(60));
        assert_eq!(outlet.is_full(Instant::now()), None, "nobody waits any longer");
        let line = "x".repeat(999);
        while outlet.queue.as_ref().unwrap().lock().lost == Lost::default() {
            outlet.line(None, line.as_bytes());
            outlet.flush();
            lines += 1;
        }
        // A short line has room, behind the note on the others.
        outlet.line(None, b"kept");
        outlet.flush();
        let begun = Instant::now();
        outlet.settle(begun + Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30), "the end does not wait for it either");
        let told = troubles.take();
        assert_eq!(told, ["nobody reads the standard output of init: lines that go there are dropped"]);
        read(&mut reader, (lines - 1) * 1000);
        let note = "kelson-logd: 1 lines (1000 bytes) were lost here: nobody read this\nkept\n";
        assert_eq!(read(&mut reader, note.len()), note);
        outlet.line(None, b"read again");
        outlet.flush();
        assert_eq!(read(&mut reader, 11), "read again\n");
    }

    #[test]
    fn a_reader_that_is_gone_is_reported_once_and_holds_nobody_up() {
        let (mut outlet, reader, troubles) = outlet();
        drop(reader);
        for _ in 0..3 {
            outlet.line(None, b"unread");
            outlet.flush();
            outlet.settle(Instant::now() + Duration::from_secs(10));
        }
        let told = troubles.take();
        assert!(
            matches!(told.as_slice(), [one] if one.contains("cannot be written: Broken pipe")),
            "{told:?}"
        );
    }
}
