//! A whole service file.

use std::path::Path;
use std::time::Duration;

use super::health::CheckOf;
use super::membership::Ties;
use super::requirement::Use;
use super::{Decoder, Fields, Place, found, quoted, scalar, shown};
use crate::environment;
use crate::read::{self, MAX_FILE, ReadError};
use crate::tree::{Node, Position, Value};
use kelson_spec::kernel::{ALL_CAPABILITIES, CONTAINER_CAPABILITIES};
use kelson_spec::loaded::{Diagnostic, Unchecked};
use kelson_spec::names::RESERVED;
use kelson_spec::service::{
    ApiAccess, Credentials, Exhausted, LogSpec, Readiness, RestartPolicy, RestartScope, RestartSpec,
    ServiceKind, ServiceSpec, StartMode, StopSpec, Workload,
};
use kelson_spec::units::{self, NEVER};

pub const KEYS: [&str; 26] = [
    "name",
    "description",
    "process",
    "container",
    "environment",
    "environmentFiles",
    "type",
    "start",
    "when",
    "depends",
    "restart",
    "group",
    "lifecycle",
    "required",
    "readiness",
    "startTimeout",
    "health",
    "hooks",
    "stop",
    "user",
    "resources",
    "delegate",
    "limits",
    "security",
    "api",
    "logs",
];

/// The shortest time that may be waited for something to happen.
pub(super) const SHORTEST: Duration = Duration::from_millis(1);
/// The most attempts a restart budget may have.
const MOST_ATTEMPTS: u32 = 1_000_000;
/// The highest descriptor for readiness: below the usual soft limit of 1024.
const HIGHEST_DESCRIPTOR: i32 = 1023;

/// A spec and where it names other services: `depends` first, then `when`, in the order of a walk.
#[derive(Debug)]
pub struct Decoded {
    pub spec: ServiceSpec,
    pub references: Vec<Position>,
    /// How many of the first entries of `depends` come from the group and not from the file.
    pub by_group: usize,
    /// Where what it runs is written.
    pub workload: Position,
}

/// Decodes the tree of the service file of the name `stem`; `None` where it has a mistake. `ties` get what can be read of
/// them in any case.
pub fn service(d: &mut Decoder<'_>, stem: &str, root: &Node, ties: &mut Ties) -> Option<Decoded> {
    let before = d.diagnostics.len();
    let decoded = whole(d, stem, root, ties);
    decoded.filter(|_| d.diagnostics.len() == before)
}

