//! `reexec`: PID 1 re-executes itself, for an upgrade in place.

use std::time::{Duration, Instant};

use kelson_proto::v1::{ReexecRequest, ReexecResponse, VersionRequest, VersionResponse};

use super::ending::reason;
use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::follow::Reconnect;
use crate::output::{escape, object, print};

/// How long PID 1 may go on as it was after it has granted the request, and where its answer was lost.
const GRANTED: Duration = Duration::from_secs(10);
const ASKED: Duration = Duration::from_secs(40);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Have PID 1 re-execute itself, for an upgrade in place
///
/// PID 1 tries its file on disk first, at the path by which the host was
/// started; it follows a link again. If the file cannot be read, PID 1 executes
/// its copy in memory. Services and containers keep running, and no restart is
/// counted. kelsonctl returns once PID 1 answers again, and names the old and
/// the new version. It exits with status 1 if PID 1 refuses, continues as it
/// was, crashes meanwhile or runs another version than intended.
///
/// Examples:
///   kelsonctl reexec
///   kelsonctl reexec --reason 'upgrade to 0.2.0'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The reason, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let version = || async { answer(client.machine().version(VersionRequest {})).await };
        let before = version().await?;
        let request = ReexecRequest { reason: reason(self.reason.as_deref()) };
        let granted = match answer(client.machine().reexec(request)).await {
            Ok(response) => Some(response),
            // The answer may have been overtaken by what it tells of.
            Err(failure) if failure.is_passing() || matches!(failure, Failure::TimedOut(_)) => None,
            Err(failure) => return Err(failure),
        };
        // From here on each end but the one that was asked for is a failure of the host, and none of the way to it.
        let now = next(version, &before, granted.is_some())
            .await
            .and_then(|now| is_done(&before, granted.as_ref(), now))
            .map_err(|failure| Failure::Failed(failure.to_string()))?;
        let program = granted.map(|granted| granted.program).unwrap_or_default();
        let from = if program.is_empty() { String::new() } else { format!(", from {}", escape(&program)) };
        let (old_version, version) = (before.version, now.version);
        let line =
            format!("PID 1 runs version {} (before: {}){from}\n", escape(&version), escape(&old_version));
        let view =
            object!(program: program, old_version: old_version, version: version, reexecs: now.reexecs);
        print(&call.item(&view, || line)?)
    }
}

/// Waits for the next incarnation of PID 1, and returns its description of itself.
///
/// # Errors
/// There is none, or it does not answer.
async fn next(
    version: impl AsyncFn() -> Result<VersionResponse, Failure>,
    before: &VersionResponse,
    granted: bool,
) -> Result<VersionResponse, Failure> {
    let until = Instant::now() + if granted { GRANTED } else { ASKED };
    // That the connection breaks is no news here.
    let mut reconnect = Reconnect::quiet();
    loop {
        match version().await {
            Ok(now) if (now.reexecs, now.crashes) != (before.reexecs, before.crashes) => return Ok(now),
            Ok(now) if Instant::now() > until => return Ok(now),
            Ok(_) => {
                reconnect.works();
                tokio::time::sleep(LOOK).await;
            }
            Err(failure) => reconnect.pause(failure).await?,
        }
    }
}

/// Whether that is what was asked for.
///
/// # Errors
/// What has become of PID 1 instead.
fn is_done(
    before: &VersionResponse,
    granted: Option<&ReexecResponse>,
    now: VersionResponse,
) -> Result<VersionResponse, Failure> {
    let runs = escape(&now.version);
    let instead = if now.crashes > before.crashes {
        format!("PID 1 crashed meanwhile, and runs version {runs}")
    } else if now.reexecs < before.reexecs {
        format!(
            "PID 1 could not read the state of the incarnation before, and started without it; it runs version {runs}"
        )
    } else if now.reexecs == before.reexecs {
        format!("PID 1 goes on as it was, and runs version {runs}")
    } else {
        match granted.filter(|granted| granted.new_version != now.version) {
            None => return Ok(now),
            Some(granted) => {
                format!("PID 1 runs version {runs}, and not {}", escape(&granted.new_version))
            }
        }
    };
    Err(Failure::Failed(format!("{instead}; `kelsonctl events` tells more")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(version: &str, reexecs: u32, crashes: u32) -> VersionResponse {
        VersionResponse { version: version.to_owned(), reexecs, crashes, ..VersionResponse::default() }
    }

    #[test]
    fn only_what_was_asked_for_is_a_success() {
        let (before, granted) =
            (version("1", 3, 1), ReexecResponse { new_version: "2".to_owned(), ..Default::default() });
        let said = |granted, now| is_done(&before, granted, now).map_err(|failure| failure.to_string());
        assert!(said(Some(&granted), version("2", 4, 1)).is_ok());
        assert!(said(None, version("2", 4, 1)).is_ok(), "the answer was lost");
        for (now, words) in [
            (version("1", 3, 1), "goes on as it was, and runs version 1"),
            (version("1", 4, 1), "runs version 1, and not 2"),
            (version("1", 4, 2), "crashed meanwhile, and runs version 1"),
            (version("2", 4, 2), "crashed meanwhile, and runs version 2"),
            (version("2", 0, 0), "started without it"),
        ] {
            let refused = said(Some(&granted), now).unwrap_err();
            assert!(refused.contains(words) && refused.contains("kelsonctl events"), "{refused}");
        }
    }
}
