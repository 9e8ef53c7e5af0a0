//! What a run says of itself: readiness, status, watchdog, more time.

use std::sync::Arc;
use std::time::Duration;

use kelson_spec::service::Workload;
use tokio::time::Instant;

use super::{Core, Killing, Next, timer_index};
use crate::model::RestartReason;
use crate::service_runner::notify::Message;
use crate::service_runner::readiness::{Heard, Voice};
use crate::service_runner::table::{Input, Phase, Timer, Work};

impl Core {
    /// What was heard is let go once it is written down: another incarnation of PID 1 hears it again otherwise.
    pub(super) fn hear(&mut self, heard: Heard) -> Next {
        let run = self.service.run;
        let said = match heard {
            Heard::Newline => Input::Ready { run },
            Heard::Closed => {
                Input::NeverReady { run, text: "closed its readiness descriptor without a newline".into() }
            }
            Heard::Messages(messages) => {
                let mut last = Next::Same;
                for message in messages {
                    if let next @ (Next::Work(..) | Next::Leave) = self.message(message) {
                        last = next;
                    }
                }
                self.voice.take();
                return last;
            }
        };
        let next = self.step(said);
        self.voice = Voice::Silent;
        next
    }

    fn message(&mut self, message: Message) -> Next {
        let run = self.service.run;
        match message {
            Message::Ready => self.step(Input::Ready { run }),
            Message::Reloading => self.step(Input::Unready { run, text: "says that it is reloading".into() }),
            Message::Stopping => self.step(Input::Unready { run, text: "says that it is stopping".into() }),
            Message::Status(text) => {
                let text: Option<Arc<str>> = (!text.is_empty()).then(|| Arc::from(text));
                if text != self.status_text {
                    self.status_text = text;
                    self.publish();
                }
                Next::Same
            }
            Message::Watchdog => {
                self.arm_watchdog();
                Next::Same
            }
            Message::WatchdogInterval(interval) => {
                self.watchdog = (!interval.is_zero()).then_some(interval);
                self.arm_watchdog();
                self.record();
                Next::Same
            }
            Message::WatchdogTrigger => {
                let text = "says that it is broken (WATCHDOG=trigger)".into();
                self.step(Input::Broken { run, reason: RestartReason::Watchdog, text })
            }
            Message::ExtendTimeout(by) => self.extend(by),
            Message::MainPid(_) if self.main_pid_refused => Next::Same,
            // What it is anyway; in a container its process is the first of its PID namespace.
            Message::MainPid(pid) if self.is_main_pid(&pid) => Next::Same,
            Message::MainPid(pid) => {
                self.main_pid_refused = true;
                self.note(&format!(
                    "MAINPID={pid} refused: Kelson follows the process that it started; run it in the foreground"
                ));
                Next::Same
            }
        }
    }

    fn is_main_pid(&self, pid: &str) -> bool {
        let pid = pid.parse::<i32>().ok();
        pid.is_some()
            && (pid == self.service.pid
                || (pid == Some(1) && matches!(self.spec.workload, Workload::Container(_))))
    }

    pub(super) fn arm_watchdog(&mut self) {
        let deadline = match self.service.phase {
            Phase::Active => self.watchdog.and_then(|interval| Instant::now().checked_add(interval)),
            _ => None,
        };
        if let Some(slot) = self.timers.get_mut(timer_index(Timer::Watchdog)) {
            *slot = deadline;
        }
    }

    /// `EXTEND_TIMEOUT_USEC`: the clock that runs has at least so much left.
    fn extend(&mut self, by: Duration) -> Next {
        let Some(until) = Instant::now().checked_add(by) else { return Next::Same };
        match self.service.phase {
            Phase::Active => {
                if let Some(Some(deadline)) = self.timers.get_mut(timer_index(Timer::Start)) {
                    *deadline = (*deadline).max(until);
                }
                self.record();
                Next::Same
            }
            Phase::Ending
                if self.killing == Killing::Nobody
                    && self.stop_until.is_some_and(|deadline| deadline < until) =>
            {
                self.stop_until = Some(until);
                self.record();
                Next::Work(Work::Stop, false)
            }
            _ => Next::Same,
        }
    }
}
