//! `poweroff`: stop everything in order and power the host off.

use kelson_proto::v1::shutdown_request::Action;

use super::ending::{Ending, end};
use crate::call::{Call, Run};
use crate::failure::Failure;

/// Stop everything in order and power the host off
///
/// Shows what stops, in its order, until the connection ends.
/// On a terminal it asks first if the host is reached over the network.
///
/// Examples:
///   kelsonctl poweroff
///   kelsonctl poweroff --no-wait --reason 'move to rack 4'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    ending: Ending,
}

impl Run for Arguments {
    fn confirmed(&self) -> Option<&'static str> {
        self.ending.question("Power off")
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        end(call, Action::Poweroff, self.ending).await
    }
}
