//! Reads the instances of the names that services wait for, and follows them from there.
//!
//! Each name has a watch of its own: the store then sends only what concerns this host. All of them share a stream.

use std::collections::BTreeSet;
use std::convert::Infallible;

use etcd_client::{Error, EventType, KvClient, WatchClient, WatchOptions, WatchStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::connection::text;
use crate::consul::{self, Agent};
use crate::core::discovery::{Instance, Seen};
use crate::entry::{Entry as _, ServiceEntry};
use crate::key::{Key, Keys, end_of};
use crate::range::Range;

/// Batches of changes that have not been looked at.
const WAITING: usize = 16;

/// Ends when it is dropped.
pub struct Watch {
    _task: JoinSet<()>,
    seen: mpsc::Receiver<Vec<Seen>>,
}

impl Watch {
    /// Must be called on the runtime.
    pub fn etcd(reader: KvClient, watcher: WatchClient, keys: Keys, names: BTreeSet<String>) -> Watch {
        Watch::new(move |seen| async move { follow(reader, watcher, &keys, &names, &seen).await })
    }

    /// Must be called on the runtime.
    pub fn consul(agent: Agent, names: BTreeSet<String>) -> Watch {
        Watch::new(move |seen| consul::follow(agent, names, seen))
    }

    fn new<F: Future<Output = Result<Infallible, String>> + Send + 'static>(
        work: impl FnOnce(mpsc::Sender<Vec<Seen>>) -> F,
    ) -> Watch {
        let (sender, seen) = mpsc::channel(WAITING);
        let work = work(sender.clone());
        let mut task = JoinSet::new();
        task.spawn(kelson_sys::boxed(async move {
            let Err(error) = work.await;
            // The receiver ends with the task.
            let _ = sender.send(vec![Seen::Ended(error)]).await;
        }));
        Watch { _task: task, seen }
    }

    /// What it has seen next. Nothing is lost when this is dropped.
    pub async fn next(&mut self) -> Vec<Seen> {
        match self.seen.recv().await {
            Some(seen) => seen,
            // A task that panicked has ended this process, except in tests.
            None => vec![Seen::Ended("the watch has ended".to_owned())],
        }
    }
}

/// Ends with the reason.
async fn follow(
    mut reader: KvClient,
    mut watcher: WatchClient,
    keys: &Keys,
    names: &BTreeSet<String>,
    seen: &mpsc::Sender<Vec<Seen>>,
) -> Result<Infallible, String> {
    let mut stream: Option<WatchStream> = None;
    for name in names {
        let prefix = keys.services(Some(name));
        let (all, revision) = read(&mut reader, keys, &prefix).await.map_err(|error| text(&error))?;
        send(seen, vec![Seen::All(name.clone(), all)]).await?;
        let from = revision.saturating_add(1);
        let options =
            WatchOptions::new().with_range(end_of(&prefix)).with_start_revision(from).with_fragment();
        let watched = match &mut stream {
            Some(stream) => stream.watch(prefix, Some(options)).await,
            None => watcher.watch(prefix, Some(options)).await.map(|new| stream = Some(new)),
        };
        watched.map_err(|error| text(&error))?;
    }
    let Some(mut stream) = stream else { return Err("there is nothing to follow".to_owned()) };
    let mut created = 0_usize;
    loop {
        let answer = stream.message().await.map_err(|error| text(&error))?;
        let answer = answer.ok_or("the store has ended the watch")?;
        if answer.canceled() {
            return Err(match answer.compact_revision() {
                0 => format!("the store has ended the watch: {}", answer.cancel_reason()),
                _ => "the store has dropped changes that were not read yet; they are read again".to_owned(),
            });
        }
        let mut batch: Vec<Seen> = Vec::new();
        for event in answer.events() {
            let Some(value) = event.kv() else { continue };
            let Some(place) = keys.parse_service(value.key()) else { continue };
            let entry = match event.event_type() {
                EventType::Put => entry(value.value()),
                EventType::Delete => None,
            };
            batch.push(Seen::One(place.name, (place.host, place.service), entry));
        }
        if answer.created() {
            created = created.saturating_add(1);
            if created == names.len() {
                batch.push(Seen::Follows);
            }
        }
        if !batch.is_empty() {
            send(seen, batch).await?;
        }
    }
}

async fn send(seen: &mpsc::Sender<Vec<Seen>>, batch: Vec<Seen>) -> Result<(), String> {
    seen.send(batch).await.map_err(|_| "nobody follows it any more".to_owned())
}

async fn read(
    reader: &mut KvClient,
    keys: &Keys,
    prefix: &str,
) -> Result<(Vec<(Instance, ServiceEntry)>, i64), Error> {
    let mut all = Vec::new();
    let range = Range::new(Key::from(prefix), end_of(prefix));
    let revision = range.at_once(reader, |values| {
        all.extend(values.iter().filter_map(|value| {
            let place = keys.parse_service(value.key())?;
            Some(((place.host, place.service), entry(value.value())?))
        }));
    });
    let revision = revision.await?;
    Ok((all, revision))
}

/// `None`: the value is none of Kelson's, so nobody could use the instance.
fn entry(value: &[u8]) -> Option<ServiceEntry> {
    ServiceEntry::read(value).ok()
}
