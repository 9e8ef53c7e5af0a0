//! Requests of others to a service, and its answers.

use std::sync::Arc;

use kelson_runner::{BoxFuture, Executor};
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use tokio::sync::{mpsc, oneshot};

use super::super::host_context::RunningProcess;
use super::super::table::{Answer, Input, Phase, StopReason};
use super::{Core, Next};
use crate::error::ServicesError;
use crate::model::CheckReport;
use crate::state_store::Kind;

/// A request to a service.
pub enum Command {
    Request {
        input: Input,
        reply: Option<oneshot::Sender<Answer>>,
    },
    /// Its file changed; taken up by its next run.
    NewSpec(Arc<ServiceSpec>),
    /// Its image changed: its next run is prepared again.
    NewImage,
    /// Services came or went: the gate is built again.
    Regate,
    /// Stop, and say so when at rest (or when a later request means that it will not come to rest).
    Stop {
        request_id: u64,
        reason: StopReason,
        rested: mpsc::UnboundedSender<Arc<str>>,
    },
    /// The task ends if the service is at rest; answered with whether it does.
    Leave {
        left: oneshot::Sender<bool>,
    },
    /// The executor of further commands beside the main process; an error where no run may be joined.
    Executor {
        reply: oneshot::Sender<Result<Arc<dyn Executor>, ServicesError>>,
    },
    /// Send a signal to its main process; answered with its PID, or with why not.
    Signal {
        signal: i32,
        /// Only to this run.
        run: Option<u64>,
        asked_by: String,
        reply: oneshot::Sender<Result<i32, ServicesError>>,
    },
    /// Its program is to read its configuration again, as its file says. Answered with what the caller does for that.
    Reload {
        reply: oneshot::Sender<Result<Reloading, ServicesError>>,
    },
    /// The machine was resumed from a snapshot. Answered with the hooks for that, which the caller awaits.
    Resumed {
        asked_by: String,
        reply: oneshot::Sender<Result<BoxFuture<'static, Vec<String>>, ServicesError>>,
    },
    /// The store of the fleet has confirmed its registration; or why it has not.
    Registered {
        problem: Option<Arc<str>>,
    },
    /// How its checks stand.
    Checks {
        reply: oneshot::Sender<Vec<CheckReport>>,
    },
}

/// A reload that was begun: hooks beside a run, and then a signal to its main process.
pub struct Reloading {
    /// Ends with the text about a hook that failed.
    pub hooks: BoxFuture<'static, Vec<String>>,
    pub count: usize,
    pub signal: Option<i32>,
    pub run: u64,
}

impl Core {
    /// The next run is of this spec, and what was prepared is undone before it.
    fn await_spec(&mut self, spec: Arc<ServiceSpec>) -> Next {
        let has_when = !spec.when.is_empty();
        self.write_down(Kind::NextSpec, &spec);
        self.new_spec = Some(spec);
        self.step(Input::NewSpec { has_when })
    }

    pub(super) fn command(&mut self, command: Command) -> Next {
        match command {
            Command::Request { input, reply } => self.request(input, reply),
            Command::NewSpec(spec) => {
                if spec.runs_like(&self.spec) {
                    if spec.file != self.spec.file {
                        self.write_down(Kind::Spec, &spec);
                        self.spec = spec;
                    }
                    // A change that was taken back is none.
                    return match self.new_spec.take() {
                        Some(_) => {
                            self.discard_next_spec();
                            self.step(Input::OldSpec)
                        }
                        None => Next::Same,
                    };
                }
                self.await_spec(spec)
            }
            Command::NewImage => {
                let spec = self.new_spec.as_ref().unwrap_or(&self.spec);
                self.await_spec(Arc::clone(spec))
            }
            Command::Regate => {
                if self.gate.is_none() {
                    return Next::Same;
                }
                self.gate = Some(self.new_gate());
                let input = self.look_at_gate();
                self.step(input)
            }
            Command::Stop { request_id, reason, rested } => {
                self.rested.push(rested);
                self.step(Input::Stop { request_id, reason })
            }
            Command::Leave { left } => {
                let rests = matches!(self.service.phase, Phase::Rest(_));
                if rests {
                    for command in self.mailbox.close() {
                        if let Command::Stop { rested, .. } = command {
                            self.rested.push(rested);
                        }
                    }
                    self.say_rested();
                }
                let _ = left.send(rests);
                if rests { Next::Leave } else { Next::Same }
            }
            Command::Executor { reply } => {
                // The caller may be gone.
                let _ = reply.send(self.executor());
                Next::Same
            }
            Command::Signal { signal, run, asked_by, reply } => {
                let sent = match run {
                    Some(run) if run != self.service.run => Err(ServicesError::NotNow(format!(
                        "service \"{}\" was started again meanwhile",
                        self.name
                    ))),
                    _ => self.signal(signal, &asked_by),
                };
                // The caller may be gone.
                let _ = reply.send(sent);
                Next::Same
            }
            Command::Reload { reply } => {
                if const { OWN.has(Feature::Units) } {
                    // The caller may be gone.
                    let _ = reply.send(self.reload());
                }
                Next::Same
            }
            Command::Resumed { asked_by, reply } => {
                // The caller may be gone.
                let _ = reply.send(self.resumed(&asked_by));
                Next::Same
            }
            Command::Registered { problem } => self.registered(problem),
            Command::Checks { reply } => {
                // The caller may be gone.
                let _ = reply.send(self.reports());
                Next::Same
            }
        }
    }

    /// For the present run, while it is neither ending nor about to.
    pub(super) fn executor(&self) -> Result<Arc<dyn Executor>, ServicesError> {
        match self.service.active() {
            Some(_) => self.executor_of_run(),
            None => Err(self.does_not_run()),
        }
    }

    pub(super) fn executor_of_run(&self) -> Result<Arc<dyn Executor>, ServicesError> {
        match self.service.pid() {
            Some(pid) => {
                let run = RunningProcess { run: self.service.run, pid, start_time: self.start_time };
                self.host_context.runners.executor(&self.spec, run)
            }
            None => Err(self.does_not_run()),
        }
    }

    /// To the main process, which the policy answers for as ever if the signal ends it: it is no stop.
    pub(super) fn signal(&self, signal: i32, asked_by: &str) -> Result<i32, ServicesError> {
        let pid = self.service.pid().ok_or_else(|| self.does_not_run())?;
        kelson_runner::signal_process(pid, self.start_time, signal)
            .map_err(|error| ServicesError::NotNow(error.message))?;
        self.note(&format!("{} sent to PID {pid}: asked by {asked_by}", kelson_spec::signal_name(signal)));
        Ok(pid)
    }

    fn does_not_run(&self) -> ServicesError {
        let (name, state) = (&self.name, self.service.state().name());
        ServicesError::NotNow(match self.service.active() {
            Some(active) if active.pid == 0 => format!("service \"{name}\" has no process"),
            _ => format!("service \"{name}\" does not run: its state is {state}"),
        })
    }

    fn request(&mut self, input: Input, reply: Option<oneshot::Sender<Answer>>) -> Next {
        let starts = matches!(input, Input::Start { .. } | Input::Restart { .. });
        let (next, answer) = self.step_answer(input);
        if starts && answer == Some(Answer::Done) {
            self.say_rested();
        }
        if let (Some(reply), Some(answer)) = (reply, answer) {
            // The caller may be gone.
            let _ = reply.send(answer);
        }
        next
    }
}
