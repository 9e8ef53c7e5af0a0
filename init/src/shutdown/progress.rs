//! The progress of the shutdown for the hardware watchdog: the present step, and its deadline.
//!
//! A step that waits for disks is made of many calls, and how many is not known beforehand. Each of them has a deadline
//! of its own, so the next one that begins is the proof that the last one is over: [`Progress`] stands between the
//! shutdown and what starts `kelson-task`, and tells of each.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::{BoxFuture, Launched, Launcher, Start, task};

use crate::watchdog::Watchdog;

/// Where the shutdown is, for the watchdog of a machine that has one.
pub struct Progress {
    pub launcher: Arc<dyn Launcher>,
    pub watchdog: Option<Watchdog>,
    /// The longest deadline of a call.
    pub longest: Duration,
}

impl Progress {
    /// A step begins that is over within `bound`.
    pub fn step(&self, name: &'static str, bound: Duration) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.due(name, bound);
        }
    }
}

impl Launcher for Progress {
    fn launch(&self, start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        if let Some(watchdog) = &self.watchdog {
            let words = start.arguments.iter().map(|word| format!(" {}", word.display()));
            watchdog.due(format!("{}{}", task::NAME, words.collect::<String>()), self.longest);
        }
        self.launcher.launch(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::Scripted;
    use crate::task::{self, Request};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn each_call_is_told_with_its_bound() {
        let device = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let watchdog = Watchdog::again(device.into());
        let second = Duration::from_secs(1);
        let progress = Progress {
            launcher: Arc::new(Scripted::new(|_| Some("done\n"))),
            watchdog: Some(watchdog.clone()),
            longest: second * 30,
        };
        progress.step("a step", second * 5);
        let told = |name: &str, bound| Some((name.to_owned(), Instant::now() + bound));
        assert_eq!(watchdog.under_way(), told("a step", second * 15));
        tokio::time::sleep(second).await;
        task::run(&progress, &Request::Unmount { target: "/a".into() }, second).await.unwrap();
        assert_eq!(watchdog.under_way(), told("kelson-task umount /a", second * 40));
        watchdog.no_step();
        assert_eq!(watchdog.under_way(), None);
    }
}
