//! The secrets that have got another value since a service was started.

use kelson_api::client::Client;
use kelson_proto::v1::ListSecretsRequest;

use crate::failure::answer;

/// A sentence about those of a service that runs. `None`: it has what it would get at a start, or that cannot be asked.
pub async fn newer_secrets(client: &Client, service: &str) -> Option<String> {
    let listed = answer(client.secrets().list(ListSecretsRequest {})).await.ok()?.secrets.into_iter();
    let is_newer = |outdated: &[String]| outdated.iter().any(|one| one == service);
    let names: Vec<String> =
        listed.filter(|secret| is_newer(&secret.outdated)).map(|secret| secret.name).collect();
    (!names.is_empty()).then(|| {
        let (names, has) = (names.join(", "), if names.len() == 1 { "has" } else { "have" });
        format!("{names} {has} another value since its start; `kelsonctl restart {service}` gives it")
    })
}
