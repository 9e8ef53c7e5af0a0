//! `confirm`: the configuration on trial stays.

use kelson_proto::v1::ConfirmRequest;

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Page, object};

/// Keep a configuration that was applied with --auto-rollback
///
/// Examples:
///   kelsonctl confirm
///   kelsonctl confirm 7
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The generation to keep [default: the one that waits]
    #[arg(value_name = "N")]
    generation: Option<u64>,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let request = ConfirmRequest { generation: self.generation };
        let kept = answer(call.client()?.configuration().confirm(request)).await?.generation;
        let line = || Page::Lines(format!("generation {kept} is confirmed\n"));
        call.show(&object!(generation: kept), line)
    }
}
