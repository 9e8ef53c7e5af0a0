//! `rollback`: an earlier configuration is in force again.

use kelson_proto::v1::{HistoryRequest, HistoryResponse};

use crate::call::{Call, Run};
use crate::configuration::{self, Manner};
use crate::failure::{Failure, answer};

/// Return to an earlier configuration
///
/// Without N to the one before. The host checks and applies it as `apply` does,
/// and keeps it as a new generation. `rollback 0` returns to the host's own files,
/// such as those in /etc/kelson. A configuration on trial is left at once.
///
/// Examples:
///   kelsonctl rollback
///   kelsonctl rollback 4 --dry-run
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The generation, as `kelsonctl history` lists it
    #[arg(value_name = "N")]
    generation: Option<u64>,
    #[command(flatten)]
    manner: Manner,
}

impl Run for Arguments {
    fn confirmed(&self) -> Option<&'static str> {
        (!self.manner.dry_run).then_some("roll back the configuration of")
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let history = answer(client.configuration().history(HistoryRequest {})).await?;
        let wanted = self.generation.map_or_else(|| before(&history), Ok)?;
        let now = configuration::fetch(&client, None).await?;
        let new = configuration::fetch(&client, Some(wanted)).await?;
        let mut request = self.manner.request(now.generation);
        request.rollback_to = Some(wanted);
        configuration::apply(call, &client, request, &now.files, &new.files, str::to_owned).await
    }
}

/// The newest one from before that in force which was not left.
fn before(history: &HistoryResponse) -> Result<u64, Failure> {
    let mut kept = history.generations.iter().skip_while(|kept| !kept.current).skip(1);
    kept.find(|kept| !kept.reverted).map(|kept| kept.number).ok_or_else(|| {
        Failure::Failed("the host runs by its own files, and there is nothing before those".to_owned())
    })
}
