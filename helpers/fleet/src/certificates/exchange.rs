//! Asks the issuer of the fleet for a certificate, over a connection of its own.

use std::time::Duration;

use etcd_client::{Client, KeyValue};
use kelson_spec::fleet::FleetSpec;
use tokio::time::{Instant, sleep, timeout};

use super::{Access, Answer, Request};
use crate::connection::{Connection, no_answer, text};

/// Of each call.
const CALL: Duration = Duration::from_secs(10);
/// Between two looks for the answer: at first, and at most.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(5);
/// Until the request is put again.
const ANSWER: Duration = Duration::from_secs(15);

/// Puts a request, and waits for the answer.
///
/// # Errors
/// For an operator: the store does not answer, the issuer does not, or it refuses the request.
pub async fn ask(spec: &FleetSpec, user: &str, host: &str, request: &Request) -> Result<Answer, String> {
    let connection = connect(spec).await?;
    let mut client = connection.client.clone();
    let access = Access::new(&spec.prefix);
    let value = serde_json::to_string(request).map_err(|error| error.to_string())?;
    let put = client.put(access.request(user, host), value, None);
    let put = called(put).await?;
    let revision = put.header().map(|header| header.revision()).unwrap_or_default();
    let (key, began) = (access.answer(user, host), Instant::now());
    let mut pause = FIRST_LOOK;
    while began.elapsed() < ANSWER {
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(LAST_LOOK);
        let Some(value) = get(&mut client, &key).await?.filter(|value| value.mod_revision() > revision)
        else {
            continue;
        };
        let answer: Answer = serde_json::from_slice(value.value())
            .map_err(|error| format!("{key}: the answer of the issuer cannot be read: {error}"))?;
        match answer.refused.as_str() {
            _ if answer.public_key != request.public_key => {}
            "" => return Ok(answer),
            reason => return Err(format!("the issuer of the fleet refuses it: {reason}")),
        }
    }
    Err(format!(
        "the issuer of the fleet has not answered within {} s; look whether `kelsonctl fleet issue` runs",
        ANSWER.as_secs()
    ))
}

async fn get(client: &mut Client, key: &str) -> Result<Option<KeyValue>, String> {
    Ok(called(client.get(key, None)).await?.take_kvs().into_iter().next())
}

/// Connects with the first member that answers.
///
/// # Errors
/// What failed with the last one, for an operator.
pub async fn connect(spec: &FleetSpec) -> Result<Connection, String> {
    let mut problem = "fleet.endpoints of the machine file is empty".to_owned();
    for (number, endpoint) in spec.endpoints.iter().enumerate() {
        match reach(spec, number).await {
            Ok(connection) => return Ok(connection),
            Err(error) => problem = format!("etcd at {endpoint}: {error}"),
        }
    }
    Err(problem)
}

async fn reach(spec: &FleetSpec, number: usize) -> Result<Connection, String> {
    let mut connection = match timeout(CALL, Connection::new(spec, number)).await {
        Ok(connected) => connected?,
        Err(_) => return Err(no_answer(CALL)),
    };
    // A member refuses a certificate only after the handshake, and then the first call fails. This one needs no right.
    match timeout(CALL, connection.client.status()).await {
        Ok(Ok(_)) => Ok(connection),
        // The end of the connection may hide the reason.
        Ok(Err(error)) => Err(format!("{}; it may refuse the certificate", connection.text(&error).await)),
        Err(_) => Err(no_answer(CALL)),
    }
}

/// The answer of a call.
///
/// # Errors
/// For an operator: why there is none.
pub async fn called<T>(call: impl Future<Output = Result<T, etcd_client::Error>>) -> Result<T, String> {
    match timeout(CALL, call).await {
        Ok(answer) => answer.map_err(|error| text(&error)),
        Err(_) => Err(no_answer(CALL)),
    }
}
