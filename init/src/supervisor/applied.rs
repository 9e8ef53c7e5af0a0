//! Configurations from outside: put in force, tried until they are confirmed, and left again.
//!
//! `kelson-load` checks and keeps them; PID 1 takes up what it hands over. A paper is written before the one is asked and
//! removed after the other is done, so that the next incarnation of PID 1 completes what this one has begun, and returns
//! to the old configuration when the time of a trial has passed.

mod answers;

use std::sync::PoisonError;
use std::time::Duration;

use kelson_proto::v1::service_change::Change as Changed;
use kelson_proto::v1::{ConfigurationFile, ServiceChange};
use kelson_services::ServicesError;
use kelson_services::host::{Applied, Apply, ConfigurationFiles, History};
use kelson_services::state_store::Kind;
use kelson_spec::Loaded;
use kelson_spec::applied::{Answer, CURRENT, FOLDER, Generation, Question, Source};
use kelson_sys::text::first_of_many;
use kelson_sys::units;
use tokio::sync::oneshot;

use self::answers::{applied, end_of, generation, mistake, unfit, waits};
use super::command;
use super::files::Files;
use super::trial::{Paper, Trial};
use crate::boot::history::since_kernel;

/// The pause before a return to the old configuration that failed is tried again.
const AGAIN: Duration = Duration::from_secs(10);

type Reply<T> = oneshot::Sender<Result<T, ServicesError>>;

impl Files {
    /// Puts another configuration in force beside all else.
    pub(super) fn apply(&self, apply: Apply, reply: Reply<Applied>) {
        self.in_order(reply, |files| async move { files.apply_now(apply).await });
    }

    /// Keeps the configuration that is on trial.
    pub(super) fn confirm(&self, wanted: Option<Generation>, asked_by: String, reply: Reply<Generation>) {
        self.in_order(reply, move |files| async move { files.confirm_now(wanted, &asked_by).await });
    }

    pub(super) fn get(&self, question: Question, reply: Reply<ConfigurationFiles>) {
        self.in_order(reply, move |files| async move {
            match files.ask(&question).await? {
                Answer::Files { generation, files } => {
                    let files = files.into_iter();
                    let files =
                        files.map(|file| ConfigurationFile { name: file.name, content: file.content });
                    Ok(ConfigurationFiles { generation, files: files.collect() })
                }
                other => Err(unfit(&other)),
            }
        });
    }

    pub(super) fn history(&self, reply: Reply<History>) {
        self.in_order(reply, |files| async move {
            match files.ask(&Question::History).await? {
                Answer::History { kept, .. } => Ok(History {
                    generations: kept.into_iter().map(generation).collect(),
                    rollback_at: files.trial().map(|trial| end_of(&trial).into()),
                }),
                other => Err(unfit(&other)),
            }
        });
    }

    /// Completes what the previous incarnation of PID 1 has begun.
    pub(super) fn resume(&self, paper: Paper) {
        let files = self.clone();
        kelson_sys::spawn(async move {
            let turn = files.turn.lock().await;
            if paper.under_way {
                // Whether it was kept before the crash, what is on the disk decides.
                let changes =
                    match files.personalities.reload(&files.options, &files.configuration.machine()).await {
                        Ok(loaded) => {
                            let changes = files.changes(&loaded);
                            files.take_up(loaded).await.map(|_| changes)
                        }
                        Err(failure) => Err(ServicesError::NotNow(failure.to_string())),
                    };
                match changes {
                    Ok(changes) => {
                        let restarted = files.restart(&changes).await;
                        files.tell(&format!(
                            "the configuration was being applied, and is taken up{restarted}"
                        ));
                    }
                    Err(failure) => {
                        files.tell(&format!("the configuration could not be taken up: {failure}"));
                    }
                }
            }
            match files.on_trial(&paper).await {
                Some(trial) => files.arm(trial),
                None => files.discard(),
            }
            drop(turn);
        });
    }

    /// The trial that goes on. One that was just beginning is known to the disk, if it came so far.
    async fn on_trial(&self, paper: &Paper) -> Option<Trial> {
        let trial = paper.trial.clone()?;
        if !paper.under_way {
            return Some(trial);
        }
        match self.ask(&Question::History).await {
            Ok(Answer::History { trial: Some((generation, before)), .. }) => {
                Some(Trial { generation, before, ..trial })
            }
            Ok(_) => None,
            Err(_) => Some(trial),
        }
    }

