//! `stop`: stop services, with those that need them where that is wanted.

use std::time::Duration;

use super::acting::{Action, Manner, Staying, act};
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::time;

/// Stop services; refused while running services need them
///
/// A stop that ends the access of its caller over the network, because it also
/// stops apid, needs --force. On a terminal kelsonctl asks instead.
///
/// Examples:
///   kelsonctl stop web
///   kelsonctl stop db --cascade --wait
///   kelsonctl stop web --for 10m
///   kelsonctl stop web --force
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The services
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// First stop the services that need them
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

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let action = Action::Stop { cascade: self.cascade };
        let manner = Manner { force: self.force, stop_for: self.time, ..Manner::default() };
        act(call, action, self.names, self.staying, manner).await
    }
}
