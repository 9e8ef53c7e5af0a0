//! `reboot`: stop everything in order and reboot the host.

use kelson_proto::v1::shutdown_request::Action;

use super::ending::{Ending, end};
use crate::call::{Call, Run};
use crate::failure::Failure;

/// Stop everything in order and reboot the host
///
/// It shows the services as they stop, until the connection ends. Over the
/// network it asks for confirmation first, if it is on a terminal.
///
/// With --kexec the machine executes the kernel that `kexec` of its
/// machine.yaml names, without its firmware and boot loader. If that kernel
/// cannot be loaded, nothing stops.
///
/// Examples:
///   kelsonctl reboot
///   kelsonctl reboot --no-wait --reason 'new kernel'
///   kelsonctl reboot --kexec
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Execute the kernel of machine.yaml, without the firmware
    #[arg(long)]
    kexec: bool,
    #[command(flatten)]
    ending: Ending,
}

impl Run for Arguments {
    fn confirmed(&self) -> Option<&'static str> {
        self.ending.question("Reboot")
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let action = if self.kexec { Action::Kexec } else { Action::Reboot };
        end(call, action, self.ending).await
    }
}