fn whole(d: &mut Decoder<'_>, stem: &str, root: &Node, ties: &mut Ties) -> Option<Decoded> {
    let place = Place::Root;
    let fields = d.fields(&place, root, &KEYS)?;
    d.require(&fields, "name", &format!("name: {stem}"), |d, p, n| d.own_name(stem, p, n));

    let workload = match d.one_of(&fields, &["process", "container"]) {
        Some("process") => d.read(&fields, "process", |d, p, n| d.process(p, n)).map(Workload::Process),
        Some(_) => d.read(&fields, "container", |d, p, n| d.container(p, n)).map(Workload::Container),
        None => None,
    };
    let is_container = fields.has("container");
    // Where there is no workload that can be used, the rest is still read: all mistakes at once.
    let mut spec = ServiceSpec::process(stem, ["/"]);
    spec.file = d.file.to_owned();
    let usable = workload.map(|workload| spec.workload = workload).is_some();

    d.set(&fields, "description", &mut spec.description, |d, p, n| d.text(p, n));
    let kinds = [("service", ServiceKind::Service), ("oneshot", ServiceKind::Oneshot)];
    let kind = d.read(&fields, "type", |d, p, n| d.choice(p, n, &kinds));
    spec.kind = kind.unwrap_or_default();
    *ties = d.ties(&fields, kind.or((!fields.has("type")).then_some(ServiceKind::Service)), &mut spec);
    d.set(&fields, "start", &mut spec.start, |d, p, n| {
        d.choice(p, n, &[("auto", StartMode::Auto), ("manual", StartMode::Manual)])
    });
    d.environments(&fields, &mut spec.environment);

    let mut references = Vec::new();
    d.set(&fields, "depends", &mut spec.depends, |d, p, n| {
        d.requirements(Use::Depends, p, n, &mut references)
    });
    d.set(&fields, "when", &mut spec.when, |d, p, n| d.requirements(Use::When, p, n, &mut references));

    let kind = spec.kind;
    let no_group = (!fields.has("group"))
        .then_some("the service is in no group; write group: NAME too, or leave scope out");
    spec.restart = RestartSpec::for_kind(kind);
    d.set(&fields, "restart", &mut spec.restart, |d, p, n| d.restart(kind, no_group, p, n));
    d.set(&fields, "readiness", &mut spec.readiness, |d, p, n| {
        let readiness = d.readiness(p, n)?;
        if is_container && matches!(readiness, Readiness::Descriptor(_)) {
            // Between Kelson and the container stand containerd and its shim.
            d.wrong(p, n.at, "no descriptor reaches into a container; write readiness: notify");
            return None;
        }
        Some(readiness)
    });
    d.set(&fields, "startTimeout", &mut spec.start_timeout, |d, p, n| d.start_timeout(p, n));
    d.set(&fields, "health", &mut spec.health, |d, p, n| d.health(CheckOf::Service, p, n));
    d.set(&fields, "hooks", &mut spec.hooks, |d, p, n| d.hooks(is_container, p, n));
    let mut signal_is_named = false;
    d.set(&fields, "stop", &mut spec.stop, |d, p, n| d.stop(p, n, &mut signal_is_named));
    if is_container {
        // Who that is stands in the image.
        let user = d.read(&fields, "user", |d, p, n| d.container_user(p, n));
        if let Workload::Container(container) = &mut spec.workload {
            container.user = user;
            container.stop_signal_of_image = !signal_is_named;
        }
    } else {
        d.set(&fields, "user", &mut spec.user, |d, p, n| d.user(p, n).map(Some));
    }
    d.set(&fields, "resources", &mut spec.resources, |d, p, n| d.resources(p, n));
    d.set(&fields, "delegate", &mut spec.delegate, |d, p, n| d.boolean(p, n));
    d.set(&fields, "limits", &mut spec.limits, |d, p, n| d.limits(p, n));
    let held = if is_container { CONTAINER_CAPABILITIES } else { ALL_CAPABILITIES };
    d.set(&fields, "security", &mut spec.security, |d, p, n| d.security(held, p, n));
    if spec.delegate && spec.security.read_only_root && !is_container {
        let text = "readOnlyRoot makes /sys/fs/cgroup read-only for a process, so that it cannot use the cgroups that \
                    delegate gives it; leave one of the two out";
        d.wrong(&Place::Key(&place, "delegate"), fields.position("delegate"), text);
    }
    d.set(&fields, "api", &mut spec.api, |d, p, n| {
        d.choice(p, n, &ApiAccess::ALL.map(|one| (one.name(), one)))
    });
    d.set(&fields, "logs", &mut spec.logs, |d, p, n| d.logs(p, n));
    let workload = fields.position(if is_container { "container" } else { "process" });
    usable.then_some(Decoded { spec, references, by_group: 0, workload })
}

