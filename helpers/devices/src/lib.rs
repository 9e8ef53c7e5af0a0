//! `kelson-devices`: follows the devices of the machine. It loads their drivers, names disks by their labels, gives nodes the
//! owners and permissions that the machine file says, and has PID 1 power off when the power button is pressed.
//!
//! `kelson-devices [RULE…]`. What it does depends on what is there now: after a lost message it looks at all of sysfs again.
//! All that may hang, a disk or a driver, is a [job](jobs) in a thread of its own.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::arithmetic_side_effects, clippy::indexing_slicing))]

mod coldplug;
mod device;
mod disk_names;
mod disk_search;
mod drivers;
pub mod firmware;
mod gpt;
mod jobs;
mod links;
pub mod modules;
mod parameters;
mod partition_names;
pub mod partition_table;
mod power_button;
mod registry;
mod rules;
mod superblock;
pub mod uevent;

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use kelson_helper::log::line;
use kelson_helper::notify::{EVENT, Notifier};
use kelson_helper::signals::termination;
use kelson_spec::devices::DeviceRule;
use kelson_sys::kernel_log;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use device::SYS;
use firmware::FirmwareLog;
use registry::Registry;
use uevent::{Action, Listener, News};

pub use coldplug::load_drivers;
pub use disk_names::serial_in_page;
pub use disk_search::{NoDisk, find_disk};
pub use partition_names::{PartitionNames, partition_names};
pub use superblock::{ReadAt, Superblock, identify};

/// `argv[0]`.
pub const NAME: &str = "kelson-devices";
/// How long a disk or a driver may keep the service from being ready.
const READY: Duration = Duration::from_secs(10);
/// By this signal PID 1 is asked for a power off.
const POWER_OFF: Signal = Signal::SIGPWR;

/// Follows devices until SIGTERM. Returns the exit status.
pub fn main(words: &[OsString]) -> i32 {
    let rules: Option<Vec<DeviceRule>> =
        words.iter().map(|word| DeviceRule::from_word(word.to_str()?)).collect();
    let Some(rules) = rules else {
        eprintln!("{NAME} [RULE…]: PID 1 starts it");
        return 2;
    };
    match run(rules) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn run(rules: Vec<DeviceRule>) -> io::Result<()> {
    let signals = termination()?;
    // Before the first look, so that no device comes between the look and the wait.
    let mut listener = Listener::open()?;
    let mut registry = Registry::new(Path::new(SYS), Path::new("/dev"), rules)?;
    registry.scan();
    let mut firmware = FirmwareLog::of(kernel_log::reader());
    let mut readiness = Readiness::new(Notifier::connect()?);
    loop {
        let mut quiet = false;
        while !quiet {
            match listener.receive()? {
                News::Uevent(uevent) => {
                    if let Some(before) = &uevent.moved_from {
                        registry.remove(before);
                    }
                    match uevent.action {
                        Action::Present => registry.put(uevent.device),
                        Action::Removed => registry.remove(&uevent.device.path),
                    }
                }
                News::Lost => {
                    line("a message of the kernel was lost: all devices are looked at again");
                    registry.scan();
                }
                News::Nothing => quiet = true,
            }
        }
        registry.take_outcomes();
        if let Some(button) = registry.buttons.pressed() {
            kill(Pid::from_raw(1), POWER_OFF)?;
            line(format_args!("the power button was pressed ({button}): PID 1 was asked for a power off"));
        }
        for missing in firmware.iter_mut().flat_map(FirmwareLog::new_ones) {
            line(&missing);
            let _ = readiness.notifier.send(&format!("{EVENT}={missing}"));
        }
        let timeout = readiness.look(&mut registry)?;
        let mut watched = vec![signals.as_fd(), listener.as_fd()];
        watched.extend(registry.descriptors());
        watched.extend(firmware.as_ref().map(AsFd::as_fd));
        let mut watched: Vec<_> = watched.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut watched, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if signals.read_signal()?.is_some() {
            return Ok(());
        }
    }
}

/// Reports once that all devices have their names, or that one of them takes too long.
struct Readiness {
    notifier: Notifier,
    /// `None`: it was reported.
    late: Option<Instant>,
}

impl Readiness {
    fn new(notifier: Notifier) -> Readiness {
        Readiness { notifier, late: Instant::now().checked_add(READY) }
    }

    /// Returns how long the next look may be away.
    fn look(&mut self, registry: &mut Registry) -> io::Result<PollTimeout> {
        let Some(late) = self.late else { return Ok(PollTimeout::NONE) };
        let left = late.saturating_duration_since(Instant::now());
        if !registry.is_settled() && !left.is_zero() {
            return Ok(PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        }
        if !registry.is_settled() {
            line("a disk or a driver does not answer; its device may lack names");
        }
        registry.sweep();
        self.notifier.send("READY=1")?;
        self.late = None;
        Ok(PollTimeout::NONE)
    }
}
