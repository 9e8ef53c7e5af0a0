//! `kelson-timesync`: keeps the clock right by SNTP (RFC 5905), over servers that the machine file names.
//!
//! `kelson-timesync SAVED SERVER…`. It stays root for as long as it takes to open the file `SAVED`, whose time of change
//! tells the next boot how late it is at least. From then on it may set the clock and nothing else.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing))]

mod agreement;
mod discipline;
mod server;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use kelson_helper::notify::Notifier;
use kelson_helper::user::leave_root_with;
use kelson_spec::builtin::LEASED_SERVERS;
use kelson_spec::service::Credentials;
use kelson_sys::capability::SYS_TIME;
use kelson_sys::clock::{Measured, slew, step};

use agreement::{Answer, choose};
use discipline::{Discipline, Verdict};
use server::{Reading, Server};

/// `argv[0]`.
pub const NAME: &str = "kelson-timesync";
/// Stands for the servers that leases name.
const DHCP: &str = "dhcp";
/// How often the time is written down.
const SAVE_EVERY: Duration = Duration::from_secs(3600);
/// How many servers are asked at the same time, each by a thread: fewer than the service may have processes.
const TOGETHER: usize = 16;

/// Runs until a signal ends it. Returns the exit status.
pub fn main(words: &[OsString]) -> i32 {
    let Some((saved, servers)) = words.split_first() else {
        eprintln!("{NAME} SAVED SERVER…: PID 1 starts it");
        return 2;
    };
    let words: Vec<String> = servers.iter().map(|server| server.to_string_lossy().into_owned()).collect();
    match run(Path::new(saved), &words) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

enum Never {}

fn run(saved: &Path, words: &[String]) -> io::Result<Never> {
    let file = File::options().create(true).truncate(false).write(true).open(saved);
    let notifier = Notifier::connect()?;
    notifier.send("READY=1")?;
    if !leave_root_with(Credentials::NOBODY, Credentials::NOBODY, SYS_TIME)? {
        eprintln!("this user namespace has no user {}: it stays root", Credentials::NOBODY);
    }
    let mut saver = match file.and_then(Saver::start) {
        Ok(saver) => Some(saver),
        Err(error) => {
            eprintln!("{}: {error}: the next boot does not know the time", saved.display());
            None
        }
    };
    let mut discipline = Discipline::new();
    let mut log = Log { notifier, ..Log::default() };
    let mut servers = Vec::new();
    loop {
        servers = named(words, Path::new(LEASED_SERVERS), servers);
        let wait = match round(&mut servers, &mut log) {
            Some((server, reading)) => {
                correct(&mut discipline, server, &reading, &mut log)?;
                if let Some(saver) = &mut saver {
                    saver.save();
                }
                discipline.interval()
            }
            None => discipline.unanswered(),
        };
        thread::sleep(wait);
    }
}

/// The servers of the words, each once; those that are known stay as they are. `leased`: the file with those of leases.
fn named(words: &[String], leased: &Path, mut known: Vec<Server>) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    let mut add = |text: &str| {
        if !servers.iter().any(|server| server.is(text)) {
            let place = known.iter().position(|server| server.is(text));
            servers.push(place.map_or_else(|| Server::new(text), |place| known.swap_remove(place)));
        }
    };
    for word in words {
        match word.as_str() {
            // Without a lease there is no file.
            DHCP => fs::read_to_string(leased).unwrap_or_default().lines().for_each(&mut add),
            word => add(word),
        }
    }
    servers
}

/// Asks all servers, [`TOGETHER`] at the same time, and chooses one.
fn round(servers: &mut [Server], log: &mut Log) -> Option<(String, Reading)> {
    let readings: Vec<_> = servers.chunks_mut(TOGETHER).flat_map(ask_together).collect();
    let answers = readings.iter().enumerate().filter_map(|(server, reading)| {
        let reading = reading.as_ref().ok()?;
        Some(Answer { server, offset: reading.offset, delay: reading.delay })
    });
    let chosen = choose(&answers.collect::<Vec<_>>());
    let troubles = servers.iter().zip(&readings).enumerate().filter_map(|(number, (server, reading))| {
        let differs = || chosen.as_ref().is_some_and(|chosen| chosen.disagreeing.contains(&number));
        match reading {
            Err(error) => Some(format!("{server}: {error}")),
            Ok(reading) if differs() => {
                Some(format!("{server}: ignored, it differs by {}", shown(reading.offset)))
            }
            Ok(_) => None,
        }
    });
    let troubles = troubles.collect::<Vec<_>>().join("; ");
    let best = chosen.and_then(|chosen| {
        let number = chosen.best.server;
        Some((servers.get(number)?.to_string(), readings.into_iter().nth(number)?.ok()?))
    });
    log.troubles(&troubles, best.is_some());
    best
}

fn ask_together(servers: &mut [Server]) -> Vec<Result<Reading, String>> {
    thread::scope(|scope| {
        let asked: Vec<_> = servers.iter_mut().map(|server| scope.spawn(|| server.ask())).collect();
        let failed = || Err("its thread has failed".to_owned());
        asked.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
    })
}

