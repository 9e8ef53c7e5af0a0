//! `apply`: another configuration for the host, from outside.

use std::path::PathBuf;

use crate::call::{Call, Run};
use crate::configuration::{self, Given, Manner};
use crate::failure::Failure;

/// Put a configuration in force: a folder, or one file of it
///
/// DIR is a folder like /etc/kelson: the host then has these files and no others.
/// FILE is a service, group or machine file, which takes the place of the file of
/// its name; all others stay. kelsonctl shows what differs. The host checks all
/// files: if one has a mistake, nothing changes, and the exit status is 1. Else
/// it keeps the configuration as a new generation, starts new services, stops
/// removed ones, and restarts those that run and whose files changed.
///
/// From then on the host runs by this configuration, also after a reboot, and not
/// by the files of its own /etc/kelson. Another operator who applied something
/// in the meantime is not overwritten: the host refuses, and names that operator.
/// This needs the role os:admin.
///
/// Examples:
///   kelsonctl apply --dry-run ./config
///   kelsonctl apply ./config --auto-rollback 2m && kelsonctl confirm
///   kelsonctl apply web.yaml -m 'more workers'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The folder, or a file
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    #[command(flatten)]
    manner: Manner,
    /// Refuse unless this generation is in force
    #[arg(long, value_name = "N")]
    base: Option<u64>,
}

impl Run for Arguments {
    fn confirmed(&self) -> Option<&'static str> {
        (!self.manner.dry_run).then_some("apply the configuration to")
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let given = Given::read(&self.path)?;
        let client = call.client()?;
        let now = configuration::fetch(&client, None).await?;
        let files = given.onto(&now.files);
        let mut request = self.manner.request(self.base.unwrap_or(now.generation));
        request.files.clone_from(&files);
        configuration::apply(call, &client, request, &now.files, &files, |name| given.place(name)).await
    }
}
