//! The last lines of a service's log, for commands that show them beside other things.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{Line, ReadRequest};

use crate::failure::Failure;

/// The log is shown beside what was asked for: nobody waits long for it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The last lines of its log, oldest first; of one run alone where `run` names it.
///
/// # Errors
/// Why they could not be read, in words.
pub async fn last_lines(
    client: &Client,
    service: &str,
    count: u32,
    run: Option<u64>,
) -> Result<Vec<Line>, Failure> {
    let names = vec![service.to_owned()];
    let request = ReadRequest { names, tail: Some(count), run, ..ReadRequest::default() };
    let read = async {
        let mut batches = client.logs().read(request).await?.into_inner();
        let mut lines = Vec::new();
        while let Some(batch) = batches.message().await? {
            lines.extend(batch.lines);
        }
        Ok::<_, tonic::Status>(lines)
    };
    let failure = match tokio::time::timeout(TIMEOUT, read).await {
        Ok(Ok(lines)) => return Ok(lines),
        Ok(Err(status)) => Failure::from(status),
        Err(_) => Failure::TimedOut(format!("logd did not answer within {} s", TIMEOUT.as_secs())),
    };
    Err(Failure::Failed(format!("its log cannot be read: {failure}")))
}
