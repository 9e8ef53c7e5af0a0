//! `reexec`: PID 1 executes itself anew, for an upgrade in place.

use kelson_proto::v1::{ReexecRequest, VersionRequest, VersionResponse};

use super::Call;
use super::ending::reason;
use crate::failure::{Failure, answer};
use crate::follow::Reconnect;
use crate::output::text::escape;
use crate::output::{print, views};

/// Have PID 1 execute itself anew, for an upgrade in place
///
/// It is executed from its file on disk, which is tried first, or from its copy
/// in memory where the file cannot be read. The file is found by the path by
/// which the host was started; a link is followed anew. Services and containers
/// run on, and nothing of them is counted. Returns once PID 1 answers again, and
/// names the old and the new version.
#[derive(Debug, Clone, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kelsonctl reexec
  kelsonctl reexec --reason 'upgrade to 0.2.0'"
)]
pub struct Arguments {
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let client = call.client()?;
    let version = || async { answer(client.machine().version(VersionRequest {})).await };
    let before = version().await?;
    let request = ReexecRequest { reason: reason(arguments.reason.as_deref()) };
    let program = match answer(client.machine().reexec(request)).await {
        Ok(response) => response.program,
        // The answer may have been overtaken by what it tells of.
        Err(failure) if failure.is_passing() => String::new(),
        Err(failure) => return Err(failure),
    };
    // That the connection breaks is no news here.
    let mut reconnect = Reconnect::quiet();
    let now: VersionResponse = loop {
        match version().await {
            Ok(now) if now.reexecs > before.reexecs => break now,
            Ok(_) => {
                let still = "PID 1 goes on as it was; its events tell why".to_owned();
                reconnect.pause(Failure::NotReachable(still)).await?;
            }
            Err(failure) => reconnect.pause(failure).await?,
        }
    };
    let from = if program.is_empty() { String::new() } else { format!(", from {}", escape(&program)) };
    let (old_version, version, reexecs) = (before.version, now.version, now.reexecs);
    let line = format!("PID 1 runs version {} (before: {}){from}\n", escape(&version), escape(&old_version));
    print(&call.item(|| views::Reexec { program, old_version, version, reexecs }, || line)?)
}
