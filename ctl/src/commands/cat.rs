//! `cat`: the file of a service, as the host has it now.

use kelson_proto::v1::StatusRequest;

use super::read;
use crate::call::{Call, Run};
use crate::failure::{Failure, answer_about};

/// Print the file of a service
///
/// It prints the file on the disk, byte for byte. `kelsonctl status` shows the
/// spec that the service runs with.
///
/// Examples:
///   kelsonctl cat db
///   kelsonctl cat db > db.yaml
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The service
    #[arg(value_name = "NAME")]
    name: String,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let (client, name) = (call.client()?, self.name);
        let request = StatusRequest { name: name.clone() };
        let status =
            answer_about(&client, std::slice::from_ref(&name), client.services().status(request)).await?;
        if status.file.is_empty() {
            return Err(Failure::Failed(format!(
                "{name} is built in and has no file; `kelsonctl status {name}` shows its spec"
            )));
        }
        read::file(call, &client, status.file).await?;
        if status.service.is_some_and(|service| service.changed) {
            call.note(&format!(
                "this file changed since {name} was started; `kelsonctl status {name}` shows the spec it runs with"
            ));
        }
        Ok(())
    }
}
