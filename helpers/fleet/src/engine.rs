//! Connects the [`Core`] with the store: performs its steps, one after the other, and answers questions beside them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_helper::supervisor;
use kelson_proto::v1::fleet_command::Command;
use kelson_proto::v1::fleet_report::Report;
use kelson_proto::v1::{FleetConnection, FleetPage, FleetQuestion};
use kelson_spec::fleet::FleetSpec;
use kelson_spec::wire;
use kelson_sys::process;
use prost_types::Timestamp;
use tokio::task::JoinSet;

use crate::clock::{Alarm, Moment, Now};
use crate::core::discovery::{Discovery, Seen};
use crate::core::templates::Templates;
use crate::core::{Core, Host};
use crate::identity::{self, LeaseFile};
use crate::key::Keys;
use crate::limits::Limits;
use crate::list;
use crate::member::{Member, Performed, Reader, perform};
use crate::membership::{Membership, News};
use crate::session::Steps;
use crate::step::Outcome;
use crate::template::Known;
use crate::watch::Watch;
use crate::work::{Done, Stamp, Work};

/// Questions at a time. PID 1 limits them, too.
const QUESTIONS_MAX: usize = 16;

pub struct Engine {
    core: Core,
    limits: Limits,
    alarm: Alarm,
    lease: LeaseFile,
    session: Option<Member>,
    /// For questions and watches, as long as there is a session.
    reader: Option<Reader>,
    /// Has the session meanwhile.
    step: Option<kelson_helper::BoxFuture<'static, Performed>>,
    /// When it began.
    began: Now,
    discovery: Discovery,
    /// None without a session.
    watch: Option<Watch>,
    templates: Templates,
    work: Work,
    /// The files of templates as they were when they were looked at last.
    stamps: BTreeMap<String, Stamp>,
    looked: Moment,
    /// The instances of names were known at the last look.
    was_current: bool,
    questions: JoinSet<Vec<FleetPage>>,
    reports: VecDeque<Report>,
    state: PathBuf,
    runtime: PathBuf,
    /// `None`: the operator gives the host its certificate.
    membership: Option<Membership>,
    /// As PID 1 knows it.
    connection: Option<FleetConnection>,
}

impl Engine {
    /// Must be called on the runtime.
    ///
    /// # Errors
    /// When no descriptor is free.
    pub fn new(state: &Path, runtime: &Path, limits: Limits) -> io::Result<Engine> {
        let (id, trouble) = identity::id(state, runtime);
        let lease = LeaseFile::new(runtime);
        let name = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        let host = Host {
            id,
            boot_id: process::boot_id().unwrap_or_default(),
            name: name.unwrap_or_default(),
            lease: lease.lease(),
            contact: identity::contact(runtime, Now::read().at),
        };
        Ok(Engine {
            core: Core::new(host, limits, Now::read()),
            discovery: Discovery::new(limits, identity::found(runtime, Now::read().at)),
            limits,
            alarm: Alarm::new()?,
            lease,
            session: None,
            reader: None,
            step: None,
            began: Now::read(),
            watch: None,
            templates: Templates::new(limits),
            work: Work::default(),
            stamps: BTreeMap::new(),
            looked: Moment::ZERO,
            was_current: false,
            questions: JoinSet::new(),
            reports: trouble.into_iter().map(Report::Trouble).collect(),
            state: state.to_owned(),
            runtime: runtime.to_owned(),
            membership: None,
            connection: None,
        })
    }

    /// The next message to PID 1.
    pub fn report(&mut self) -> Option<Report> {
        let report = self.reports.pop_front().or_else(|| self.core.next_report());
        let mut report =
            report.or_else(|| self.discovery.next_report()).or_else(|| self.templates.next_report());
        if let (Some(Report::Connection(connection)), Some(membership)) = (&mut report, &self.membership) {
            let until = membership.until().map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
            connection.certificate_until = until.map(|seconds| Timestamp { seconds, nanos: 0 });
            membership.problem().clone_into(&mut connection.certificate_problem);
            self.connection = Some(connection.clone());
        }
        report
    }