    /// Does something once no other reading of the files is under way, and answers.
    fn in_order<T: Send + 'static, F>(&self, reply: Reply<T>, work: impl FnOnce(Files) -> F + Send + 'static)
    where
        F: Future<Output = Result<T, ServicesError>> + Send,
    {
        let files = self.clone();
        kelson_sys::spawn(async move {
            let turn = files.turn.clone().lock_owned().await;
            let answer = work(files).await;
            drop(turn);
            crate::heap::give_back();
            // The caller may have gone away.
            let _ = reply.send(answer);
        });
    }

    async fn apply_now(&self, apply: Apply) -> Result<Applied, ServicesError> {
        let Apply { mut change, trial: time } = apply;
        let (dry_run, author) = (change.dry_run, change.about.author.clone());
        if !dry_run && self.intents.current().is_some() {
            return Err(ServicesError::NotNow("the host is stopping; nothing was changed".to_owned()));
        }
        if let Some(trial) = self.trial().filter(|_| !dry_run) {
            if change.source == Source::Generation(trial.before) {
                return self.revert(&author).await;
            }
            return Err(waits(&trial));
        }
        let mut trial = time.map(|time| Trial {
            author: author.clone(),
            deadline: since_kernel().saturating_add(time),
            ..Trial::default()
        });
        change.on_trial = trial.is_some();
        if !dry_run {
            self.write(&Paper { under_way: true, trial: trial.clone() });
        }
        let asked = self.ask(&Question::Apply(change)).await;
        let (before, now, loaded) = match asked.and_then(applied) {
            Ok(applied) => applied,
            Err(failure) => {
                if !dry_run {
                    self.discard();
                }
                return Err(failure);
            }
        };
        let mut answer = self.plan(&loaded, before, now);
        if dry_run || !loaded.diagnostics.is_empty() {
            if !dry_run {
                self.discard();
            }
            return Ok(answer);
        }
        if let Some(trial) = &mut trial {
            (trial.generation, trial.before) = (now, before);
            self.write(&Paper { under_way: true, trial: Some(trial.clone()) });
        }
        self.take_up(loaded).await?;
        let restarted = self.restart(&answer.services).await;
        answer.applied = true;
        // The same configuration again is none that could be returned from.
        let until = match trial.filter(|_| now != before) {
            Some(trial) => {
                answer.rollback_at = Some(end_of(&trial).into());
                let left = units::duration(trial.left());
                self.arm(trial);
                format!("; unless it is confirmed within {left}, the host returns to generation {before}")
            }
            None => {
                self.discard();
                String::new()
            }
        };
        self.tell(&format!(
            "generation {now} of the configuration is in force, applied by {author}{restarted}{until}"
        ));
        Ok(answer)
    }

    async fn confirm_now(
        &self,
        wanted: Option<Generation>,
        asked_by: &str,
    ) -> Result<Generation, ServicesError> {
        let now = |trial: Option<&Trial>| match trial {
            Some(trial) => waits(trial),
            None => ServicesError::NotNow("no configuration waits for a confirmation".to_owned()),
        };
        let trial = self.trial();
        let fits = |trial: &&Trial| wanted.is_none_or(|wanted| wanted == trial.generation);
        let Some(Trial { generation, .. }) = trial.as_ref().filter(fits) else {
            return Err(now(trial.as_ref()));
        };
        match self.ask(&Question::Confirm).await? {
            Answer::Settled => {}
            other => return Err(unfit(&other)),
        }
        self.set_trial(None);
        self.discard();
        self.tell(&format!("generation {generation} of the configuration is confirmed by {asked_by}"));
        Ok(*generation)
    }

    /// Returns to the configuration from before the trial.
    async fn revert(&self, why: &str) -> Result<Applied, ServicesError> {
        self.write(&Paper { under_way: true, trial: self.trial() });
        let (before, now, loaded) = match self.ask(&Question::Revert).await? {
            // It was returned to already, and only this is left.
            Answer::Settled => {
                self.set_trial(None);
                self.discard();
                return Ok(Applied::default());
            }
            answer => applied(answer)?,
        };
        let mut answer = self.plan(&loaded, before, now);
        // A mistake from before is none that could be returned from.
        answer.mistakes.clear();
        self.take_up(loaded).await?;
        let restarted = self.restart(&answer.services).await;
        answer.applied = true;
        self.set_trial(None);
        self.discard();
        self.tell(&format!(
            "generation {now} of the configuration is in force again, and not {before}: {why}{restarted}"
        ));
        Ok(answer)
    }

    /// From now on the configuration is on trial.
    fn arm(&self, trial: Trial) {
        self.write(&Paper { under_way: false, trial: Some(trial.clone()) });
        self.set_trial(Some(trial.clone()));
        let files = self.clone();
        kelson_sys::spawn(async move {
            let mut pause = trial.left();
            loop {
                tokio::time::sleep(pause).await;
                let _turn = files.turn.lock().await;
                // Confirmed, or returned from.
                if files.trial().as_ref() != Some(&trial) || files.intents.current().is_some() {
                    return;
                }
                match files.revert("nobody has confirmed it in time").await {
                    Ok(_) => return,
                    Err(error) => files.tell(&format!(
                        "the host cannot return to generation {} of the configuration: {error}",
                        trial.before
                    )),
                }
                pause = AGAIN;
            }
        });
    }

    async fn ask(&self, question: &Question) -> Result<Answer, ServicesError> {
        let answer = self.personalities.ask(&self.options, &self.configuration.machine(), question).await;
        match answer {
            Ok(Answer::Refused(why)) => Err(ServicesError::NotNow(why)),
            Ok(answer) => Ok(answer),
            Err(failure) => {
                let folder = self.options.state_dir.join(FOLDER);
                Err(ServicesError::NotNow(format!(
                    "{}: {failure}; `kelsonctl history` shows what is in force",
                    folder.display()
                )))
            }
        }
    }

    fn changes(&self, loaded: &Loaded) -> Vec<ServiceChange> {
        let mut loaded = Loaded { services: loaded.services.clone(), ..Loaded::default() };
        command::keep(&mut loaded, self.command());
        self.manager.changes(&loaded.services)
    }

    /// What taking this up would change.
    fn plan(&self, loaded: &Loaded, before: Generation, generation: Generation) -> Applied {
        let mut answer = Applied { before, generation, ..Applied::default() };
        let folder = match loaded.generation {
            Some(_) => self.options.state_dir.join(FOLDER).join(CURRENT),
            None => self.options.config.clone(),
        };
        let mistakes = loaded.diagnostics.iter().map(|found| mistake(found, &folder, false));
        let warnings = loaded.warnings.iter().map(|found| mistake(found, &folder, true));
        answer.mistakes = mistakes.chain(warnings).collect();
        if loaded.diagnostics.is_empty() {
            answer.services = self.changes(loaded);
            let (groups, machine) = self.configuration.plan(loaded);
            let names = |keys: Vec<&str>| keys.into_iter().map(str::to_owned).collect();
            answer.groups = groups;
            (answer.machine_keys, answer.reboot_keys) = (names(machine.applied), names(machine.waiting));
        }
        answer
    }

    /// Has the services that run restart with their new files; returns their names for a message, once all that change have
    /// written that down: a crash from then on loses nothing of it.
    async fn restart(&self, changes: &[ServiceChange]) -> String {
        let restarts = changes.iter().filter(|change| change.acts && change.change() == Changed::Changed);
        let names: Vec<String> = restarts.map(|change| change.name.clone()).collect();
        self.manager.restart(&names, false).await;
        for change in changes.iter().filter(|change| change.change() != Changed::Unchanged) {
            // Any question will do: a service answers after all that it got before.
            let _ = self.manager.checks(&change.name).await;
        }
        match names.as_slice() {
            [] => String::new(),
            names => format!("; restarts: {}", first_of_many(names.iter(), ", ")),
        }
    }

    fn trial(&self) -> Option<Trial> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_trial(&self, trial: Option<Trial>) {
        *self.trial.lock().unwrap_or_else(PoisonError::into_inner) = trial;
    }

    fn write(&self, paper: &Paper) {
        if let Some(store) = &self.store {
            store.write(Kind::Applied, "", paper);
        }
    }

    fn discard(&self) {
        if let Some(store) = &self.store {
            store.discard(Kind::Applied, "");
        }
    }

    fn tell(&self, text: &str) {
        self.manager.host_event(text);
    }
}
