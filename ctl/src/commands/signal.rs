//! `signal`: send a signal to the main process of a service.

use kelson_proto::v1::SignalRequest;
use kelson_spec::signal_name;

use crate::call::{Call, Run};
use crate::failure::{Failure, answer_about};
use crate::output::{Page, object};

/// Send a signal to the main process of a service
///
/// PID 1 sends it through a pidfd, so that no other process can be hit. It is no
/// stop: if the process ends, its restart policy decides.
///
/// Examples:
///   kelsonctl signal web HUP
///   kelsonctl signal db SIGUSR1
///   kelsonctl signal db 10
#[derive(Debug, Clone, clap::Args)]
#[command(visible_alias = "kill", verbatim_doc_comment)]
pub struct Arguments {
    /// The service
    #[arg(value_name = "NAME")]
    name: String,
    /// The signal: SIGHUP, HUP or 1
    #[arg(value_name = "SIG", value_parser = kelson_spec::parse_signal)]
    signal: i32,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let Arguments { name, signal } = self;
        let request = SignalRequest { name: name.clone(), signal };
        let pid =
            answer_about(&client, std::slice::from_ref(&name), client.services().signal(request)).await?.pid;
        let line = format!("{name}: {} sent to PID {pid}\n", signal_name(signal));
        call.show(&object!(name: name, signal: signal_name(signal), pid: pid), || Page::Lines(line))
    }
}
