//! `support`: one archive with all that helps to understand a host.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use kelson_api::client::Endpoint;

use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::{Page, escape, size, time};
use crate::support::{Extent, Made, make};

/// Collect diagnostics of a host in one archive
///
/// The archive has services, events, logs, the graph, metrics, facts about the
/// machine, and a list of the parts that could not be collected. kelsonctl
/// removes text that looks like a secret: values of environment variables,
/// passwords, tokens, private keys. Not every secret looks like one: read the
/// archive before you send it.
///
/// Examples:
///   kelsonctl support
///   kelsonctl -n edge-1 support --out edge-1.tar.gz
///   kelsonctl support --lines 100000
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The archive [default: kelson-support-HOST-TIME.tar.gz]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The number of last lines of each log
    #[arg(long, value_name = "N", default_value_t = 2000)]
    lines: u32,
    /// The timeout for each answer
    #[arg(long, value_name = "D", default_value = "15s", value_parser = time::parse_timeout)]
    timeout: Duration,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let endpoint = call.choice.resolve()?.endpoint;
        let is_remote = !matches!(endpoint, Endpoint::Unix(_));
        let extent = Extent { lines: self.lines, timeout: self.timeout, is_remote };
        let now = time::rfc3339(&SystemTime::now().into());
        let made =
            make(&call.client()?, &endpoint.to_string(), &now, self.out, extent, call.progress()).await?;
        call.show(&made, || Page::Lines(lines(&made)))
    }
}

fn lines(made: &Made) -> String {
    let lack = match made.missing.len() {
        0 => String::new(),
        count => format!("; {count} could not be had (manifest.json tells why)"),
    };
    let removed: u64 = made.removed.values().sum();
    format!(
        "wrote {} ({}): {} files{lack}\nremoved what looks like a secret: {removed} times; read it before you send it: not every \
         secret looks like one\n",
        escape(&made.file),
        size(made.bytes),
        made.files
    )
}
