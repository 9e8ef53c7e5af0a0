//! `start`: start services that are down.

use super::acting::{Action, Manner, Staying, act};
use crate::call::{Call, Run};
use crate::failure::Failure;

/// Start services that are down
///
/// If one of them waits for a service that nobody will start, the exit status
/// is 1, and a line names the remedy.
///
/// Examples:
///   kelsonctl start db
///   kelsonctl start db web --wait --timeout 30s
///   kelsonctl start web --with-dependencies
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The services
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// First start the services they need that are down
    #[arg(short = 'd', long)]
    with_dependencies: bool,
    #[command(flatten)]
    staying: Staying,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let action = Action::Start { with_dependencies: self.with_dependencies };
        act(call, action, self.names, self.staying, Manner::default()).await
    }
}
