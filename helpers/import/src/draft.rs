//! The service that a unit becomes, while its keys are read.

use std::time::Duration;

use kelson_load::Json;
use kelson_spec::service::{
    Hook, Requirement, Schedule, ServiceKind, ServiceSpec, SocketOptions, StartMode, StopMode, Workload,
};
use kelson_spec::units::NEVER;

use crate::finding::Outcome;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::specifiers::expanded;
use crate::unit_name::UnitName;
use crate::values::{LONGEST, boolean, time_span};
use crate::written::insert;

/// What systemd waits for a start and a stop, unless a unit says otherwise.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The most hooks of a kind that a service file takes.
const MOST_HOOKS: usize = 32;

/// The one-shot that runs what a socket unit runs before its sockets are made, as a service unit.
#[derive(Debug)]
pub struct Before {
    /// Of its file.
    pub unit: String,
    /// The name of the socket unit.
    pub source: String,
    pub text: String,
}

/// The state of a translation. The functions of the table write into it.
#[derive(Debug)]
pub struct Draft<'u> {
    pub settings: &'u Settings,
    pub name: &'u UnitName,
    /// Values of specifiers.
    pub given: &'u [(char, String)],
    pub spec: ServiceSpec,
    /// As the file has them: only a host knows what they stand for.
    pub user: Option<String>,
    pub group: Option<String>,
    /// In place of both.
    pub dynamic_user: Option<String>,
    pub environment_files: Vec<String>,
    /// The names of `before`.
    pub before: Vec<String>,
    /// Hooks that decide whether it starts.
    pub conditions: Vec<Hook>,
    /// Tests of the shell of which one has to succeed.
    pub either: Vec<String>,
    /// The names of the socket units that were given, what they become, and the one that is being read.
    pub given_sockets: Vec<String>,
    pub sockets: Vec<Json>,
    pub socket: Socket,
    /// Options that the service asks for, of all of them.
    pub of_sockets: SocketOptions,
    /// The programs before them.
    pub beside: Vec<Before>,
    /// What the timer units that are read ask for.
    pub schedule: Schedule,
    /// A stop kills what does not end in time.
    pub kills: bool,
    /// The program that runs the main one, with its arguments: it sets how that is scheduled.
    pub scheduler: Vec<String>,
    /// The commands of a one-shot before its last.
    pub earlier: Vec<Hook>,
}

impl<'u> Draft<'u> {
    pub fn new(
        service: &str,
        settings: &'u Settings,
        name: &'u UnitName,
        given: &'u [(char, String)],
    ) -> Self {
        let mut spec = ServiceSpec::process(service, Vec::<String>::new());
        spec.start = StartMode::Manual;
        spec.stop.mode = StopMode::Cgroup;
        Draft {
            settings,
            name,
            given,
            spec,
            user: None,
            group: None,
            dynamic_user: None,
            environment_files: Vec::new(),
            before: Vec::new(),
            conditions: Vec::new(),
            either: Vec::new(),
            given_sockets: Vec::new(),
            sockets: Vec::new(),
            socket: Socket::default(),
            of_sockets: SocketOptions::default(),
            beside: Vec::new(),
            schedule: Schedule::default(),
            kills: true,
            scheduler: Vec::new(),
            earlier: Vec::new(),
        }
    }

    /// With the values of its specifiers.
    ///
    /// # Errors
    /// The sentence about one that is not known here.
    pub fn expanded(&self, text: &str) -> Result<String, Outcome> {
        expanded(text, self.name, self.given)
    }

    /// Also what stays up once its program has ended, which systemd keeps apart.
    pub fn is_oneshot(&self) -> bool {
        match self.settings.service("Type") {
            "oneshot" => true,
            "" | "simple" | "exec" => self.is_on("RemainAfterExit"),
            _ => false,
        }
    }

    /// Whether a key of `[Service]` is a boolean that is set.
    pub fn is_on(&self, key: &str) -> bool {
        boolean(self.settings.service(key)) == Some(true)
    }

    /// Whether the service runs as root.
    pub fn is_root(&self) -> bool {
        matches!(self.settings.service("User"), "" | "root" | "0") && !self.is_on("DynamicUser")
    }