fn correct(discipline: &mut Discipline, server: String, reading: &Reading, log: &mut Log) -> io::Result<()> {
    let measured = Measured {
        offset: reading.offset,
        error: Duration::try_from_secs_f64(reading.delay.max(0.0) / 2.0).unwrap_or_default(),
        leap: reading.leap,
    };
    let offset = shown(reading.offset);
    let verdict = discipline.judge(reading.offset);
    let done = match verdict {
        Verdict::Slew => slew(&measured, discipline.interval()),
        Verdict::Step => step(&measured),
        Verdict::Spike => Ok(()),
    };
    done.map_err(|errno| io::Error::other(format!("cannot set the clock: {}", errno.desc())))?;
    match verdict {
        Verdict::Step => log.line(&format!("the clock was set by {offset} after {server}")),
        Verdict::Slew => log.follows(&server),
        Verdict::Spike => {}
    }
    let next = discipline.interval().as_secs();
    let spike = if verdict == Verdict::Spike { ", not yet confirmed" } else { "" };
    let delay = reading.delay * 1000.0;
    log.status(&format!("{server}: offset {offset}{spike}, delay {delay:.1} ms, asked again in {next} s"));
    Ok(())
}

/// An offset as people read it.
fn shown(seconds: f64) -> String {
    if seconds.abs() < 1.0 { format!("{:+.1} ms", seconds * 1000.0) } else { format!("{seconds:+.3} s") }
}

/// The service's log and status. A line is written when something is new, not at each round.
#[derive(Default)]
struct Log {
    notifier: Notifier,
    troubles: String,
    followed: String,
}

impl Log {
    fn line(&self, line: &str) {
        let _ = writeln!(io::stdout(), "{line}");
    }

    /// Reports servers that do not serve, if the text is another than before.
    fn troubles(&mut self, troubles: &str, answered: bool) {
        if !answered {
            self.status(&match troubles {
                "" => "no lease names a server".to_owned(),
                troubles => format!("no server has answered: {troubles}"),
            });
        }
        if self.troubles != troubles {
            if !troubles.is_empty() {
                self.line(troubles);
            }
            troubles.clone_into(&mut self.troubles);
        }
    }

    fn follows(&mut self, server: &str) {
        if self.followed != server {
            self.line(&format!("the clock follows {server}"));
            server.clone_into(&mut self.followed);
        }
    }

    fn status(&self, status: &str) {
        // The next round has a status, too.
        let _ = self.notifier.send(&format!("STATUS={status}"));
    }
}

/// Writes the time down in a thread of its own, which may hang on the disk.
struct Saver {
    requests: SyncSender<()>,
    last: Option<Instant>,
}

impl Saver {
    fn start(file: File) -> io::Result<Saver> {
        let (requests, received) = sync_channel(1);
        thread::Builder::new().stack_size(64 << 10).spawn(move || {
            for () in received {
                if let Err(error) = file.write_all_at(b"\n", 0).and_then(|()| file.sync_all()) {
                    eprintln!("the time was not saved: {error}");
                }
            }
        })?;
        Ok(Saver { requests, last: None })
    }

    fn save(&mut self) {
        if self.last.is_none_or(|last| last.elapsed() >= SAVE_EVERY) {
            self.last = Some(Instant::now());
            // A full channel: the disk hangs.
            let _ = self.requests.try_send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_shown_with_their_sign() {
        assert_eq!(shown(0.0123), "+12.3 ms");
        assert_eq!(shown(-0.9), "-900.0 ms");
        assert_eq!(shown(86_400.25), "+86400.250 s");
    }

    #[test]
    fn the_time_is_saved_by_the_change_of_a_file_and_not_at_each_round() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        let file = File::options().create(true).truncate(false).write(true).open(&path).unwrap();
        let mut saver = Saver::start(file).unwrap();
        saver.save();
        let first = saver.last;
        saver.save();
        assert_eq!(saver.last, first);
        // The thread ends once it has written all.
        drop(saver);
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::fs::read(&path).unwrap() != b"\n" {
            assert!(Instant::now() < deadline);
            thread::yield_now();
        }
    }

    #[test]
    fn servers_of_leases_come_and_go_and_the_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let leased = folder.path().join("ntp-servers");
        let words = ["192.0.2.1".to_owned(), DHCP.to_owned(), "192.0.2.2".to_owned()];
        let texts = |servers: &[Server]| servers.iter().map(ToString::to_string).collect::<Vec<_>>();
        let first = named(&words, &leased, Vec::new());
        assert_eq!(texts(&first), ["192.0.2.1", "192.0.2.2"]);
        fs::write(&leased, "192.0.2.9\n192.0.2.2\n").unwrap();
        let next = named(&words, &leased, first);
        assert_eq!(texts(&next), ["192.0.2.1", "192.0.2.9", "192.0.2.2"]);
        fs::write(&leased, "").unwrap();
        assert_eq!(texts(&named(&words, &leased, next)), ["192.0.2.1", "192.0.2.2"]);
        assert!(named(&words[1..2], &leased, Vec::new()).is_empty());
    }

    #[test]
    fn servers_that_do_not_answer_are_named_with_their_reasons() {
        // Nobody listens there, so the kernel refuses at once.
        let mut servers = [Server::new("127.0.0.1:9"), Server::new("[::1]:9")];
        let mut log = Log::default();
        assert!(round(&mut servers, &mut log).is_none());
        assert!(log.troubles.starts_with("127.0.0.1:9: "), "{}", log.troubles);
        assert!(log.troubles.contains("; [::1]:9: "), "{}", log.troubles);
    }
}
