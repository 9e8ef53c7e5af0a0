//! `restart`: stop and start services at once.

use super::Call;
use super::acting::{Action, Manner, Staying, act};
use crate::failure::Failure;

/// Stop services and start them again at once
///
/// It is not counted as a failure. Changes of the service's file are taken up.
/// If the file has a mistake, the version that was read before is used, and the
/// exit status is 1.
#[derive(Debug, Clone, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kelsonctl restart web
  kelsonctl restart db web --wait"
)]
pub struct Arguments {
    /// The services
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    staying: Staying,
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    act(call, Action::Restart, arguments.names, arguments.staying, Manner::default()).await
}
