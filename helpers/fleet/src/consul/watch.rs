//! Follows the instances of the names that services wait for: a question for each, which the agent answers at a change.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::agent::Agent;
use super::list::{Instance, passing};
use crate::connection::no_answer;
use crate::core::discovery::Seen;

/// The agent answers after this time, too, with up to a sixteenth more.
const WAIT: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(75);
/// Between two questions about a name that changes all the time.
const PAUSE: Duration = Duration::from_millis(200);

/// Ends with the reason.
///
/// # Errors
/// For an operator. There is no other end.
pub async fn follow(
    agent: Agent,
    names: BTreeSet<String>,
    seen: mpsc::Sender<Vec<Seen>>,
) -> Result<Infallible, String> {
    let mut questions = JoinSet::new();
    for name in names {
        let (instances, index) = passing(&agent, &name, None).await?;
        send(&seen, vec![all(&name, instances)]).await?;
        questions.spawn(kelson_sys::boxed(repeat(agent.clone(), name, index, seen.clone())));
    }
    send(&seen, vec![Seen::Follows]).await?;
    match questions.join_next().await {
        Some(Ok(ended)) => ended,
        // One that panicked has ended this process, except in tests.
        _ => Err("there is nothing to follow".to_owned()),
    }
}

async fn repeat(
    agent: Agent,
    name: String,
    mut index: u64,
    seen: mpsc::Sender<Vec<Seen>>,
) -> Result<Infallible, String> {
    loop {
        sleep(PAUSE).await;
        let asked = passing(&agent, &name, Some((index, WAIT)));
        let (instances, next) = timeout(LONGEST, asked).await.unwrap_or_else(|_| Err(no_answer(LONGEST)))?;
        if next == index {
            continue;
        }
        // A smaller one is of servers that were set up again.
        index = if next < index { 0 } else { next };
        send(&seen, vec![all(&name, instances)]).await?;
    }
}

fn all(name: &str, instances: Vec<Instance>) -> Seen {
    let instances = instances.into_iter().map(|one| ((one.host, one.service), one.entry));
    Seen::All(name.to_owned(), instances.collect())
}

async fn send(seen: &mpsc::Sender<Vec<Seen>>, batch: Vec<Seen>) -> Result<(), String> {
    seen.send(batch).await.map_err(|_| "nobody follows it any more".to_owned())
}
