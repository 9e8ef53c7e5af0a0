//! `stop`: stop services, with those that need them where that is wanted.

use super::Call;
use super::acting::{Action, Staying, act};
use crate::failure::Failure;

/// Stop services; refused while others that run need them
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  kelsonctl stop web
  kelsonctl stop db --cascade --wait")]
pub struct Arguments {
    /// The services
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Stop first what needs them
    #[arg(short, long)]
    cascade: bool,
    #[command(flatten)]
    staying: Staying,
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let action = Action::Stop { cascade: arguments.cascade };
    act(call, action, arguments.names, arguments.staying).await
}
