//! The common part of the commands that look at the machine: an answer that comes in pages, and the services
//! that are named.

use std::future::Future;
use std::time::Duration;

use kelson_api::client::Client;
use tonic::{Response, Status, Streaming};

use crate::failure::{Failure, all_known, within};

/// The host gives a look 10 s itself; what it saw comes in less.
const TIMEOUT: Duration = Duration::from_secs(30);

/// All pages of an answer.
///
/// # Errors
/// The call failed, or was not over in 30 seconds.
pub async fn gather<T, I: IntoIterator>(
    call: impl Future<Output = Result<Response<Streaming<T>>, Status>>,
    items: impl Fn(T) -> I,
) -> Result<Vec<I::Item>, Failure> {
    let all = async {
        let (mut pages, mut all) = (call.await?.into_inner(), Vec::new());
        while let Some(page) = pages.message().await? {
            all.extend(items(page));
        }
        Ok(all)
    };
    within(TIMEOUT, all).await
}

/// Names of services of which nothing was `seen` may be mistakes. When the host does not answer, none is reported.
pub async fn known(client: &Client, names: &[String], seen: impl Fn(&str) -> bool) -> Result<(), Failure> {
    if names.iter().all(|name| seen(name)) { Ok(()) } else { all_known(client, names).await }
}
