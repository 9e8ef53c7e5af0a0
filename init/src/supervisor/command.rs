//! The command of `init -- COMMAND`: the main service of a container, made without a file.
//!
//! It is run as tini would run it: as PID 1's user, with its environment and its working directory, and not confined
//! beyond what the engine of the container has done. It starts once all other services that the boot starts are up, and
//! stops before them.

use kelson_sys::ordered;
use std::path::Path;
use std::sync::Arc;

use kelson_spec::applied::FOLDER;
use kelson_spec::builtin::is_reserved;
use kelson_spec::names::is_name;
use kelson_spec::service::{
    ProcessSpec, Requirement, RestartPolicy, Seccomp, Security, ServiceEvent, StartMode, Stdout, Workload,
};
use kelson_spec::{Diagnostic, Loaded, ServiceSpec};

use super::incarnation::Incarnation;
use super::launchers::{self, Personalities};
use crate::{crash, reexec};

/// The name of a command whose program has none that a service may have.
const NAME: &str = "main";
/// What stands for its file in messages.
const FILE: &str = "command line of init";

impl Incarnation {
    /// Reads the configuration for a host that boots, or has lost it, and adds the command. A command needs no
    /// configuration.
    pub(super) async fn load(&self, personalities: &Personalities, boots: bool) -> Loaded {
        let options = &self.options;
        let exists = |folder: &Path| !matches!(folder.try_exists(), Ok(false));
        let loads =
            options.command.is_empty() || exists(&options.config) || exists(&options.state_dir.join(FOLDER));
        let mut loaded = match loads {
            true => personalities.load(options, boots).await,
            false => launchers::defaults(options),
        };
        if !options.command.is_empty() {
            let (environment, left_out) = inherited(std::env::vars_os());
            for name in left_out {
                tracing::warn!("the variable {name} is not handed on: it is not UTF-8");
            }
            let folder = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
            let process = ProcessSpec {
                command: options.command.clone(),
                working_directory: folder,
                ..ProcessSpec::default()
            };
            let mut command = spec(process, environment, &loaded.services);
            // As without Kelson, unless the machine file says how.
            command.logs.stdout = (loaded.machine.stdout == Stdout::Nothing).then_some(Stdout::Copy);
            add(&mut loaded, command);
        }
        loaded
    }
}

/// The command stays as it is when the files are read again.
pub(super) fn keep(read: &mut Loaded, command: Option<Arc<ServiceSpec>>) {
    if let Some(command) = command {
        add(read, Arc::unwrap_or_clone(command));
    }
}

fn spec(process: ProcessSpec, environment: Vec<(String, String)>, services: &[ServiceSpec]) -> ServiceSpec {
    let program = process.command.first().map(String::as_str).unwrap_or_default();
    let mut spec = ServiceSpec::process(&name(program), [""]);
    spec.description = "the command of init".to_owned();
    spec.file = FILE.into();
    spec.workload = Workload::Process(process);
    spec.environment = environment;
    spec.restart.policy = RestartPolicy::Once;
    spec.security =
        Security { no_new_privileges: false, seccomp: Seccomp::Unconfined, ..Security::default() };
    let is_before = |service: &&ServiceSpec| {
        let starts = service.required && service.start == StartMode::Auto && service.lifecycle.hook.is_none();
        starts && service.name != spec.name
    };
    let before = services.iter().filter(is_before);
    spec.depends =
        before.map(|service| Requirement::service(service.name.clone(), ServiceEvent::Up)).collect();
    spec
}

/// The name of the service, by that of its program.
fn name(program: &str) -> String {
    let file = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name: String =
        file.chars().map(|c| c.to_ascii_lowercase()).map(|c| if is_sound(c) { c } else { '-' }).collect();
    let name = name.trim_matches('-');
    if is_name(name) && !is_reserved(name) { name.to_owned() } else { NAME.to_owned() }
}

/// The variables of PID 1's environment that are the command's too, and the names of those that cannot be.
fn inherited(
    variables: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> (Vec<(String, String)>, Vec<String>) {
    let (mut environment, mut left_out) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        let name = name.to_string_lossy().into_owned();
        match value.into_string() {
            _ if reexec::VARIABLES.contains(&&*name) || name == crash::VARIABLE => {}
            Ok(value) if !name.contains('\u{fffd}') => environment.push((name, value)),
            _ => left_out.push(name),
        }
    }
    (environment, left_out)
}

/// Adds the command as the main service, in place of one of the same name and of the machine file's.
fn add(loaded: &mut Loaded, command: ServiceSpec) {
    loaded.machine.main = Some(command.name.clone());
    loaded.services.retain(|spec| spec.name != command.name);
    // The mistakes of such a file are no longer those of a service.
    let of_command = |found: &&mut Diagnostic| found.service.as_deref() == Some(&*command.name);
    loaded.diagnostics.iter_mut().filter(of_command).for_each(|found| found.service = None);
    loaded.refused.retain(|refused| refused.name != command.name);
    loaded.services.push(command);
    ordered::sort_by(&mut loaded.services, |one, other| one.name.cmp(&other.name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_named_for_its_program() {
        assert_eq!(name("nginx"), "nginx");
        assert_eq!(name("/usr/sbin/php-fpm8.2"), "php-fpm8-2");
        assert_eq!(name("/docker-entrypoint.SH"), "docker-entrypoint-sh");
        for program in ["", "/", "...", "logd", "containerd", &"x".repeat(64)] {
            assert_eq!(name(program), "main", "{program}");
        }
    }

    #[test]
    fn a_command_inherits_what_is_not_of_kelson() {
        let variables =
            [("A", "1"), ("KELSON_CRASHES", "5"), ("KELSON_STARTED", "9"), ("KELSON_ENDPOINT", "x")];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let (environment, left_out) = inherited(variables.into_iter());
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(environment, [pair("A", "1"), pair("KELSON_ENDPOINT", "x")]);
        assert!(left_out.is_empty());
        use std::os::unix::ffi::OsStringExt as _;
        let odd = std::ffi::OsString::from_vec(vec![0xff]);
        let (environment, left_out) = inherited([("B".into(), odd)].into_iter());
        assert!(environment.is_empty());
        assert_eq!(left_out, ["B"]);
    }

    #[test]
    fn a_command_is_the_main_service_and_waits_for_the_others() {
        let mut loaded = Loaded::default();
        let mut manual = ServiceSpec::process("manual", ["x"]);
        manual.start = StartMode::Manual;
        loaded.services =
            vec![ServiceSpec::process("db", ["db"]), manual, ServiceSpec::process("web", ["file"])];
        let process = ProcessSpec { command: vec!["web".into(), "-v".into()], ..ProcessSpec::default() };
        let command = spec(process.clone(), Vec::new(), &loaded.services);
        add(&mut loaded, command);
        assert_eq!(loaded.machine.main.as_deref(), Some("web"));
        let names: Vec<&str> = loaded.services.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["db", "manual", "web"]);
        let web = loaded.services.last().unwrap();
        assert_eq!(web.workload, Workload::Process(process));
        assert_eq!(web.depends, [Requirement::service("db", ServiceEvent::Up)]);
    }
}
