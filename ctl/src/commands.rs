//! The commands, one file each. A command asks the host and hands the answer to [`crate::output`].
//!
//! A new one is a file with its `Arguments`, which implement [`Run`], and its name in the list below.

pub mod acting;
pub mod apply;
mod awaiting;
pub mod boot;
pub mod cat;
pub mod cgroups;
pub mod clock;
pub mod complete;
pub mod completion;
pub mod config;
pub mod confirm;
pub mod cp;
pub mod cpu;
pub mod dashboard;
pub mod diff;
pub mod disk;
pub mod disks;
pub mod dmesg;
pub mod edit;
mod ending;
pub mod events;
pub mod exec;
pub mod explain;
pub mod facts;
#[cfg(feature = "faults")]
pub mod fault;
pub mod fleet;
pub mod generate;
pub mod get;
pub mod graph;
pub mod halt;
pub mod health;
pub mod history;
pub mod images;
pub mod import;
mod last_lines;
pub mod logs;
pub mod looking;
pub mod ls;
pub mod man;
pub mod memory;
pub mod metrics;
pub mod mounts;
pub mod netstat;
pub mod network;
mod newer_secrets;
pub mod poweroff;
pub mod processes;
pub mod question;
pub mod read;
pub mod reboot;
pub mod reexec;
pub mod registry;
pub mod reload;
pub mod restart;
pub mod resumed;
pub mod rollback;
pub mod schema;
pub mod secret;
pub mod services;
pub mod signal;
pub mod start;
pub mod status;
pub mod stop;
pub mod support;
pub mod timers;
pub mod validate;
pub mod version;
pub mod volumes;
pub mod wait;
pub mod whoami;
pub mod why;

use clap::Subcommand;

use crate::call::{Call, Run as _};
use crate::failure::Failure;

/// Makes one type of the commands, in the order in which the help tells them.
macro_rules! commands {
    ($($(#[$only:meta])? $name:ident: $file:ident,)*) => {
        /// One of these is done.
        #[derive(Debug, Clone, Subcommand)]
        pub enum Command {
            $($(#[$only])? $name($file::Arguments),)*
        }

        impl Command {
            /// True where several hosts can be asked at once and their answers shown side by side.
            pub fn several(&self) -> bool {
                match self { $($(#[$only])? Command::$name(arguments) => arguments.several(),)* }
            }

            /// The verb of the question that is asked first.
            pub fn confirmed(&self) -> Option<&'static str> {
                match self { $($(#[$only])? Command::$name(arguments) => arguments.confirmed(),)* }
            }

            /// Does what the command says.
            pub async fn run(self, call: &Call) -> Result<(), Failure> {
                match self { $($(#[$only])? Command::$name(arguments) => arguments.run(call).await,)* }
            }
        }
    };
}

commands! {
    Services: services,
    Status: status,
    Start: start,
    Stop: stop,
    Restart: restart,
    Reload: reload,
    Apply: apply,
    Confirm: confirm,
    Rollback: rollback,
    History: history,
    Diff: diff,
    Edit: edit,
    Get: get,
    Signal: signal,
    Wait: wait,
    Timers: timers,
    Volumes: volumes,
    Registry: registry,
    Fleet: fleet,
    Health: health,
    Why: why,
    Graph: graph,
    Dashboard: dashboard,
    Events: events,
    Exec: exec,
    Logs: logs,
    Metrics: metrics,
    Dmesg: dmesg,
    Boot: boot,
    Images: images,
    Processes: processes,
    Netstat: netstat,
    Network: network,
    Mounts: mounts,
    Memory: memory,
    Cpu: cpu,
    Disks: disks,
    Disk: disk,
    Facts: facts,
    Secret: secret,
    Cgroups: cgroups,
    Time: clock,
    Ls: ls,
    Read: read,
    Cat: cat,
    Cp: cp,
    Support: support,
    Reboot: reboot,
    Poweroff: poweroff,
    Halt: halt,
    Reexec: reexec,
    Resumed: resumed,
    Validate: validate,
    Schema: schema,
    Explain: explain,
    Import: import,
    Gen: generate,
    Config: config,
    Version: version,
    Whoami: whoami,
    Completion: completion,
    #[cfg(feature = "faults")]
    Fault: fault,
    Complete: complete,
    Man: man,
}
