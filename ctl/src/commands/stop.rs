//! `stop`: stop services, with those that need them where that is wanted.

use std::time::Duration;

use super::Call;
use super::acting::{Action, Manner, Staying, act};
use crate::failure::Failure;
use crate::output::time;

/// Stop services; refused while others that run need them
///
/// A stop that ends the access of its caller over the network, because it also
/// stops apid, needs --force. On a terminal kelsonctl asks instead.
#[derive(Debug, Clone, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kelsonctl stop web
  kelsonctl stop db --cascade --wait
  kelsonctl stop web --for 10m
  kelsonctl stop web --force"
)]
pub struct Arguments {
    /// The services
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Stop first what needs them
    #[arg(short, long)]
    cascade: bool,
    /// Start them again after this time, such as 1h
    #[arg(long = "for", value_name = "D", value_parser = time::parse_timeout)]
    time: Option<Duration>,
    /// Kill them at once, or stop apid over the network
    ///
    /// Also those that are stopping already. apid is stopped as usual then.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    staying: Staying,
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let action = Action::Stop { cascade: arguments.cascade };
    let manner = Manner { force: arguments.force, stop_for: arguments.time, ..Manner::default() };
    act(call, action, arguments.names, arguments.staying, manner).await
}
