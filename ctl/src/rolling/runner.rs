//! Carries out a plan.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::plan::{Next, Place, Plan, Standing, State};
use crate::failure::Failure;
use crate::output::time::relative;

/// Hosts at the same time, however large the wave is.
const AT_ONCE: usize = 100;
/// Between two looks at the health of a host.
const LOOK: Duration = Duration::from_secs(1);
/// The claim is renewed after so long.
pub const RENEWAL: Duration = Duration::from_secs(10);

/// How a host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It is healthy, for so long without a break.
    Healthy(Duration),
    /// It is not, for this reason.
    Not(String),
    /// It is not, and does not become it by itself.
    Failed(String),
}

/// The hosts, and what is done on each. Failures are sentences.
pub trait Hosts {
    /// What tells later whether the action was done.
    async fn mark(&self, host: &str) -> Result<String, String>;
    /// Does it. `resumed`: an earlier coordinator may have done it since the mark was taken; then it is not done again.
    async fn act(&self, host: &str, mark: &str, resumed: bool) -> Result<(), String>;
    /// How the host is now.
    async fn health(&self, host: &str, mark: &str) -> Result<Health, String>;
    /// The host has been healthy for long enough.
    async fn keep(&self, host: &str) -> Result<(), String>;
    /// The host has failed. What has become of it, where there is something to be said.
    async fn leave(&self, host: &str, mark: &str) -> Option<String>;
}

/// Where the plan is kept.
pub trait Record {
    /// Keeps the head, or the part with this host.
    ///
    /// # Errors
    /// Another coordinator has the plan, or the store does not answer.
    async fn put(&mut self, plan: &mut Plan, host: Option<usize>) -> Result<(), Failure>;
}

/// What is seen of it.
pub trait Watcher {
    fn wave(&self, plan: &Plan, number: usize, hosts: &[usize]);
    fn host(&self, plan: &Plan, index: usize);
}

/// What a host reports of itself; the answer comes once it is kept.
struct Report {
    index: usize,
    standing: Standing,
    kept: oneshot::Sender<()>,
}

/// Carries the plan out from where it is, until its end or until a wave has failed.
///
/// # Errors
/// The plan cannot be kept. What has begun on hosts goes on there.
pub async fn run<H: Hosts + 'static>(
    plan: &mut Plan,
    hosts: Rc<H>,
    record: &mut impl Record,
    watcher: &impl Watcher,
) -> Result<(), Failure> {
    loop {
        match plan.next() {
            Next::Wave(number, open) => {
                watcher.wave(plan, number, &open);
                let local = LocalSet::new();
                local.run_until(wave(plan, &hosts, record, watcher, open)).await?;
            }
            Next::Stop(_) => {
                plan.head.state = State::Stopped;
                break;
            }
            Next::Done => {
                plan.head.state = State::Done;
                break;
            }
        }
    }
    record.put(plan, None).await
}

/// Brings these hosts to their end.
async fn wave<H: Hosts + 'static>(
    plan: &mut Plan,
    hosts: &Rc<H>,
    record: &mut impl Record,
    watcher: &impl Watcher,
    open: Vec<usize>,
) -> Result<(), Failure> {
    let (sender, mut reports) = mpsc::unbounded_channel();
    let (permits, mut tasks) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for index in open {
        let Some(Place { host, standing }) = plan.places.get(index).cloned() else { continue };
        let mark = if let Standing::Running(mark) = standing { Some(mark) } else { None };
        let one = One {
            index,
            host,
            hosts: Rc::clone(hosts),
            reports: sender.clone(),
            healthy_for: plan.head.healthy_for(),
            deadline: plan.head.deadline(),
        };
        let permits = Arc::clone(&permits);
        tasks.spawn_local(async move {
            // Only a closed one gives none.
            let _permit = permits.acquire_owned().await;
            one.run(mark).await;
        });
    }
    drop(sender);
    let mut renewal = interval_at(Instant::now() + RENEWAL, RENEWAL);
    renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            report = reports.recv() => {
                let Some(Report { index, standing, kept }) = report else { return Ok(()) };
                let begins = matches!(standing, Standing::Running(_));
                // Too many have failed: nothing else begins. Its task ends without an answer.
                if begins && !plan.may_begin(index) {
                    continue;
                }
                plan.set(index, standing);
                record.put(plan, Some(index)).await?;
                watcher.host(plan, index);
                // The task may have ended.
                let _ = kept.send(());
            }
            _ = renewal.tick() => record.put(plan, None).await?,
        }
    }
}

/// One host of a wave.
struct One<H> {
    index: usize,
    host: String,
    hosts: Rc<H>,
    reports: mpsc::UnboundedSender<Report>,
    healthy_for: Duration,
    deadline: Duration,
}

impl<H: Hosts> One<H> {
    /// Brings the host to its end. `mark`: where the action has begun already.
    async fn run(self, mark: Option<String>) {
        let resumed = mark.is_some();
        let mark = match mark {
            Some(mark) => mark,
            None => match self.hosts.mark(&self.host).await {
                Ok(mark) => {
                    // Nothing is done that the next coordinator would not know of.
                    if !self.tell(Standing::Running(mark.clone())).await {
                        return;
                    }
                    mark
                }
                Err(why) => {
                    self.tell(Standing::Failed(why)).await;
                    return;
                }
            },
        };
        let last = RefCell::new("the action did not come to its end".to_owned());
        let ended = match timeout(self.deadline, self.bring(&mark, resumed, &last)).await {
            Ok(ended) => ended,
            Err(_) => Err(format!(
                "not healthy for {} within {}: {}",
                relative(self.healthy_for),
                relative(self.deadline),
                last.take()
            )),
        };
        let standing = match ended {
            Ok(()) => Standing::Done,
            Err(why) => match self.hosts.leave(&self.host, &mark).await {
                Some(left) => Standing::Failed(format!("{why}; {left}")),
                None => Standing::Failed(why),
            },
        };
        self.tell(standing).await;
    }

    /// False: it is not to go on.
    async fn tell(&self, standing: Standing) -> bool {
        let (kept, answer) = oneshot::channel();
        let reports = self.reports.send(Report { index: self.index, standing, kept });
        reports.is_ok() && answer.await.is_ok()
    }

    /// Acts, and waits until the host has been healthy for long enough since. `last`: why it is not yet.
    async fn bring(&self, mark: &str, resumed: bool, last: &RefCell<String>) -> Result<(), String> {
        self.hosts.act(&self.host, mark, resumed).await?;
        let acted = Instant::now();
        loop {
            match self.hosts.health(&self.host, mark).await {
                Ok(Health::Healthy(lasts)) => {
                    // What it was before the action does not count.
                    let lasts = lasts.min(acted.elapsed());
                    let Some(left) = self.healthy_for.checked_sub(lasts).filter(|left| !left.is_zero())
                    else {
                        return self.hosts.keep(&self.host).await;
                    };
                    last.replace(format!("it is healthy, for {}", relative(lasts)));
                    sleep(left.min(LOOK)).await;
                }
                Ok(Health::Failed(why)) => return Err(why),
                // A host that restarts its network is back soon, or the time is over.
                Ok(Health::Not(why)) | Err(why) => {
                    last.replace(why);
                    sleep(LOOK).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
