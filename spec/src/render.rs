//! A service's spec as the text of a service file, as `kelsonctl status` shows it.
//!
//! Only what differs from the default is written. What was resolved stays resolved: the environment holds what the environment
//! files said, secrets too, and the user's group stands beside its name. Read again, the text gives the same spec.

mod checks;
mod workload;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::kernel;
use crate::service::{
    Exhausted, Hook, Hooks, Lifecycle, LifecycleHook, NetworkAspect, Readiness, Requirement, RestartPolicy,
    RestartScope, RestartSpec, Seccomp, Security, ServiceEvent, ServiceKind, ServiceSpec, StartMode,
    StopSpec, WhenDown, Workload,
};
use crate::units::{cpus_text, duration_text, limit_text, size_text};

/// Renders `spec`; ends with a line break.
pub fn render(spec: &ServiceSpec) -> String {
    let mut out = Block::default();
    let default = ServiceSpec::process(&spec.name, ["/"]);
    out.line("name", &scalar(&spec.name));
    if !spec.description.is_empty() {
        out.line("description", &scalar(&spec.description));
    }
    workload::workload(&mut out, &spec.workload);
    if !spec.environment.is_empty() {
        out.open("environment");
        for (name, value) in &spec.environment {
            out.line(name, &scalar(value));
        }
        out.close();
    }
    if spec.kind == ServiceKind::Oneshot {
        out.line("type", "oneshot");
    }
    if spec.start == StartMode::Manual {
        out.line("start", "manual");
    }
    requirements(&mut out, "when", &spec.when);
    requirements(&mut out, "depends", &spec.depends);
    out.flow("restart", restart(&spec.restart, &RestartSpec::for_kind(spec.kind)));
    if let Some(group) = &spec.group {
        out.line("group", &scalar(group));
    }
    out.flow("lifecycle", lifecycle(&spec.lifecycle));
    if !spec.required {
        out.line("required", "false");
    }
    match spec.readiness {
        Readiness::None => {}
        Readiness::Notify => out.line("readiness", "notify"),
        Readiness::Descriptor(fd) => out.line("readiness", &format!("{{fd: {fd}}}")),
    }
    if spec.start_timeout != default.start_timeout {
        out.line("startTimeout", &limit_text(spec.start_timeout));
    }
    if !spec.health.is_empty() {
        out.items("health", spec.health.iter().map(checks::check));
    }
    hooks(&mut out, &spec.hooks);
    let container = match &spec.workload {
        Workload::Process(_) => None,
        Workload::Container(container) => Some(container),
    };
    // What an image says of the signal counts only where the file is silent.
    let signal = container.map_or(spec.stop.signal != default.stop.signal, |c| !c.stop_signal_of_image);
    out.flow("stop", stop(&spec.stop, signal));
    if let Some(user) = &spec.user {
        out.line("user", &scalar(&format!("{}:{}", user.name, user.gid)));
    }
    if let Some(user) = container.and_then(|container| container.user.as_deref()) {
        out.line("user", &scalar(user));
    }
    out.flow("resources", resources(&spec.resources));
    if spec.delegate {
        out.line("delegate", "true");
    }
    let limits = spec.limits.iter().filter_map(|limit| {
        let name = kernel::LIMITS.iter().find(|(_, number)| *number == limit.resource)?.0;
        let value = |value: u64| if value == u64::MAX { "unlimited".to_owned() } else { value.to_string() };
        let text = if limit.soft == limit.hard {
            value(limit.soft)
        } else {
            format!("{{soft: {}, hard: {}}}", value(limit.soft), value(limit.hard))
        };
        Some((name, text))
    });
    out.flow("limits", limits.collect());
    let held = match container {
        Some(_) => kernel::CONTAINER_CAPABILITIES,
        None => kernel::ALL_CAPABILITIES,
    };
    out.flow("security", security(&spec.security, held));
    if spec.api != default.api {
        out.line("api", spec.api.name());
    }
    let mut logs = Vec::new();
    if spec.logs.max_size != default.logs.max_size {
        logs.push(("maxSize", size_text(spec.logs.max_size)));
    }
    if spec.logs.max_files != default.logs.max_files {
        logs.push(("maxFiles", spec.logs.max_files.to_string()));
    }
    if let Some(limit) = spec.logs.rate_limit {
        logs.push(("rateLimit", limit.to_string()));
    }
    if spec.logs.console {
        logs.push(("console", "true".to_owned()));
    }
    out.flow("logs", logs);
    out.text
}