    /// Whether a user or a restriction holds for the service, which `+` would lift.
    pub fn is_confined(&self) -> bool {
        let has = |key: &str| !self.settings.service_list(key).is_empty();
        has("User")
            || self.is_on("DynamicUser")
            || has("CapabilityBoundingSet")
            || has("AmbientCapabilities")
            || self.is_on("NoNewPrivileges")
    }

    /// The time limit of a start, or of a stop. [`NEVER`]: none.
    pub fn timeout(&self, key: &str) -> Duration {
        let text = self.settings.service(key);
        if text.is_empty() {
            return if key == "TimeoutStartSec" && self.is_oneshot() { NEVER } else { TIMEOUT };
        }
        time_span(text).map_or(TIMEOUT, |span| span.filter(|time| !time.is_zero()).unwrap_or(NEVER))
    }

    /// The time limit of a hook, which has to have one.
    pub fn hook_timeout(&self, key: &str) -> Duration {
        self.timeout(key).min(LONGEST)
    }

    /// Adds a condition that is not there yet.
    pub fn depends(&mut self, requirement: Requirement) {
        let name = |requirement: &Requirement| match requirement {
            Requirement::Service { name, .. } => Some(name.clone()),
            _ => None,
        };
        let same = |known: &Requirement| match (name(known), name(&requirement)) {
            (Some(known), Some(new)) => known == new,
            _ => *known == requirement,
        };
        if name(&requirement).as_ref() != Some(&self.spec.name) && !self.spec.depends.iter().any(same) {
            self.spec.depends.push(requirement);
        }
    }

    /// Adds a condition to `when`.
    pub fn when(&mut self, requirement: Requirement) {
        if !self.spec.when.contains(&requirement) {
            self.spec.when.push(requirement);
        }
    }

    /// What holds for every unit, whatever keys it has, and the service file.
    pub fn finished(mut self) -> Json {
        let spec = &mut self.spec;
        spec.hooks.pre.splice(0..0, self.conditions.drain(..));
        spec.hooks.pre.append(&mut self.earlier);
        spec.hooks.undo.truncate(MOST_HOOKS);
        for hooks in
            [&mut spec.hooks.pre, &mut spec.hooks.post_start, &mut spec.hooks.pre_stop, &mut spec.hooks.post]
        {
            hooks.truncate(MOST_HOOKS);
        }
        if let Workload::Process(process) = &mut spec.workload {
            process.command.splice(0..0, self.scheduler.drain(..));
        }
        let (stop, start) = (self.timeout("TimeoutStopSec"), self.timeout("TimeoutStartSec"));
        self.spec.stop.timeout = if self.kills { stop } else { NEVER };
        if self.spec.kind == ServiceKind::Service {
            self.spec.start_timeout = start;
        }
        // The files replace what `Environment=` sets.
        let defaults = match self.environment_files.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut self.spec.environment),
        };
        let user = self.dynamic_user.or(match (self.user, self.group) {
            (Some(user), Some(group)) => Some(format!("{user}:{group}")),
            (Some(user), None) => Some(user),
            (None, Some(group)) => Some(format!("root:{group}")),
            (None, None) => None,
        });
        let Json::Map(mut entries) = kelson_load::written(&self.spec) else { return Json::Null };
        let mut put = |key: &str, value: Json| insert(&mut entries, key, value);
        if !defaults.is_empty() {
            let one = |(name, value): (String, String)| (name, Json::Text(value));
            put("environmentDefaults", Json::Map(defaults.into_iter().map(one).collect()));
        }
        if !self.environment_files.is_empty() {
            put("environmentFiles", Json::texts(self.environment_files.iter().map(String::as_str)));
        }
        if !self.before.is_empty() {
            put("before", Json::texts(self.before.iter().map(String::as_str)));
        }
        if !self.sockets.is_empty() {
            put("sockets", Json::List(self.sockets));
        }
        if let Some(user) = user {
            put("user", Json::Text(user));
        }
        Json::Map(entries)
    }
}
