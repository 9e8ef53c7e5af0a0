//! `kelson-container`: becomes the main process of a container, or one more process of it.
//!
//! PID 1 starts it as it starts any service: in the cgroup of the service, with the pipes of its log, and as the first process
//! of a PID namespace. It makes the other namespaces and the root of the container ([`root`]), gives up what the container
//! is not to have ([`process`]), and executes the program of the image. So nothing of Kelson runs beside a container, and PID 1
//! is the parent of its main process.
//!
//! The request comes in a file of memory as descriptor 3. If a step fails, a sentence about it goes to descriptor 4, which the
//! program does not inherit: PID 1 knows that the program runs when that ends without a word.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::unwrap_used, clippy::panic)
)]

mod device_rules;
mod devices;
mod error;
pub mod mount_call;
mod mounts;
mod overlay;
mod process;
mod root;
mod terminal;
pub mod tree;
mod users;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

pub use error::ContainerError;
pub use mounts::{make, mask, protect};
pub use overlay::overlay;

use error::At as _;
use kelson_runner::native::{Further, Request};
use kelson_sys::netlink;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::sethostname;
use users::Users;

/// More than any request.
const MOST: u64 = 8 << 20;

/// Runs `kelson-container`. It returns only if the program could not be executed.
pub fn main(words: &[OsString]) -> i32 {
    // SAFETY: PID 1 gives this process these descriptors, which nothing else of it knows.
    let (request, mut report) = unsafe { (OwnedFd::from_raw_fd(3), File::from_raw_fd(4)) };
    let done = ends_with_program(&report).and_then(|()| match words.first().and_then(|word| word.to_str()) {
        Some("run") => run(request),
        Some("join") => join(request, &mut report),
        _ => Err(ContainerError::Request("what it was called with".to_owned())),
    });
    let Err(error) = done;
    // A PID 1 that has crashed meanwhile asks no more: the log of the service has it then.
    if report.write_all(error.to_string().as_bytes()).is_err() {
        eprintln!("{error}");
    }
    125
}

/// The program does not get the descriptor.
fn ends_with_program(report: &File) -> Result<(), ContainerError> {
    let set = fcntl(report, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    set.map(drop).at(|| "cannot keep a descriptor from the program".to_owned())
}

fn read(request: OwnedFd) -> Result<Vec<u8>, ContainerError> {
    let mut text = Vec::new();
    let read = File::from(request).take(MOST).read_to_end(&mut text);
    read.at(|| "cannot read the request".to_owned())?;
    Ok(text)
}

/// The main process.
fn run(request: OwnedFd) -> Result<Infallible, ContainerError> {
    let text = read(request)?;
    let request: Request =
        serde_json::from_slice(&text).map_err(|error| ContainerError::Request(error.to_string()))?;
    let linux = &request.config.linux;
    let mut flags = CloneFlags::empty();
    let mut network = None;
    for namespace in &linux.namespaces {
        flags |= match &*namespace.kind {
            // PID 1 made it.
            "pid" => CloneFlags::empty(),
            "ipc" => CloneFlags::CLONE_NEWIPC,
            "uts" => CloneFlags::CLONE_NEWUTS,
            "mount" => CloneFlags::CLONE_NEWNS,
            "cgroup" => CloneFlags::CLONE_NEWCGROUP,
            "network" => match &namespace.path {
                Some(path) => {
                    network = Some(path);
                    CloneFlags::empty()
                }
                None => CloneFlags::CLONE_NEWNET,
            },
            other => return Err(ContainerError::Word(other.to_owned())),
        };
    }
    // While it is where the host sees it.
    let cgroup = device_rules::open(&linux.cgroups_path)?;
    if let Some(path) = network {
        let file = File::open(path).at(|| format!("cannot open the network {path}"))?;
        setns(file, CloneFlags::CLONE_NEWNET).at(|| format!("cannot enter the network {path}"))?;
    }
    let users = match request.ids {
        // Mounts alone are not its root's to change.
        Some(ids) => Some(Users::make(ids, flags.difference(CloneFlags::CLONE_NEWNS))?),
        None => None,
    };
    let rest = if users.is_some() { flags.intersection(CloneFlags::CLONE_NEWNS) } else { flags };
    unshare(rest).at(|| "cannot make namespaces".to_owned())?;
    root::enter(&request, users.as_ref())?;
    // The disks of its volumes are opened by now.
    device_rules::guard(&cgroup, &linux.resources.devices)?;
    sethostname(&request.config.hostname).at(|| "cannot set the host name".to_owned())?;
    if flags.contains(CloneFlags::CLONE_NEWNET)
        && let Some(index) = netlink::index_of("lo")
    {
        netlink::set_up(index).at(|| "cannot switch on lo".to_owned())?;
    }
    let enter = || users.map_or(Ok(()), Users::enter);
    process::become_program(&request.config.process, request.is_filtered, enter)
}

/// One more process, in the namespaces of the one whose pidfd is descriptor 5.
fn join(request: OwnedFd, report: &mut File) -> Result<Infallible, ContainerError> {
    let text = read(request)?;
    let further: Further =
        serde_json::from_slice(&text).map_err(|error| ContainerError::Request(error.to_string()))?;
    // SAFETY: as in `main`.
    let main = unsafe { OwnedFd::from_raw_fd(5) };
    // This process is in its PID namespace already.
    let all = CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWNS;
    setns(&main, all).at(|| "cannot enter the container".to_owned())?;
    if further.process.terminal {
        terminal::take(&further.process, further.ids)?;
        // Nobody reads the pipe any more.
        *report =
            io::stderr().as_fd().try_clone_to_owned().at(|| "cannot keep a terminal".to_owned())?.into();
    }
    let enter = || match further.ids {
        Some(_) => users::join(main),
        None => Ok(()),
    };
    process::become_program(&further.process, further.is_filtered, enter)
}
