//! The requests of operators: start, stop, restart, wait.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::RefusedRequest;
use kelson_spec::{ServiceSpec, quoted};
use kelson_sys::ordered;
use kelson_sys::text::first_of_many;
use tokio::sync::oneshot;

use super::asked::{Asked, Goal, REPLACED};
use super::{ActionResult, Awaited, Kind, Manager, Outcome};
use crate::error::ServicesError::{self, NotNow};
use crate::model::Snapshot;
use crate::service_runner::table::{Input, StopReason};
use crate::service_runner::task::Command;
use crate::service_runner::words;

impl Manager {
    /// Starts services; with `wait`, answers once each is up or has failed.
    pub async fn start(&self, names: &[String], wait: bool) -> Vec<ActionResult> {
        self.start_together(names, wait, |request_id| Input::Start { request_id }).await
    }

    /// Starts or restarts services that can run beside each other, once what conflicts with them has stopped.
    async fn start_together(
        &self,
        names: &[String],
        wait: bool,
        input: impl Fn(u64) -> Input,
    ) -> Vec<ActionResult> {
        let (names, refused) = self.compatible(names);
        self.stop_conflicting(&names, &input(0)).await;
        let mut results = self.each(&names, wait, Goal::Started, input).await;
        results.extend(refused);
        results
    }

    /// Starts services because another one has ended, as the text says. Their files may refuse requests of operators; this
    /// is none.
    pub(crate) fn follow_up(&self, names: Vec<String>, text: String) {
        if const { !OWN.has(Feature::Units) } || self.closing() {
            return;
        }
        let manager = self.clone();
        kelson_sys::spawn(async move {
            manager.stop_conflicting(&names, &Input::Due).await;
            for name in names.iter().filter(|name| manager.live(name).is_some()) {
                manager.service_event(name, &text);
                manager.tell(name, Input::Start { request_id: manager.request_id() });
            }
        });
    }

    /// Restarts services; with `wait`, answers once each is up again or has failed.
    pub async fn restart(&self, names: &[String], wait: bool) -> Vec<ActionResult> {
        let names = self.with_parts(names);
        self.start_together(&names, wait, |request_id| Input::Restart { request_id }).await
    }

    /// The image of these services is another one: the next run of each is prepared again.
    pub(crate) fn prepare_again(&self, names: &[String]) {
        for handle in names.iter().filter_map(|name| self.live(name)) {
            // Where its mailbox is full, the operator can start it again.
            let _ = handle.mailbox.send(Command::NewImage);
        }
    }

    /// The store of the fleet has confirmed the registration that a service waits for; or why it has not.
    pub(crate) fn registered(&self, name: &str, problem: Option<Arc<str>>) {
        if let Some(handle) = self.live(name) {
            // Where its mailbox is full, the next report comes with the next change.
            let _ = handle.mailbox.send(Command::Registered { problem });
        }
    }

    /// Stops services. Refuses while a service that is starting or running needs one of them and is not itself named;
    /// with `cascade` those are stopped first.
    pub async fn stop(&self, names: &[String], cascade: bool, wait: bool) -> Vec<ActionResult> {
        self.stop_for(names, cascade, wait, None).await
    }

    /// Stops services as [`Manager::stop`] does, for this time, after which they start again by themselves; `None`: until
    /// somebody starts them.
    pub async fn stop_for(
        &self,
        names: &[String],
        cascade: bool,
        wait: bool,
        time: Option<Duration>,
    ) -> Vec<ActionResult> {
        let names = self.with_parts(names);
        let mut results = Vec::new();
        let mut plain = Vec::new();
        let mut ordered = Vec::new();
        let users = self.users_now();
        let named = ordered::set(names.iter().map(String::as_str));
        for name in names.iter() {
            let all = users.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
            let needed: Vec<&str> =
                all.iter().map(|user| &**user).filter(|user| !named.contains(user)).collect();
            if all.is_empty() {
                plain.push(name.clone());
            } else if needed.is_empty() || cascade {
                ordered.push(name.clone());
            } else {
                results.push(ActionResult {
                    name: name.clone(),
                    outcome: Outcome::Refused,
                    message: format!(
                        "needed by {}; stop that first, or use --cascade",
                        first_of_many(needed.iter().map(|user| format!("\"{user}\"")), ", ")
                    ),
                    snapshot: self.get(name),
                });
            }
        }
        self.note_time(plain.iter().chain(&ordered), time);
        if !plain.is_empty() {
            let stop = |request_id| Input::Stop { request_id, reason: StopReason::Operator };
            results.extend(self.each(&plain, wait, Goal::Stopped, stop).await);
        }
        if !ordered.is_empty() {
            results.extend(self.stop_ordered(&ordered, wait, time).await);
        }
        if let Some(time) = time.map(words::duration) {
            let stopped = |result: &&mut ActionResult| {
                let down = result.snapshot.as_ref().is_some_and(|service| service.stopped);
                result.outcome == Outcome::Done || (result.outcome == Outcome::NothingToDo && down)
            };
            for result in results.iter_mut().filter(stopped) {
                let entries = self.entries();
                let spec = entries.get(result.name.as_str()).and_then(|entry| entry.spec.as_ref());
                let again = match spec.is_some_and(|spec| spec.schedule().is_some()) {
                    true => "its schedule starts it again",
                    false => "it starts again",
                };
                result.message.push_str(&format!("; {again} in {time}"));
            }
        }
        results
    }

