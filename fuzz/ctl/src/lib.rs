//! The files of `kelsonctl` as a library: `kelsonctl` itself is a program, which has none.
#![allow(dead_code, reason = "what else is in these files is for kelsonctl")]

#[path = "../../../ctl/src/cli.rs"]
pub mod cli;
#[path = "../../../ctl/src/commands/mod.rs"]
mod commands;
#[path = "../../../ctl/src/completion.rs"]
mod completion;
#[path = "../../../ctl/src/console/mod.rs"]
mod console;
#[path = "../../../ctl/src/contexts/mod.rs"]
mod contexts;
#[path = "../../../ctl/src/dashboard/mod.rs"]
mod dashboard;
#[path = "../../../ctl/src/extract/mod.rs"]
mod extract;
#[path = "../../../ctl/src/failure.rs"]
mod failure;
#[path = "../../../ctl/src/follow.rs"]
mod follow;
#[path = "../../../ctl/src/man.rs"]
mod man;
#[path = "../../../ctl/src/nodes.rs"]
mod nodes;
#[path = "../../../ctl/src/output/mod.rs"]
mod output;
#[path = "../../../ctl/src/pki/mod.rs"]
mod pki;
#[path = "../../../ctl/src/store.rs"]
mod store;
#[path = "../../../ctl/src/support/mod.rs"]
mod support;
#[path = "../../../ctl/src/watch.rs"]
mod watch;

pub use commands::{Call, run};
pub use contexts::Choice;
pub use output::Format;
pub use output::style::Palette;
pub use output::terminal::Terminal;
