//! How long a host is waited for.

use std::future::Future;
use std::time::Duration;

use crate::failure::{Failure, answer_within};

/// A host that is there answers a question within this time.
pub const ANSWER: Duration = Duration::from_secs(5);
/// A user who goes through a list does not want to see the entries on the way.
pub const PASSING: Duration = Duration::from_millis(150);

/// The answer of a host that is there.
pub async fn ask<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, Failure> {
    answer_within(ANSWER, call).await
}