    /// These, and the running services that are part of them, and of which others are part in turn.
    fn with_parts<'n>(&self, names: &'n [String]) -> Cow<'n, [String]> {
        if const { !OWN.has(Feature::Units) } {
            return Cow::Borrowed(names);
        }
        let entries = self.entries();
        // Few services are part of another, as a rule none.
        let mut parts: Vec<_> = entries
            .iter()
            .filter(|(name, entry)| {
                entry.specs().any(|spec| !spec.part_of.is_empty())
                    && !entry.watch().borrow().state.at_rest()
                    && !names.iter().any(|known| **known == ***name)
            })
            .collect();
        if parts.is_empty() {
            return Cow::Borrowed(names);
        }
        let mut all = names.to_vec();
        let mut next = 0_usize;
        while let Some(whole) = all.get(next).cloned() {
            next = next.saturating_add(1);
            parts.retain(|(name, entry)| {
                let is_part = entry.specs().any(|spec| spec.part_of.contains(&whole));
                if is_part {
                    all.push(name.to_string());
                }
                !is_part
            });
        }
        Cow::Owned(all)
    }

    /// All that a stop of these stops.
    pub fn stops_with(&self, names: &[String], cascade: bool) -> BTreeSet<String> {
        let first = if cascade { self.needed_closure(names) } else { Vec::new() };
        ordered::set(names.iter().cloned().chain(first))
    }

    /// Before their stop: it is the last request that counts.
    fn note_time<'a>(&self, names: impl Iterator<Item = &'a String>, time: Option<Duration>) {
        names.for_each(|name| self.tell(name, Input::StopFor(time)));
    }

    /// As [`Self::stop`], but those of these services that are stopping by then are killed at once.
    pub async fn stop_by_force(
        &self,
        names: &[String],
        cascade: bool,
        wait: bool,
        time: Option<Duration>,
    ) -> Vec<ActionResult> {
        let results = self.stop_for(names, cascade, false, time).await;
        for result in results.iter().filter(|result| result.outcome != Outcome::Refused) {
            if let Some(handle) = self.live(&result.name) {
                // Where its mailbox is full, the operator can ask again.
                let _ = handle.mailbox.send(Command::Request { input: Input::Force, reply: None });
            }
        }
        if wait { self.stop_for(names, cascade, true, time).await } else { results }
    }

    async fn stop_ordered(&self, names: &[String], wait: bool, time: Option<Duration>) -> Vec<ActionResult> {
        let first = self.needed_closure(names);
        self.note_time(first.iter(), time);
        let stopping = {
            let (manager, first, names) = (self.clone(), first.clone(), names.to_vec());
            kelson_sys::spawn(
                async move { manager.stop_cascade(&first, &names, &StopReason::Operator).await },
            )
        };
        if wait && stopping.await.is_err() {
            tracing::error!("stopping in order was broken off");
        }
        let also = match first.len() {
            0 => String::new(),
            _ => format!(", after {}", first_of_many(first.iter(), ", ")),
        };
        names
            .iter()
            .map(|name| {
                let snapshot = self.get(name);
                let (outcome, message) = match &snapshot {
                    None => (Outcome::Refused, self.unknown(name).to_string()),
                    Some(now) if wait && now.state.at_rest() => {
                        (Outcome::Done, format!("{}{also}", now.message))
                    }
                    Some(_) if wait => (Outcome::Superseded, REPLACED.into()),
                    Some(_) => (Outcome::Done, format!("stopping{also}")),
                };
                ActionResult { name: name.clone(), outcome, message, snapshot }
            })
            .collect()
    }

    /// Sends each its request first, then waits for the answers side by side.
    async fn each(
        &self,
        names: &[String],
        wait: bool,
        goal: Goal,
        input: impl Fn(u64) -> Input,
    ) -> Vec<ActionResult> {
        let mut asked = Vec::new();
        for name in names {
            asked.push((name.clone(), self.ask(name, &input)));
        }
        let mut results = Vec::new();
        for (name, asked) in asked {
            results.push(match asked {
                Err(error) => {
                    let (outcome, message) = (Outcome::Refused, error.to_string());
                    ActionResult { outcome, message, snapshot: self.get(&name), name }
                }
                Ok(asked) => asked.outcome(name, wait, goal).await,
            });
        }
        results
    }

    fn ask(&self, name: &str, input: &impl Fn(u64) -> Input) -> Result<Asked, ServicesError> {
        let entries = self.entries();
        let Some(entry) = entries.get(name) else {
            drop(entries);
            return Err(self.unknown(name));
        };
        match &entry.kind {
            Kind::Faulty(publisher) => Err(NotNow(publisher.borrow().message.to_string())),
            Kind::Helper(helper) => match input(0) {
                Input::Restart { .. } => {
                    (helper.restart)();
                    Ok(Asked::Helper(entry.watch()))
                }
                Input::Start { .. } => Ok(Asked::Helper(entry.watch())),
                _ => Err(NotNow(format!("\"{name}\" stops with the host alone; restart replaces it"))),
            },
            Kind::Live(_) if self.closing() && !matches!(input(0), Input::Stop { .. }) => {
                Err(NotNow("the host is stopping, nothing is started any more".into()))
            }
            Kind::Live(handle) => {
                if let Some(text) = refusal(entry.specs(), &input(0)) {
                    return Err(NotNow(text));
                }
                let request_id = self.request_id();
                let (reply, answer) = oneshot::channel();
                let command = Command::Request { input: input(request_id), reply: Some(reply) };
                handle
                    .mailbox
                    .send(command)
                    .map_err(|_| NotNow("too many requests are waiting for it".to_owned()))?;
                Ok(Asked::Live { request_id, answer, snapshot: handle.snapshot.clone() })
            }
        }
    }

    /// The error for a name that no service has.
    pub fn unknown(&self, name: &str) -> ServicesError {
        let entries = self.entries();
        ServicesError::Unknown(match kelson_spec::near(name, entries.keys().map(AsRef::as_ref)) {
            Some(near) => format!("there is no service {}; did you mean \"{near}\"?", quoted(name)),
            None => format!("there is no service {}; `kelsonctl services` lists them", quoted(name)),
        })
    }

    /// Returns once all hold, at the same time. Cancelled by dropping.
    ///
    /// # Errors
    /// One of the services is not known, or not any more.
    pub async fn wait(&self, names: &[String], awaited: Awaited) -> Result<(), ServicesError> {
        let mut watched = Vec::new();
        for name in names {
            let snapshot = self.entries().get(name.as_str()).map(super::Entry::watch);
            watched.push(snapshot.ok_or_else(|| self.unknown(name))?);
        }
        let holds = |snapshot: &Snapshot| match awaited {
            Awaited::Up => snapshot.up,
            Awaited::Down => snapshot.down,
            Awaited::Finished => snapshot.finished,
        };
        // While the first that is missing does not hold, all together do not, whatever else changes.
        while let Some(missing) = watched.iter().position(|snapshot| !holds(&snapshot.borrow())) {
            let Some(snapshot) = watched.get_mut(missing) else { return Ok(()) };
            if snapshot.wait_for(holds).await.is_err() {
                let name = names.get(missing).map_or("", String::as_str);
                let text = format!("service \"{name}\" was removed, or the host has stopped");
                return Err(ServicesError::Unknown(text));
            }
        }
        Ok(())
    }
}

/// Why a service refuses a request of an operator, if it does.
pub(super) fn refusal(mut specs: impl Iterator<Item = Arc<ServiceSpec>>, input: &Input) -> Option<String> {
    if const { !OWN.has(Feature::Units) } {
        return None;
    }
    let (request, word) = match input {
        Input::Start { .. } => (RefusedRequest::Start, "start"),
        Input::Stop { reason: StopReason::Operator, .. } => (RefusedRequest::Stop, "stop"),
        _ => return None,
    };
    let refuses = specs.any(|spec| spec.refuses.contains(&request));
    refuses.then(|| format!("its file refuses this request (refuses: [{word}])"))
}