    /// Takes a message of PID 1.
    pub fn command(&mut self, command: Command) {
        match command {
            Command::Ping(ping) => self.reports.push_back(Report::Pong(supervisor::pong(&ping))),
            Command::Settings(bytes) => match wire::decode(&bytes) {
                Ok(spec) => self.set(spec),
                Err(error) => self.reports.push_back(Report::Trouble(error.to_string())),
            },
            Command::Question(question) => self.ask(question),
            Command::Interest(interest) => {
                self.watch = None;
                self.discovery.want(interest);
            }
            Command::Templates(templates) => {
                self.templates.want(templates.sources, Now::read().at);
                self.need();
            }
            command => {
                if matches!(command, Command::Facts(_)) {
                    self.templates.touch_all(Now::read().at);
                }
                if self.is_allowed(&command) {
                    self.core.command(command, Now::read());
                }
            }
        }
    }

    /// The names that templates need may be others.
    fn need(&mut self) {
        if self.discovery.need(self.templates.names()) {
            self.watch = None;
        }
    }

    /// Renders the template that is due, or looks at the files of all.
    fn render(&mut self, now: Moment) {
        if !self.work.is_idle() {
            return;
        }
        if let Some(source) = self.templates.next(now) {
            let known = Known { registry: self.discovery.registry(), ..self.core.known() };
            self.work.render(self.runtime.clone(), source, Arc::new(known));
        } else if self.looks_at().is_some_and(|at| at <= now) {
            self.looked = now;
            self.work.look(self.templates.sources().cloned().collect());
        }
    }

    /// When to look at the files of templates.
    fn looks_at(&self) -> Option<Moment> {
        let next = self.looked.saturating_add(self.limits.sources);
        (!self.templates.is_empty() && self.work.is_idle()).then_some(next)
    }

    fn worked(&mut self, done: Done) {
        match done {
            Done::Rendered { source, names, outcome, has_text, is_new, stamp } => {
                self.stamps.insert(source.clone(), stamp);
                self.templates.rendered(&source, names, outcome, (has_text, is_new));
                self.need();
            }
            Done::Looked(stamps) => {
                let stamps: BTreeMap<String, Stamp> = stamps.into_iter().collect();
                for (source, stamp) in &stamps {
                    if self.stamps.get(source).is_some_and(|before| before != stamp) {
                        self.templates.touch_source(source, Now::read().at);
                    }
                }
                self.stamps = stamps;
            }
        }
    }

    fn set(&mut self, mut spec: FleetSpec) {
        if let Some(token) = spec.join.clone() {
            let host = spec.name.clone().unwrap_or_else(|| self.core.host_name().to_owned());
            let folders = [self.state.clone(), self.runtime.clone()];
            let membership = Membership::new(&mut spec, token, host, folders, self.limits);
            if membership.until().is_none() {
                self.core.hold(membership.problem(), Now::read());
            }
            self.membership = Some(membership);
        }
        self.core.set(spec, Now::read());
    }

    /// Keeps back a registration that the host may not make.
    fn is_allowed(&mut self, command: &Command) -> bool {
        let Some(membership) = &mut self.membership else { return true };
        match command {
            Command::Register(register) if !membership.may_register(register) => {
                self.core.forget_service(&register.service);
                self.reports.extend(membership.held(Some(&register.service)).map(Report::Service));
                false
            }
            Command::Remove(remove) => {
                membership.removed(&remove.service);
                true
            }
            _ => true,
        }
    }

    /// Takes what has become of the host's certificate.
    fn renewed(&mut self, news: News) {
        let Some(membership) = &mut self.membership else { return };
        let (had, was_well) = (membership.until().is_some(), membership.problem().is_empty());
        let free = membership.take(news);
        self.reports.extend(membership.held(None).map(Report::Service));
        let now = Now::read();
        if !had {
            let reason = if membership.until().is_some() { "" } else { membership.problem() };
            self.core.hold(reason, now);
        } else if was_well && !membership.problem().is_empty() {
            self.reports.push_back(Report::Trouble(membership.problem().to_owned()));
        }
        free.into_iter().for_each(|register| self.core.command(Command::Register(register), now));
        self.reports.extend(self.connection.clone().map(Report::Connection));
    }

