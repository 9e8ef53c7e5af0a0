//! PID 1 survives its own crash.
//!
//! If PID 1 ends, the kernel panics and everything on the host dies. So every fault of it (a panic in any thread,
//! SIGSEGV and its kind, a main loop that stands still) ends in `execve` of itself: the PID stays, the children stay,
//! and the next life goes on from what is written down, as after `kelsonctl reexec` ([`crate::reexec`],
//! `docs/recovery.md`).
//!
//! - [`handler`] is where a fault arrives. All its steps are safe in a signal handler: it writes down the
//!   crash ([`page`], [`trace`]) and executes the program with arguments that were prepared in time
//!   ([`plan`]).
//! - [`watcher`] notices a main loop that does not turn.
//! - [`report`] tells of it in the next incarnation.
//! - [`last_resort`] ends the run when PID 1 crashes again and again.

mod handler;
pub mod last_resort;
mod page;
mod plan;
pub mod report;
mod stack;
mod trace;
pub mod watcher;

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::options::{CrashLimit, Mode};
use crate::supervisor::Intent;
use page::Page;
pub use page::{Crash, Ending, VARIABLE};
pub use stack::alternate_stack;

/// The reason why an incarnation begins.
#[derive(Debug, Clone, Default)]
pub struct BootReason {
    /// Goes from one incarnation to the next. `None`: there is no memory for it, and a crash is the end.
    page: Option<Arc<Page>>,
    /// The crash that has ended the previous incarnation.
    pub crash: Option<Crash>,
    /// How many crashes there have been within the time of the limit, this one included.
    pub crashes: u32,
    /// The previous incarnation was past its services, and on its way to this.
    pub ending: Option<Ending>,
}

/// Makes PID 1 survive what comes. To be called once `/proc` is there, before there is a second thread.
pub fn install(mode: Mode, limit: CrashLimit) -> BootReason {
    let page = match Page::find_or_make() {
        Ok(page) => Arc::new(page),
        Err(error) => {
            tracing::error!("a crash of PID 1 would be the end of this host: {error}");
            return BootReason::default();
        }
    };
    let crash = page.newest();
    let now = page::now();
    let crashes = if crash.is_some() { page.crashes_since(now.saturating_sub(limit.window)) } else { 0 };
    let ending = page.ending();
    if let Err(error) = plan::make(mode, Arc::clone(&page)).and_then(|()| handler::install()) {
        tracing::error!("a crash of PID 1 would be the end of this host: {error}");
    }
    BootReason { page: Some(page), crash, crashes, ending }
}

impl BootReason {
    /// Whether PID 1 has crashed too often to go on as if nothing were.
    pub fn too_often(&self, limit: CrashLimit) -> bool {
        self.crash.is_some() && self.crashes >= limit.count
    }

    /// The crash is reported: the next incarnation need not report it again.
    pub fn reported(&self) {
        if let Some(page) = &self.page {
            page.reported();
        }
    }

    /// From now on the services are past: a next incarnation goes on with the end.
    pub fn ends(&self, ending: Ending) {
        if let Some(page) = &self.page {
            page.end(ending);
        }
    }

    /// As [`BootReason::ends`], to what is asked for now and later.
    pub fn follow(&self, mut asked: watch::Receiver<Option<Intent>>) {
        let boot_reason = self.clone();
        self.ends(Ending::of(asked.borrow().as_ref()));
        kelson_sys::spawn(async move {
            while asked.changed().await.is_ok() {
                boot_reason.ends(Ending::of(asked.borrow_and_update().as_ref()));
            }
        });
    }

    /// From now on a fault leads to the reboot at once, and so does whatever lasts longer than this.
    pub fn last(&self, patience: Duration) {
        if let Some(page) = &self.page {
            page.make_last();
        }
        handler::end_after(patience);
    }
}

/// The environment for the program that is executed next: crashes are counted over all incarnations.
pub fn with_page(environment: Vec<CString>) -> Vec<CString> {
    let Some(page) = plan::page() else { return environment };
    page.keep_open();
    page.name_in(environment)
}
