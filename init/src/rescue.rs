//! A machine that starts none of its services, for an operator who repairs it: `kelson.rescue` on the kernel's command line
//! asks for it, and a machine without a root continues in its initramfs this way.
//!
//! All else of the boot is as usual, as far as it is possible: mounts, the network, the API. A shell runs on the console if
//! there is one, and the API starts single services.

use std::ffi::OsString;

use kelson_spec::Loaded;
use kelson_spec::machine::{ConsoleShow, ConsoleSpec};
use kelson_spec::names::DEFAULT_PATH;
use kelson_spec::service::StartMode;

use crate::options::{Options, Rescue};

/// Carries from one execution of PID 1 to the next why there is no root.
pub const VARIABLE: &str = "KELSON_NO_ROOT";

/// Whether an initramfs without a root has anything for an operator: a configuration of the API, or a shell.
pub fn is_possible(options: &Options) -> bool {
    let has_shell = || ConsoleShow::Shell.places(DEFAULT_PATH).any(|shell| shell.exists());
    let is_configured = || options.config.join("machine.yaml").exists();
    options.rescue.is_some() || options.api.is_some() || is_configured() || has_shell()
}

/// Keeps the reason for this execution and all later ones. Call it while there is one thread.
pub fn remember(reason: &str) {
    // SAFETY: nothing else reads or writes the environment: this is the only thread.
    unsafe { std::env::set_var(VARIABLE, reason.replace('\0', " ")) };
}

/// The variable for the next execution, if there is one.
pub fn remembered() -> Option<(&'static str, OsString)> {
    std::env::var_os(VARIABLE).map(|reason| (VARIABLE, reason))
}

/// What an earlier execution has found, else what the command line asks for.
pub fn found(asked: Option<Rescue>) -> Option<Rescue> {
    let no_root = remembered().map(|(_, reason)| Rescue::NoRoot(reason.to_string_lossy().into_owned()));
    no_root.or(asked)
}

/// Has the boot start none of the services of the files, and a shell on the console.
pub fn restrict(loaded: &mut Loaded) {
    loaded.services.iter_mut().for_each(|spec| spec.start = StartMode::Manual);
    loaded.machine.main = None;
    loaded.machine.console = Some(ConsoleSpec { show: ConsoleShow::Shell, tty: None });
}

impl Rescue {
    /// The event that reports it.
    pub fn event(&self) -> String {
        let rest = "the boot starts no service; `kelsonctl start NAME` starts one";
        match self {
            Rescue::Asked => format!("kelson.rescue: {rest}"),
            Rescue::NoRoot(reason) => {
                format!("there is no root ({reason}), so this is the initramfs: {rest}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kelson_spec::ServiceSpec;

    use super::*;

    #[test]
    fn no_service_of_the_files_starts_and_a_shell_does() {
        let services = ["db", "web"].map(|name| ServiceSpec::process(name, ["x"]));
        let mut loaded = Loaded { services: services.to_vec(), ..Loaded::default() };
        loaded.machine.main = Some("web".to_owned());
        restrict(&mut loaded);
        assert!(loaded.services.iter().all(|spec| spec.start == StartMode::Manual));
        assert_eq!(loaded.machine.main, None);
        assert_eq!(loaded.machine.console.map(|console| console.show), Some(ConsoleShow::Shell));
    }
}