    fn ask(&mut self, question: FleetQuestion) {
        let problem = match (&self.reader, self.core.spec()) {
            (Some(reader), Some(spec)) if self.questions.len() < QUESTIONS_MAX => {
                let (reader, keys) = (reader.clone(), Keys::new(&spec.prefix));
                let host = self.core.name().unwrap_or_default().to_owned();
                self.questions.spawn(kelson_sys::boxed(reader.answer(keys, host, question)));
                return;
            }
            (Some(_), _) => "too many questions are under way; ask again",
            (None, _) => self.core.problem(),
        };
        let refusal = list::refusal(question.number, problem.to_owned());
        self.reports.push_back(Report::Page(refusal));
    }

    /// Begins the step that comes next.
    pub fn act(&mut self) {
        let now = Now::read();
        self.core.tick(now);
        if self.step.is_none()
            && let Some(step) = self.core.step(now)
            && let Some(spec) = self.core.spec()
        {
            let Limits { silence, call, ttl, .. } = self.limits;
            let limits = Steps { silence, call, ttl };
            self.began = now;
            self.step = Some(Box::pin(perform(self.session.take(), step, spec.clone(), limits)));
        }
        self.look_out(now.at);
        let is_current = self.discovery.is_current();
        if !std::mem::replace(&mut self.was_current, is_current) && is_current {
            self.templates.touch_all(now.at);
        }
        self.render(now.at);
    }

    /// Follows what services wait for.
    fn look_out(&mut self, now: Moment) {
        match (&self.reader, &self.watch, self.core.spec()) {
            (None, Some(_), _) => {
                self.watch = None;
                self.discovery.ended();
            }
            (Some(reader), None, Some(spec)) if self.discovery.is_due(now) => {
                let (keys, names) = (Keys::new(&spec.prefix), self.discovery.names());
                self.watch = Some(reader.watch(keys, names));
            }
            _ => {}
        }
        self.discovery.settle(now);
        if let Some(found) = self.discovery.changed() {
            identity::set_found(&self.runtime, &found);
        }
    }

    /// Waits for the end of a step, for an answer, or for a time that has come. Without a loss when it is dropped.
    pub async fn wait(&mut self) {
        let seeks = self.reader.is_some().then(|| self.discovery.wake(self.watch.is_some())).flatten();
        let works =
            self.templates.wake().into_iter().chain(self.looks_at()).filter(|_| self.work.is_idle()).min();
        let wake = self.core.wake(Now::read()).into_iter().chain(seeks).chain(works).min();
        let step = async {
            match &mut self.step {
                Some(step) => step.await,
                None => std::future::pending().await,
            }
        };
        let seen = async {
            match &mut self.watch {
                Some(watch) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        let news = async {
            match &mut self.membership {
                Some(membership) => membership.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            (session, outcome) = step => {
                self.step = None;
                self.reader = session.as_ref().map(Member::reader);
                self.session = session;
                if !matches!(outcome, Outcome::Failed(_) | Outcome::Connected(_)) {
                    self.discovery.confirmed(self.began.at);
                }
                let before = self.core.contact();
                self.core.done(outcome, Now::read());
                self.lease.set(self.core.lease());
                if let Some(contact) = self.core.contact().filter(|contact| Some(*contact) != before) {
                    identity::set_contact(&self.runtime, contact);
                }
            }
            Some(pages) = self.questions.join_next() => {
                // A task that panicked has ended this process, except in tests.
                self.reports.extend(pages.unwrap_or_default().into_iter().map(Report::Page));
            }
            batch = seen => {
                let now = Now::read().at;
                batch.into_iter().for_each(|seen| {
                    match &seen {
                        Seen::Ended(_) => self.watch = None,
                        Seen::One(name, ..) => self.templates.touch_name(name, now),
                        Seen::All(..) | Seen::Follows => {}
                    }
                    self.discovery.see(seen, now);
                });
            }
            done = self.work.done() => done.into_iter().for_each(|done| self.worked(done)),
            news = news => self.renewed(news),
            () = self.alarm.at(wake) => {}
        }
    }
}