/// Lines of a block mapping, indented as deep as blocks are open.
#[derive(Default)]
struct Block {
    text: String,
    depth: usize,
}

impl Block {
    // Writing into a String does not fail, here and below.
    fn line(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.text, "{:indent$}{key}: {value}", "", indent = self.depth.saturating_mul(2));
    }

    fn open(&mut self, key: &str) {
        let _ = writeln!(self.text, "{:indent$}{key}:", "", indent = self.depth.saturating_mul(2));
        self.depth = self.depth.saturating_add(1);
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn items(&mut self, key: &str, items: impl Iterator<Item = String>) {
        self.open(key);
        for item in items {
            let _ = writeln!(self.text, "{:indent$}- {item}", "", indent = self.depth.saturating_mul(2));
        }
        self.close();
    }

    /// `key: {a: 1, b: 2}`, or nothing where there is nothing in it.
    fn flow(&mut self, key: &str, entries: Vec<(&str, String)>) {
        if !entries.is_empty() {
            self.line(key, &mapping(entries));
        }
    }
}

fn mapping<'k>(entries: impl IntoIterator<Item = (&'k str, String)>) -> String {
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

fn words(words: &[String]) -> String {
    list(words.iter().map(|word| scalar(word)))
}

fn path(path: &Path) -> String {
    scalar(&path.to_string_lossy())
}

/// A text bare where YAML reads it back as it is, in a list too; else in double quotes.
fn scalar(text: &str) -> String {
    let bare = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/' || c == '_')
        && !text.ends_with(' ')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b" _-./@+=%".contains(&b))
        && !matches!(text, "null" | "Null" | "NULL");
    if bare {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            // Whatever a terminal or YAML might take amiss: also the line breaks of Unicode and the byte order mark.
            letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn lifecycle(lifecycle: &Lifecycle) -> Vec<(&'static str, String)> {
    let hook = lifecycle.hook.map(|hook| match hook {
        LifecycleHook::Prestart => "prestart",
        LifecycleHook::Poststart => "poststart",
        LifecycleHook::Poststop => "poststop",
    });
    let hook = hook.map(|hook| ("hook", hook.to_owned()));
    let sidecar = lifecycle.sidecar.then(|| ("sidecar", "true".to_owned()));
    hook.into_iter().chain(sidecar).collect()
}

fn hooks(out: &mut Block, hooks: &Hooks) {
    if hooks.is_empty() {
        return;
    }
    out.open("hooks");
    let places = [
        ("pre", &hooks.pre),
        ("postStart", &hooks.post_start),
        ("preStop", &hooks.pre_stop),
        ("post", &hooks.post),
    ];
    for (place, list) in places.into_iter().filter(|(_, list)| !list.is_empty()) {
        out.items(place, list.iter().map(hook));
    }
    out.close();
}

fn hook(hook: &Hook) -> String {
    let mut entries = vec![("command", words(&hook.command))];
    duration(&mut entries, "timeout", hook.timeout, Hook::TIMEOUT);
    if hook.as_root {
        entries.push(("asRoot", "true".to_owned()));
    }
    mapping(entries)
}

fn requirements(out: &mut Block, key: &str, requirements: &[Requirement]) {
    if !requirements.is_empty() {
        out.items(key, requirements.iter().map(requirement));
    }
}

fn requirement(requirement: &Requirement) -> String {
    match requirement {
        Requirement::Service { name, event, when_down } => {
            let event = match event {
                ServiceEvent::Up => None,
                other => Some(other.name()),
            };
            let event = event.map(|event| ("event", event.to_owned()));
            let when_down = match when_down {
                WhenDown::Ignore => None,
                WhenDown::Stop => Some(("whenDown", "stop".to_owned())),
                WhenDown::Restart => Some(("whenDown", "restart".to_owned())),
            };
            mapping([("service", scalar(name))].into_iter().chain(event).chain(when_down))
        }
        Requirement::Path(wanted) => mapping([("path", path(wanted))]),
        Requirement::Network(aspects) => {
            let aspect = |aspect: &NetworkAspect| aspect.name().to_owned();
            mapping([("network", list(aspects.iter().map(aspect)))])
        }
        Requirement::TimeSynced => "{time: synced}".to_owned(),
        Requirement::Any(alternatives) => {
            mapping([("any", list(alternatives.iter().map(self::requirement)))])
        }
    }
}

fn restart(restart: &RestartSpec, default: &RestartSpec) -> Vec<(&'static str, String)> {
    let mut entries = Vec::new();
    if restart.policy != default.policy {
        let policy = match restart.policy {
            RestartPolicy::Once => "once",
            RestartPolicy::UntilSuccess => "untilSuccess",
            RestartPolicy::Forever => "forever",
        };
        entries.push(("policy", policy.to_owned()));
    }
    duration(&mut entries, "delay", restart.delay, default.delay);
    duration(&mut entries, "maxDelay", restart.max_delay, default.max_delay);
    number(&mut entries, "attempts", restart.attempts, default.attempts);
    duration(&mut entries, "interval", restart.interval, default.interval);
    if restart.exhausted == Exhausted::Delay {
        entries.push(("exhausted", "delay".to_owned()));
    }
    if restart.scope == RestartScope::Group {
        entries.push(("scope", "group".to_owned()));
    }
    entries
}

fn stop(stop: &StopSpec, signal: bool) -> Vec<(&'static str, String)> {
    let default = StopSpec::default();
    let mut entries = Vec::new();
    if signal {
        entries.push(("signal", kernel::signal_name(stop.signal)));
    }
    if stop.timeout.is_zero() {
        entries.push(("timeout", "now".to_owned()));
    } else if stop.timeout != default.timeout {
        entries.push(("timeout", limit_text(stop.timeout)));
    }
    duration(&mut entries, "delay", stop.delay, default.delay);
    entries
}

fn resources(resources: &crate::service::Resources) -> Vec<(&'static str, String)> {
    let entries = [
        ("memoryMax", resources.memory_max.map(size_text)),
        ("memoryHigh", resources.memory_high.map(size_text)),
        ("cpuMax", resources.cpu_max_millis.map(cpus_text)),
        ("cpuWeight", resources.cpu_weight.map(|weight| weight.to_string())),
        ("pidsMax", resources.pids_max.map(|pids| pids.to_string())),
    ];
    entries.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// `held`: the capabilities of a workload that is given and denied none.
fn security(security: &Security, held: u64) -> Vec<(&'static str, String)> {
    let mut entries = Vec::new();
    if !security.no_new_privileges {
        entries.push(("noNewPrivileges", "false".to_owned()));
    }
    if security.read_only_root {
        entries.push(("readOnlyRoot", "true".to_owned()));
    }
    let mask = security.capabilities.unwrap_or(held);
    let gone = held & !mask;
    let mut capabilities = Vec::new();
    if gone == held || (gone != 0 && mask == security.ambient) {
        // What `add` brings back is all there is.
        capabilities.push(("drop", "[all]".to_owned()));
    } else if gone != 0 {
        capabilities.push(("drop", capability_names(gone)));
    }
    if security.ambient != 0 {
        capabilities.push(("add", capability_names(security.ambient)));
    }
    if !capabilities.is_empty() {
        entries.push(("capabilities", mapping(capabilities)));
    }
    if security.seccomp == Seccomp::Unconfined {
        entries.push(("seccomp", "unconfined".to_owned()));
    }
    entries
}

fn capability_names(mask: u64) -> String {
    let set = |bit: usize| {
        u32::try_from(bit).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|m| m & 1 == 1)
    };
    let names = kernel::CAPABILITIES.iter().enumerate().filter(|(bit, _)| set(*bit));
    list(names.map(|(_, name)| (*name).to_owned()))
}

fn duration(
    entries: &mut Vec<(&'static str, String)>,
    key: &'static str,
    value: Duration,
    default: Duration,
) {
    if value != default {
        entries.push((key, duration_text(value)));
    }
}

fn number(entries: &mut Vec<(&'static str, String)>, key: &'static str, value: u32, default: u32) {
    if value != default {
        entries.push((key, value.to_string()));
    }
}
