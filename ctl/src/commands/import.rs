//! `import`: files of other programs as files of Kelson, without a host.

mod compose;
mod drop_in;
pub mod folder;
mod outcome;
mod systemd;
mod talos;

use crate::call::{Call, Run};
use crate::failure::Failure;

/// Translate files of other programs into service files
///
/// For each key it tells what becomes of it: kept, approximated with a
/// difference that it names, or rejected because something would be lost.
/// Nothing is dropped silently.
///
/// Examples:
///   kelsonctl import systemd /lib/systemd/system/redis-server.service
///   kelsonctl import compose --out /etc/kelson/services compose.yaml
///   kelsonctl import talos nut-client.yaml config.yaml
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Kind {
    Compose(compose::Arguments),
    Folder(folder::Arguments),
    Systemd(systemd::Arguments),
    Talos(talos::Arguments),
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        match self.kind {
            Kind::Compose(arguments) => compose::run(call, arguments),
            Kind::Folder(arguments) => folder::run(call, arguments),
            Kind::Systemd(arguments) => systemd::run(call, arguments),
            Kind::Talos(arguments) => talos::run(call, arguments),
        }
    }
}