impl Decoder<'_> {
    fn own_name(&mut self, stem: &str, place: &Place<'_>, node: &Node) -> Option<()> {
        if self.file_name(stem, place, node)? && RESERVED.contains(&stem) {
            self.wrong(
                place,
                node.at,
                format_args!("{stem} is the name of a part of Kelson; choose another"),
            );
        }
        Some(())
    }

    /// Environment files first, then `environment`; later entries win.
    pub(super) fn environments(&mut self, fields: &Fields<'_, '_>, environment: &mut Vec<(String, String)>) {
        let files = self.read(fields, "environmentFiles", |d, p, n| {
            d.list(p, n, "a list of paths", |d, p, n| d.environment_file(p, n))
        });
        let own = self.read(fields, "environment", |d, p, n| d.environment(p, n));
        let all = files.into_iter().flatten().flatten().chain(own.into_iter().flatten());
        *environment = environment::unique(all);
    }

    pub(super) fn environment(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<(String, String)>> {
        let mut list = Vec::new();
        for (name, entry) in self.entries(place, node)? {
            let inner = Place::Key(place, name);
            if let Some(message) = environment::name_mistake(name) {
                self.wrong(place, entry.key.at, message);
            } else if matches!(entry.value.value, Value::Null) {
                self.wrong(&inner, entry.value.at, "this key has no value; write \"\" for an empty one");
            } else if let Some(value) = self.text(&inner, &entry.value) {
                list.push((name.to_owned(), value));
            }
        }
        Some(list)
    }

    /// Reads a file of `KEY=VALUE` lines; with `-` before the path it may be missing.
    fn environment_file(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<(String, String)>> {
        let text = self.text(place, node)?;
        let (optional, path) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        if !path.starts_with('/') {
            let text = format!("{} is not a path from the root; write it with / first", quoted(path));
            self.wrong(place, node.at, text);
            return None;
        }
        let path = Path::new(path);
        let Some(located) = self.context.locate(path, Unchecked::EnvironmentFiles) else {
            return Some(Vec::new());
        };
        let content = match read::utf8(&located, MAX_FILE) {
            Ok(content) => content,
            Err(ReadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                if !optional {
                    let path = shown(&path.to_string_lossy());
                    let text =
                        format!("{path} does not exist; create it, or write -{path} if it may be missing");
                    self.wrong(place, node.at, text);
                }
                return None;
            }
            Err(ReadError::NotUtf8 { line, column, byte }) => {
                self.elsewhere(path, line, column, ReadError::NotUtf8 { line, column, byte }.to_string());
                return None;
            }
            Err(error) => {
                self.wrong(place, node.at, format_args!("{}: {error}", shown(&path.to_string_lossy())));
                return None;
            }
        };
        let (entries, mistakes) = environment::parse(&content);
        for mistake in mistakes {
            self.elsewhere(path, mistake.line, mistake.column, mistake.message);
        }
        Some(entries)
    }

    /// Notes a mistake in another file that makes this service faulty.
    fn elsewhere(&mut self, file: &Path, line: u32, column: u32, message: String) {
        let (file, service) = (file.to_owned(), self.service.map(str::to_owned));
        self.diagnostics.push(Diagnostic { file, line, column, service, message });
    }

    /// `no_group`: why `scope: group` cannot be, where it cannot.
    pub(super) fn restart(
        &mut self,
        kind: ServiceKind,
        no_group: Option<&str>,
        place: &Place<'_>,
        node: &Node,
    ) -> Option<RestartSpec> {
        let keys = ["policy", "delay", "maxDelay", "attempts", "interval", "exhausted", "scope"];
        let fields = self.fields(place, node, &keys)?;
        let mut restart = RestartSpec::for_kind(kind);
        let policies = [
            ("once", RestartPolicy::Once),
            ("untilSuccess", RestartPolicy::UntilSuccess),
            ("forever", RestartPolicy::Forever),
            // The words of systemd, docker and Kubernetes.
            ("no", RestartPolicy::Once),
            ("on-failure", RestartPolicy::UntilSuccess),
            ("always", RestartPolicy::Forever),
        ];
        self.set(&fields, "policy", &mut restart.policy, |d, p, n| {
            let policy = d.choice(p, n, &policies)?;
            if kind == ServiceKind::Oneshot && policy == RestartPolicy::Forever {
                d.wrong(p, n.at, "a oneshot cannot run forever; write once or untilSuccess");
                return None;
            }
            Some(policy)
        });
        self.restart_times(&fields, &mut restart);
        let scopes = [("service", RestartScope::Service), ("group", RestartScope::Group)];
        self.set(&fields, "scope", &mut restart.scope, |d, p, n| {
            let scope = d.choice(p, n, &scopes)?;
            if let (RestartScope::Group, Some(text)) = (scope, no_group) {
                d.wrong(p, n.at, text);
                return None;
            }
            Some(scope)
        });
        Some(restart)
    }

    /// The pauses and the budget of restarts, of a service or of a group.
    pub(super) fn restart_times(&mut self, fields: &Fields<'_, '_>, restart: &mut RestartSpec) {
        self.set(fields, "delay", &mut restart.delay, |d, p, n| d.duration(p, n, Duration::ZERO));
        let longest = self.read(fields, "maxDelay", |d, p, n| d.duration(p, n, Duration::ZERO));
        match (longest, fields.get("maxDelay")) {
            (Some(longest), Some(value)) if longest < restart.delay && fields.has("delay") => {
                self.wrong(&Place::Key(fields.place, "maxDelay"), value.at, "maxDelay is less than delay");
            }
            // The default of the one gives way to what is written for the other.
            (Some(longest), _) => {
                restart.max_delay = longest;
                restart.delay = restart.delay.min(longest);
            }
            (None, _) => restart.max_delay = restart.max_delay.max(restart.delay),
        }
        self.set(fields, "attempts", &mut restart.attempts, |d, p, n| d.number(p, n, 0..=MOST_ATTEMPTS));
        self.set(fields, "interval", &mut restart.interval, |d, p, n| d.duration(p, n, SHORTEST));
        let ends = [("fail", Exhausted::Fail), ("delay", Exhausted::Delay)];
        self.set(fields, "exhausted", &mut restart.exhausted, |d, p, n| d.choice(p, n, &ends));
    }

    fn readiness(&mut self, place: &Place<'_>, node: &Node) -> Option<Readiness> {
        match &node.value {
            Value::Mapping(_) => {
                let fields = self.fields(place, node, &["fd"])?;
                let number = self.require(&fields, "fd", "fd: 3", |d, p, n| {
                    let low =
                        matches!(&n.value, Value::Scalar(text) if matches!(text.as_str(), "0" | "1" | "2"));
                    if low {
                        d.wrong(p, n.at, "descriptors 0 to 2 are input and output; write a number from 3 on");
                        return None;
                    }
                    d.number(p, n, 3..=u64::from(HIGHEST_DESCRIPTOR.unsigned_abs()))
                })?;
                i32::try_from(number).ok().map(Readiness::Descriptor)
            }
            Value::Scalar(_) => {
                self.choice(place, node, &[("none", Readiness::None), ("notify", Readiness::Notify)])
            }
            _ => {
                let text = format!("found {} where none, notify or {{fd: NUMBER}} belongs", found(node));
                self.wrong(place, node.at, text);
                None
            }
        }
    }

    pub(super) fn start_timeout(&mut self, place: &Place<'_>, node: &Node) -> Option<Duration> {
        let zero = "is no time to start in; write none to wait for as long as it takes";
        self.time_limit(place, node, &[("none", NEVER)], zero)
    }

    /// A limit of time: a duration that is not zero, or one of the words. `zero`: what is wrong with that.
    fn time_limit(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        words: &[(&str, Duration)],
        zero: &str,
    ) -> Option<Duration> {
        if let Value::Scalar(text) = &node.value {
            if let Some((_, time)) = words.iter().find(|(word, _)| word == text) {
                return Some(*time);
            }
            if units::duration(text) == Some(Duration::ZERO) {
                self.wrong(place, node.at, format_args!("{} {zero}", shown(text)));
                return None;
            }
        }
        self.duration(place, node, SHORTEST)
    }

    /// `named`: whether a signal is written at all.
    pub(super) fn stop(&mut self, place: &Place<'_>, node: &Node, named: &mut bool) -> Option<StopSpec> {
        let fields = self.fields(place, node, &["signal", "timeout", "delay"])?;
        *named = fields.has("signal");
        let mut stop = StopSpec::default();
        self.set(&fields, "signal", &mut stop.signal, |d, p, n| d.signal(p, n));
        self.set(&fields, "timeout", &mut stop.timeout, |d, p, n| {
            let zero =
                "may mean either; write now to kill it at once, or none to wait for as long as it takes";
            d.time_limit(p, n, &[("now", Duration::ZERO), ("none", NEVER)], zero)
        });
        self.set(&fields, "delay", &mut stop.delay, |d, p, n| d.duration(p, n, Duration::ZERO));
        Some(stop)
    }

    fn signal(&mut self, place: &Place<'_>, node: &Node) -> Option<i32> {
        let text = self.word(place, node)?;
        match kelson_spec::kernel::parse_signal(&text) {
            Ok(number) => Some(number),
            Err(complaint) => {
                self.wrong(place, node.at, complaint);
                None
            }
        }
    }

    fn user(&mut self, place: &Place<'_>, node: &Node) -> Option<Credentials> {
        let text = self.word(place, node)?;
        let resolved = match self.context.accounts() {
            None => self.context.unresolved(&text),
            Some(Ok(accounts)) => accounts.resolve(&text),
            Some(Err((file, error))) => {
                Err(format!("{} cannot be looked up: {file}: {error}", quoted(&text)))
            }
        };
        resolved.map_err(|message| self.wrong(place, node.at, message)).ok()
    }

    pub(super) fn logs(&mut self, place: &Place<'_>, node: &Node) -> Option<LogSpec> {
        let fields = self.fields(place, node, &["maxSize", "maxFiles", "rateLimit", "console"])?;
        let mut logs = LogSpec::default();
        self.set(&fields, "maxSize", &mut logs.max_size, |d, p, n| d.size(p, n, 4096));
        self.set(&fields, "maxFiles", &mut logs.max_files, |d, p, n| d.number(p, n, 1..=100));
        self.set(&fields, "rateLimit", &mut logs.rate_limit, |d, p, n| d.number(p, n, 1..=10_000).map(Some));
        self.set(&fields, "console", &mut logs.console, |d, p, n| d.boolean(p, n));
        Some(logs)
    }
}

/// The name that a file of this stem gives a service, if it may be one.
pub fn service_name(stem: &str) -> Option<&str> {
    (scalar::is_name(stem) && !RESERVED.contains(&stem)).then_some(stem)
}
