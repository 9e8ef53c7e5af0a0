//! The thread that writes to the kernel's log.
//!
//! A console that takes lines slowly, or not at all, holds up this thread and nobody else. But a kernel that waits for
//! a console has a processor to itself meanwhile, interrupts and all. So when lines take long or many wait, what is
//! mere information goes past the console: the kernel's log has it all the same, and that costs next to no time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tracing::Level;

/// So much may wait, in bytes of text; what comes beyond it is lost, and counted.
const MOST: usize = 256 << 10;
/// With more than this waiting, the console does not get mere information.
const MUCH: usize = 64 << 10;
/// A line takes longer where nobody reads; a slow line that is read takes a tenth of that. Two in a row, and the
/// console does not get what is mere information for [`REST`].
const STUCK: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(60);
/// The memory that a line takes beside its text.
const LINE: usize = 64;
/// From one look at what waits to the next.
const LOOK: Duration = Duration::from_millis(2);
const STACK: usize = 64 << 10;

/// The thread, from outside.
#[derive(Debug)]
pub struct Writer {
    lines: Sender<(Level, String)>,
    /// How much waits, in bytes; the line that is being written included.
    waiting: Arc<AtomicUsize>,
}

impl Writer {
    /// Starts the thread, in which `print` writes each line. All signals must be blocked by now, as they are to be read
    /// by nobody but the main loop.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn begin(print: impl Fn(Level, &str) + Send + 'static) -> io::Result<Writer> {
        let (lines, received) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&waiting);
        let thread = std::thread::Builder::new().name("log".to_owned()).stack_size(STACK);
        thread.spawn(move || {
            let _ = crate::crash::alternate_stack();
            write_all(print, &received, &seen);
        })?;
        Ok(Writer { lines, waiting })
    }

    /// False when there is no room for the line.
    pub fn take(&self, level: Level, line: &str) -> bool {
        let size = size(line);
        if self.waiting.fetch_add(size, Ordering::AcqRel).saturating_add(size) > MOST {
            self.waiting.fetch_sub(size, Ordering::AcqRel);
            return false;
        }
        self.lines.send((level, line.to_owned())).is_ok()
    }

    /// Waits until nothing waits, at most so long. False: something does.
    pub fn settle(&self, patience: Duration) -> bool {
        let begun = Instant::now();
        loop {
            if self.waiting.load(Ordering::Acquire) == 0 {
                return true;
            }
            if begun.elapsed() >= patience {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// The share of [`MOST`] that a line takes.
fn size(line: &str) -> usize {
    line.len().saturating_add(LINE)
}

fn write_all(print: impl Fn(Level, &str), lines: &Receiver<(Level, String)>, waiting: &AtomicUsize) {
    let mut pace = Pace::default();
    while let Ok((level, line)) = lines.recv() {
        let begun = Instant::now();
        let past = level == Level::INFO && pace.is_slow(begun, waiting.load(Ordering::Acquire));
        print(if past { Level::DEBUG } else { level }, &line);
        waiting.fetch_sub(size(&line), Ordering::AcqRel);
        if !past && pace.took(begun, Instant::now()) {
            let told =
                format!("the console is not read: it does not get information for {} s", REST.as_secs());
            print(Level::DEBUG, &told);
        }
    }
}

/// How the console takes lines.
#[derive(Debug, Default)]
struct Pace {
    was_slow: bool,
    rests_until: Option<Instant>,
}

impl Pace {
    /// Whether mere information should not wait for it. `waiting`: how much waits, in bytes.
    fn is_slow(&self, now: Instant, waiting: usize) -> bool {
        waiting > MUCH || self.rests_until.is_some_and(|until| now < until)
    }

    /// A line that was printed. True when from now on the console rests.
    fn took(&mut self, begun: Instant, ended: Instant) -> bool {
        let slow = ended.duration_since(begun) >= STUCK;
        let rests = slow && self.was_slow;
        if rests {
            self.rests_until = ended.checked_add(REST);
        }
        self.was_slow = slow;
        rests
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::fd::OwnedFd;

    use super::super::{Console, number};
    use super::*;

    /// A console that takes nothing until somebody reads: a process that writes to it waits.
    fn stuck() -> (&'static Console, BufReader<impl io::Read>) {
        let (reader, kmsg) = io::pipe().unwrap();
        let room = nix::fcntl::fcntl(&kmsg, nix::fcntl::FcntlArg::F_GETPIPE_SZ).unwrap();
        let mut kmsg = File::from(OwnedFd::from(kmsg));
        let mut full = vec![b' '; usize::try_from(room).unwrap()];
        *full.last_mut().unwrap() = b'\n';
        kmsg.write_all(&full).unwrap();
        let console = Box::leak(Box::new(Console::new(true)));
        console.kmsg.set(kmsg).unwrap();
        console.write_from_a_thread().unwrap();
        (console, BufReader::new(reader))
    }

    /// Level and text.
    fn next(reader: &mut BufReader<impl io::Read>) -> (u8, String) {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let (level, text) = line.trim_end().strip_prefix('<').unwrap().split_once(">kelson: ").unwrap();
        (level.parse::<u8>().unwrap() & 7, text.to_owned())
    }

    #[test]
    fn a_console_that_takes_its_time_does_not_get_mere_information() {
        let begun = Instant::now();
        let mut pace = Pace::default();
        let mut at = begun;
        let mut line = |pace: &mut Pace, took: Duration| {
            let (began, ended) = (at, at + took);
            at = ended;
            (pace.took(began, ended), at)
        };
        // Once may be chance.
        for took in [STUCK, STUCK / 10, STUCK * 5, Duration::ZERO] {
            assert!(!line(&mut pace, took).0);
        }
        assert!(!line(&mut pace, STUCK).0);
        let (rests, now) = line(&mut pace, STUCK);
        assert!(rests && pace.is_slow(now, 0) && pace.is_slow(now + REST / 2, 0));
        // A warning is printed meanwhile, and may be quick: the kernel gives up on some consoles.
        assert!(!line(&mut pace, Duration::ZERO).0 && pace.is_slow(now + REST / 2, 0));
        assert!(!pace.is_slow(now + REST, 0));
        assert!(pace.is_slow(now + REST, MUCH + 1), "many lines wait");
    }

    #[test]
    fn a_console_that_takes_nothing_is_waited_for_by_the_thread_alone() {
        let (console, mut reader) = stuck();
        let text = |number: usize| format!("{number} {}", "x".repeat(200));
        // Four times what may wait.
        let all = 4 * MOST / 200;
        for number in 0..all {
            console.write(if number % 2 == 0 { Level::INFO } else { Level::WARN }, &text(number));
        }
        assert!(!console.settle(Duration::from_millis(20)), "it still waits");

        reader.read_line(&mut String::new()).unwrap();
        let (mut seen, mut past, mut lost) = (0, 0, 0);
        loop {
            let (level, said) = next(&mut reader);
            // A short line may have found room while a long one did not.
            if let Some(count) = said.strip_suffix(" lines of this log were lost") {
                lost += count.parse::<usize>().unwrap();
                continue;
            }
            if said == "room again" {
                break;
            }
            assert_eq!(said, text(seen), "in order, and none is missing before there is no room");
            match (seen % 2 == 0, level) {
                (false, level) => assert_eq!(level, number(Level::WARN)),
                (true, 7) => past += 1,
                (true, level) => assert_eq!(level, number(Level::INFO)),
            }
            seen += 1;
            // Once there is room again the loss is reported before the next line.
            if console.writer.get().unwrap().waiting.load(Ordering::Acquire) < MUCH {
                console.write(Level::WARN, "room again");
            }
        }
        assert!(seen >= MOST / (200 + LINE + 10) && seen < all, "{seen} of {all}");
        assert!(past > 0 && past < seen, "what is mere information goes past the console: {past}");
        assert_eq!(lost, all - seen);
        assert!(console.settle(Duration::from_secs(10)));
        assert_eq!(console.writer.get().unwrap().waiting.load(Ordering::Acquire), 0);
    }
}
