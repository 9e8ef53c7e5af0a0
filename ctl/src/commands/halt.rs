//! `halt`: stop everything in order and halt the host.

use kelson_proto::v1::shutdown_request::Action;

use super::ending::{Ending, end};
use crate::call::{Call, Run};
use crate::failure::Failure;

/// Stop everything in order and halt the host
///
/// Shows what stops, in its order, until the connection ends.
/// On a terminal it asks first if the host is reached over the network.
///
/// Examples:
///   kelsonctl halt
///   kelsonctl halt --no-wait --reason 'move to rack 4'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    ending: Ending,
}

impl Run for Arguments {
    fn confirmed(&self) -> Option<&'static str> {
        self.ending.question("Halt")
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        end(call, Action::Halt, self.ending).await
    }
}
