//! `diff`: how a configuration differs from that in force.

use std::path::PathBuf;

use crate::call::{Call, Run};
use crate::configuration::{Given, differences, fetch, text};
use crate::failure::Failure;
use crate::output::Page;

/// Show how a configuration differs from the one in force
///
/// Lines with + are those that `apply` or `rollback` would bring. This needs the
/// role os:admin.
///
/// Examples:
///   kelsonctl diff ./config
///   kelsonctl diff --generation 4
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The folder, or a file
    #[arg(value_name = "DIR|FILE", required_unless_present = "generation")]
    path: Option<PathBuf>,
    /// A generation that the host keeps
    #[arg(long, value_name = "N", conflicts_with = "path")]
    generation: Option<u64>,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let now = fetch(&client, None).await?.files;
        let new = match (&self.path, self.generation) {
            (Some(path), _) => Given::read(path)?.onto(&now),
            (None, generation) => fetch(&client, generation).await?.files,
        };
        let found = differences(&now, &new);
        call.show(&found, || Page::Text(text(&found, call.terminal.palette)))
    }
}
