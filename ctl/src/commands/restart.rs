//! `restart`: stop and start services at once.

use super::acting::{Action, Manner, Staying, act};
use crate::call::{Call, Run};
use crate::failure::Failure;

/// Stop services and start them again at once
///
/// A restart does not count as a failure. It applies changes of the service's
/// file. If the file has a mistake, Kelson uses the version that it read before,
/// and the exit status is 1.
///
/// Examples:
///   kelsonctl restart web
///   kelsonctl restart db web --wait
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The services
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    staying: Staying,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        act(call, Action::Restart, self.names, self.staying, Manner::default()).await
    }
}
