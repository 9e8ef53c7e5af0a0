//! `start`: start services that are down.

use super::Call;
use super::acting::{Action, Staying, act};
use crate::failure::Failure;

/// Start services that are down
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  kelsonctl start db
  kelsonctl start db web --wait --timeout 30s")]
pub struct Arguments {
    /// The services
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    staying: Staying,
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    act(call, Action::Start, arguments.names, arguments.staying).await
}
