//! A configuration for one host, on trial until the host has been healthy with it for long enough.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{ApplyRequest, ConfirmRequest, GetConfigurationResponse, HistoryRequest};
use ring::digest::{Context, SHA256};

use crate::configuration::{Given, TIMEOUT, fetch, mistake};
use crate::failure::{Failure, answer, answer_within};
use crate::output::time::to_wire;

/// A trial ends so long after the deadline of its host, if nobody ends it before.
const SPARE: Duration = Duration::from_secs(60);

/// Tells one configuration from another.
pub fn digest(given: &Given) -> String {
    let mut context = Context::new(&SHA256);
    for file in given.onto(&[]) {
        for part in [file.name.as_bytes(), &file.content] {
            context.update(&u64::try_from(part.len()).unwrap_or_default().to_le_bytes());
            context.update(part);
        }
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The generation in force.
pub async fn mark(client: &Client) -> Result<String, Failure> {
    Ok(fetch(client, None).await?.generation.to_string())
}

fn is_in_force(given: &Given, now: &GetConfigurationResponse) -> bool {
    given.onto(&now.files) == now.files
}

/// Applies it where the host does not have it.
pub async fn act(client: &Client, given: &Given, plan: &str, deadline: Duration) -> Result<(), Failure> {
    let now = fetch(client, None).await?;
    if is_in_force(given, &now) {
        return Ok(());
    }
    let request = ApplyRequest {
        files: given.onto(&now.files),
        base: Some(now.generation),
        auto_rollback: Some(to_wire(deadline + SPARE)),
        message: format!("plan {plan} of the fleet"),
        ..ApplyRequest::default()
    };
    let answer = answer_within(TIMEOUT, client.configuration().apply(request)).await?;
    mistake(&answer, |name| given.place(name)).map_or(Ok(()), |said| Err(Failure::Failed(said)))
}

/// Ends the trial: the configuration stays.
pub async fn keep(client: &Client, given: &Given) -> Result<(), Failure> {
    let history = answer(client.configuration().history(HistoryRequest {})).await?;
    if !is_in_force(given, &fetch(client, None).await?) {
        return Err(Failure::Failed("another configuration is in force".to_owned()));
    }
    if history.rollback_at.is_some() {
        answer(client.configuration().confirm(ConfirmRequest { generation: None })).await?;
    }
    Ok(())
}

/// Ends the trial: the configuration before it is in force again. What has become of it.
pub async fn leave(client: &Client, given: &Given, mark: &str) -> Result<Option<String>, Failure> {
    let history = answer(client.configuration().history(HistoryRequest {})).await?;
    let before = mark.parse().unwrap_or_default();
    if history.rollback_at.is_none() || !is_in_force(given, &fetch(client, None).await?) {
        return Ok(None);
    }
    let request = ApplyRequest { rollback_to: Some(before), ..ApplyRequest::default() };
    answer_within(TIMEOUT, client.configuration().apply(request)).await?;
    Ok(Some(format!("it has returned to generation {before}")))
}
