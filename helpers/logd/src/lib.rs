//! The process `kelson-logd`: collects, rotates and serves the logs of all services.
//!
//! Three threads share one bounded [`store`]: the [`reader`] (the main thread) reads pipes and talks to PID 1 and never
//! waits for anything else; the [`writer`] owns the files and may hang on a dead disk; the [`api`] answers clients, and
//! is started at the first. Killed at any time it loses what was in its memory, no more; the next one says so.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::indexing_slicing))]

mod admission;
mod api;
mod client;
mod console;
mod files;
mod flow;
mod history;
mod line;
mod outlet;
mod reader;
mod ring;
mod run;
mod store;
mod stream;
mod troubles;
mod writer;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use kelson_helper::exit;
use kelson_helper::signals::termination;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use admission::Admission;
use reader::Reader;
use store::Store;
use troubles::Troubles;
use writer::Writer;

/// Stack of a thread: none goes deep.
pub(crate) const STACK: usize = 256 * 1024;
/// Before the others: a host where everything wants to run must still read what it says.
const NICE: i32 = -10;
/// Left of the time that PID 1 gave, for ending itself.
const SPARE: Duration = Duration::from_millis(50);

const USAGE: &str = "kelson-logd collects the logs of services for init, which starts it.
usage: kelson-logd --runtime-dir DIR [--log-dir DIR] [--group GID]";

struct Options {
    runtime: PathBuf,
    logs: PathBuf,
    /// That of the socket.
    group: Option<u32>,
}

/// Runs it until PID 1 asks it to end or is gone; gives the exit status. Descriptor 3 is the socket to PID 1.
pub fn main(args: impl Iterator<Item = OsString>) -> i32 {
    match parse(args) {
        Some(options) => exit::status("kelson-logd", run(&options)),
        None => {
            exit::say(USAGE);
            2
        }
    }
}

/// `args` without the name of the program.
fn parse(mut args: impl Iterator<Item = OsString>) -> Option<Options> {
    let (mut runtime, mut logs, mut group) = (None, None, None);
    while let Some(word) = args.next() {
        let value = args.next()?;
        match word.to_str()? {
            "--runtime-dir" => runtime = Some(PathBuf::from(value)),
            "--log-dir" => logs = Some(PathBuf::from(value)),
            "--group" => group = Some(value.to_str()?.parse().ok()?),
            _ => return None,
        }
    }
    let runtime = runtime?;
    let logs = logs.unwrap_or_else(|| runtime.join("log"));
    Some(Options { runtime, logs, group })
}

/// Starts one of the other threads, which holds `at_work` as long as it is at work.
fn spawn(name: &str, at_work: mpsc::Sender<()>, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let work = move || {
        work();
        drop(at_work);
    };
    std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(work).map(drop)
}

fn run(options: &Options) -> io::Result<()> {
    let control = kelson_helper::transport::control().inspect_err(|_| exit::say(USAGE))?;
    be_known();
    let store = Arc::new(Store::new(options.logs.clone()));
    let troubles = Arc::new(Troubles::new()?);
    // Without the signals it still ends with PID 1's socket.
    let signals = termination().ok();
    let (at_work, ended) = mpsc::channel();
    let woken = troubles.clone();
    let admission = Arc::new(Admission::new(move || woken.wake()));
    let mut reader =
        Reader::new(control, signals, store.clone(), troubles.clone(), admission.clone(), run::boot())?;
    let socket = options.runtime.join("log.sock");
    match listen(&socket, options.group) {
        Ok(listener) => serve(listener, admission, &store, &troubles, at_work.clone(), &mut reader)?,
        // Lines are collected all the same.
        Err(error) => troubles.tell(format!("{}: {error}; logs cannot be read over it", socket.display())),
    }
    if let Err(errno) = kelson_sys::capability::drop_all() {
        troubles.tell(format!("kelson-logd keeps its capabilities: {}", errno.desc()));
    }
    let writer = Writer::new(store.clone(), options.logs.clone(), options.runtime.join("log"), troubles);
    spawn("write", at_work, move || writer.run())?;
    let end = reader.run();
    let until = Instant::now().checked_add(end.within.saturating_sub(SPARE)).unwrap_or_else(Instant::now);
    // One that hangs on a dead disk is left behind.
    let _ = ended.recv_timeout(until.saturating_duration_since(Instant::now()));
    end.outlets.settle(until);
    end.report_lost(&store);
    Ok(())
}

fn serve(
    listener: OwnedFd,
    admission: Arc<Admission>,
    store: &Arc<Store>,
    troubles: &Arc<Troubles>,
    at_work: mpsc::Sender<()>,
    reader: &mut Reader,
) -> io::Result<()> {
    let (store, troubles) = (store.clone(), troubles.clone());
    let watched = listener.try_clone()?;
    let start = move || {
        let told = troubles.clone();
        let work = move || {
            if let Err(error) = api::serve(listener, store, admission, troubles.clone()) {
                troubles.tell(format!("logs cannot be read: {error}"));
            }
        };
        if let Err(error) = spawn("api", at_work, work) {
            told.tell(format!("logs cannot be read: {error}"));
        }
    };
    reader.on_client(&watched, Box::new(start))
}

/// Its name, its priority, its limit of descriptors: each only as far as it may.
fn be_known() {
    let _ = nix::sys::prctl::set_name(c"kelson-logd");
    // SAFETY: setpriority takes three numbers and touches no memory.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    let _ = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
}

/// Replaces the socket of an earlier logd: clients that still hold that one get no answer any more.
fn listen(path: &Path, group: Option<u32>) -> io::Result<OwnedFd> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    if group.is_some() {
        // If it may not, root can still connect.
        let _ = std::os::unix::fs::chown(path, None, group);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    listener.set_nonblocking(true)?;
    Ok(listener.into())
}
