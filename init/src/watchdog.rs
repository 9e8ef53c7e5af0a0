//! The hardware watchdog: a device that starts the machine again when nobody has fed it for a while.
//!
//! It is opened, and so armed, as soon as the drivers of the machine file are loaded, and from then on it is fed by a
//! task of PID 1's main loop alone ([`feeding`]): food proves that the loop turns. It stays open, and armed, over a
//! re-execution, for whatever reason: the next incarnation feeds it before anything else. In a shutdown each step says
//! how long it may take ([`Watchdog::due`]), so that one that hangs ends in a reset and one that is slow does not. It
//! is let go in one case alone: a machine that was asked to halt is to stay so.

mod feeding;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kelson_services::service_runner::words;
use kelson_services::state_store::{Descriptor, StateStore};
use kelson_spec::machine::WatchdogSpec;
use kelson_sys::watchdog::Device;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::boot::Task;
use crate::error::{Error, Result};
use feeding::{Due, Feed};

/// How often it is fed within its timeout: one feeding may come late.
const MEALS: u32 = 3;
/// Of a device that does not tell its timeout. Few have a shorter one.
const UNKNOWN: Duration = Duration::from_secs(15);
/// How much longer a step of a shutdown may take than its own wait: the machine may be busy.
const SLACK: Duration = Duration::from_secs(10);

/// A watchdog that is armed, and fed. Cheap to clone; it goes on being fed when none is left.
#[derive(Clone)]
pub struct Watchdog {
    device: Arc<Device>,
    /// `None`: the device does not tell.
    timeout: Option<Duration>,
    due: watch::Sender<Option<Due>>,
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").field("device", &self.device).finish_non_exhaustive()
    }
}

/// `30 s, "Software Watchdog"`
impl fmt::Display for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.timeout {
            Some(timeout) => f.write_str(&words::duration(timeout))?,
            None => f.write_str("a timeout that it does not tell")?,
        }
        write!(f, ", \"{}\"", self.device.identity())
    }
}

impl Watchdog {
    /// Opens the device and has it fed. `None`: there is none, and nobody expects one. Needs a runtime.
    ///
    /// # Errors
    /// A sentence: there is none though the file asks for it, somebody else has it open, or it is none.
    pub fn arm(spec: &WatchdogSpec, store: Option<&StateStore>) -> Result<Option<Watchdog>> {
        let told = |why: &str| Error::Told(format!("{}: {why}", spec.device.display()));
        let device = match Device::open(&spec.device) {
            Ok(device) => device,
            Err(error) if is_missing(&error) && !spec.expected => return Ok(None),
            Err(error) if is_missing(&error) => {
                return Err(told("there is no such device (name its driver in modules)"));
            }
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                // A life before this one, of which nothing is left that could be trusted.
                let own = Device::found();
                own.ok_or_else(|| told("somebody else has it open, and has to feed it"))?
            }
            Err(error) => return Err(told(&error.to_string())),
        };
        if let Err(errno) = device.set_timeout(spec.timeout) {
            tracing::warn!("{}: its timeout stays as it is: {}", spec.device.display(), errno.desc());
        }
        if let Some(store) = store {
            store.keep(device.as_fd(), Descriptor::Watchdog);
        }
        Ok(Some(Watchdog::start(device)))
    }

    /// Feeds the one that the previous incarnation has left. Needs a runtime.
    pub fn again(descriptor: OwnedFd) -> Watchdog {
        Watchdog::start(Device::inherited(descriptor))
    }

    /// Feeds the one that this process has open, where it has one: for a life that goes on with nothing else. Needs a
    /// runtime.
    pub fn found() -> Option<Watchdog> {
        Device::found().map(Watchdog::start)
    }

    fn start(device: Device) -> Watchdog {
        // At once: the previous incarnation may have fed it long ago. The task tells of what goes wrong with it.
        let _ = device.feed();
        let device = Arc::new(device);
        let timeout = device.timeout();
        let due = watch::Sender::new(None);
        let every = timeout.unwrap_or(UNKNOWN).checked_div(MEALS).unwrap_or(UNKNOWN);
        let fed: Arc<dyn Feed> = device.clone();
        kelson_sys::spawn(feeding::feed(fed, every, due.subscribe()));
        Watchdog { device, timeout, due }
    }

    /// A step of the shutdown begins, which is to be over within `bound`: for that long it is fed, and no longer.
    pub fn due(&self, step: impl Into<Cow<'static, str>>, bound: Duration) {
        let bound = bound.saturating_add(SLACK);
        let at = Instant::now().checked_add(bound).unwrap_or_else(Instant::now);
        self.due.send_replace(Some(Due { step: step.into(), at }));
    }

    /// From here on it is fed for as long as the main loop turns.
    pub fn no_step(&self) {
        self.due.send_replace(None);
    }

    /// The step under way, and by when it is to be over.
    #[cfg(test)]
    pub fn under_way(&self) -> Option<(String, Instant)> {
        self.due.borrow().clone().map(|due| (due.step.into_owned(), due.at))
    }

    /// Feeds it once more: the main loop is about to stand still.
    pub fn last_meal(&self) {
        let _ = self.device.feed();
    }

    /// Lets it go.
    pub fn disarm(&self) {
        self.device.disarm();
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        // The node without a driver behind it.
        || matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
}

/// Where the boot puts the watchdog that it has armed. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Place(Arc<OnceLock<Watchdog>>);

impl Place {
    /// Holds the one that the previous incarnation has left.
    pub fn of(watchdog: Option<Watchdog>) -> Place {
        let place = Place::default();
        if let Some(watchdog) = watchdog {
            let _ = place.0.set(watchdog);
        }
        place
    }

    pub fn get(&self) -> Option<&Watchdog> {
        self.0.get()
    }

    /// The task of the boot that arms it, as the machine file says.
    pub fn task(&self, spec: Option<WatchdogSpec>, store: Option<StateStore>) -> Task {
        let place = self.clone();
        Task::call("hardware watchdog", move || {
            let Some(spec) = spec else { return Ok("switched off".to_owned()) };
            let Some(watchdog) = Watchdog::arm(&spec, store.as_ref())? else {
                return Ok("there is none".to_owned());
            };
            let text = watchdog.to_string();
            let _ = place.0.set(watchdog);
            Ok(text)
        })
    }

    /// The event for it, once events can be added.
    pub fn events(&self) -> Vec<String> {
        let Some(watchdog) = self.get() else { return Vec::new() };
        let armed = format!("the hardware watchdog is armed: {watchdog}");
        let before = "the hardware watchdog ended the run of this machine before this one".to_owned();
        std::iter::once(armed).chain(watchdog.device.has_reset().then_some(before)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn none_is_a_fault_only_where_the_file_asks_for_it() {
        let spec = |device: &str, expected| WatchdogSpec {
            device: device.into(),
            expected,
            ..WatchdogSpec::default()
        };
        let none = "/dev/no-such-watchdog";
        assert!(Watchdog::arm(&spec(none, false), None).unwrap().is_none());
        assert_eq!(
            Watchdog::arm(&spec(none, true), None).unwrap_err().to_string(),
            "/dev/no-such-watchdog: there is no such device (name its driver in modules)"
        );
        assert_eq!(
            Watchdog::arm(&spec("/dev/null", false), None).unwrap_err().to_string(),
            "/dev/null: this is no watchdog"
        );
    }
}
