//! A panic ends the process; before that, PID 1 learns which check has failed with it.
//!
//! The next process asks all checks again. Without this message, a check that makes each of them panic would never fail.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::SystemTime;

use kelson_helper::transport::{self, FROM_HELPER};
use kelson_proto::v1::probe_report::Report;
use kelson_proto::v1::{ProbeReport, ProbeResult, ProbeResults};

const TEXT: &str = "kelson-probe met a fault in itself";

tokio::task_local! {
    /// The check that a task asks.
    static ASKED: u64;
}

/// From now on a panic in any thread ends the process, and fails the check that the thread asks.
pub fn install(pid_1: OwnedFd) {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panicked| {
        fail(pid_1.as_fd());
        report(panicked);
        std::process::abort();
    }));
}

/// A task that asks this check.
pub fn of_check<T>(id: u64, task: impl Future<Output = T>) -> impl Future<Output = T> {
    ASKED.scope(id, task)
}

/// Work of this task for another thread.
pub fn of_this_check<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let id = ASKED.try_get();
    move || match id {
        Ok(id) => ASKED.sync_scope(id, work),
        Err(_) => work(),
    }
}

fn fail(pid_1: BorrowedFd<'_>) {
    let Ok(id) = ASKED.try_get() else { return };
    let at = since_1970(SystemTime::now());
    let result = ProbeResult { id, at, text: Some(TEXT.to_owned()), ..ProbeResult::default() };
    let report = ProbeReport { report: Some(Report::Results(ProbeResults { results: vec![result] })) };
    // PID 1 may be gone.
    let _ = transport::send(pid_1, &report, FROM_HELPER, &[]);
}

/// In microseconds.
pub fn since_1970(at: SystemTime) -> u64 {
    let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(at.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use kelson_helper::transport::Receiver;

    use super::*;

    #[tokio::test]
    async fn a_panic_fails_the_check_that_is_asked() {
        let (ours, theirs) = transport::pair().unwrap();
        // Outside of any check there is nothing to fail.
        fail(theirs.as_fd());
        of_check(6, async { fail(theirs.as_fd()) }).await;
        let search = of_check(7, async { of_this_check(|| fail(theirs.as_fd())) }).await;
        search();
        drop(theirs);
        let mut receiver = Receiver::new(FROM_HELPER);
        for id in [6, 7] {
            let packet = receiver.receive::<ProbeReport>(ours.as_fd()).unwrap().unwrap();
            let Some(Report::Results(batch)) = packet.message.report else { panic!("no result") };
            let [result] = batch.results.as_slice() else { panic!("{batch:?}") };
            assert_eq!((result.id, result.passes, result.silent), (id, false, false));
            assert_eq!(result.text.as_deref(), Some(TEXT));
        }
        assert!(receiver.receive::<ProbeReport>(ours.as_fd()).unwrap().is_none());
    }
}
