//! Notify messages of a run: readiness, status, watchdog, more time.

use std::sync::Arc;

use kelson_spec::builtin::NET;
use kelson_spec::service::Readiness;
use nix::unistd::{gethostname, sethostname};

use super::{Core, Next};
use crate::model::RestartReason;
use crate::service_runner::notify::Message;
use crate::service_runner::readiness::{NotifySource, Received};
use crate::service_runner::table::{Input, Report};

impl Core {
    /// A message is released once it is written down: until then another incarnation of PID 1 receives it again.
    pub(super) fn hear(&mut self, received: Received) -> Next {
        let run = self.service.run;
        let said = match received {
            Received::Newline => Input::Report(run, Report::Ready),
            Received::Closed => Input::Report(
                run,
                Report::NeverReady { text: "closed its readiness descriptor without a newline".into() },
            ),
            Received::Messages(messages) => {
                let mut last = Next::Same;
                for message in messages {
                    if let next @ (Next::Work(..) | Next::Leave) = self.message(message) {
                        last = next;
                    }
                }
                self.notify_source.take();
                return last;
            }
        };
        let next = self.step(said);
        self.notify_source = NotifySource::Silent;
        next
    }

    fn message(&mut self, message: Message) -> Next {
        let run = self.service.run;
        match message {
            // It is ready once its command has ended.
            Message::Ready if self.spec.readiness == Readiness::Forks => Next::Same,
            Message::Ready => self.step(Input::Report(run, Report::Ready)),
            Message::Reloading => {
                self.step(Input::Report(run, Report::Unready { text: "says that it is reloading".into() }))
            }
            Message::Stopping => {
                self.step(Input::Report(run, Report::Unready { text: "says that it is stopping".into() }))
            }
            Message::Status(text) => {
                let text: Option<Arc<str>> = (!text.is_empty()).then(|| Arc::from(text));
                if text != self.status_text {
                    self.status_text = text;
                    self.publish();
                }
                Next::Same
            }
            Message::Event(text) => {
                // Others could flood the log of events with them.
                if self.builtin {
                    self.note(&text);
                }
                Next::Same
            }
            Message::HostName(name) => {
                self.set_host_name(&name);
                Next::Same
            }
            Message::Watchdog => self.step(Input::Ping),
            Message::WatchdogInterval(interval) => {
                self.step(Input::WatchdogInterval((!interval.is_zero()).then_some(interval)))
            }
            Message::WatchdogTrigger => {
                let text = "says that it is broken (WATCHDOG=trigger)".into();
                self.step(Input::Report(run, Report::Broken { reason: RestartReason::Watchdog, text }))
            }
            Message::ExtendTimeout(by) => self.step(Input::Extend(by)),
            Message::MainPid(_) if self.main_pid_refused => Next::Same,
            // It is the main process already; in a container its process is the first of its PID namespace.
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

    /// Gives the host the name that `net` has from a server; the condition `hostname` follows what the kernel has.
    fn set_host_name(&mut self, name: &str) {
        if !self.builtin || *self.name != *NET || gethostname().is_ok_and(|before| before == name) {
            return;
        }
        match sethostname(name) {
            Ok(()) => self.note(&format!("the host name is {name}, by DHCP")),
            Err(errno) => self.note(&format!("the host name {name} was not set: {}", errno.desc())),
        }
    }

    fn is_main_pid(&self, pid: &str) -> bool {
        let pid = pid.parse::<i32>().ok();
        pid.is_some() && (pid == self.service.pid() || (pid == Some(1) && self.spec.container().is_some()))
    }
}
