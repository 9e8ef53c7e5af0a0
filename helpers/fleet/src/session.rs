//! Performs the steps of the core in one member of etcd.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, Error, GetOptions, KeyValue, KvClient, LeaseClient, LeaseKeepAliveStream,
    LeaseKeeper, LeaseTimeToLiveOptions, PutOptions, Txn, TxnOp, TxnOpResponse,
};
use kelson_spec::fleet::FleetSpec;
use tonic::Code;

use crate::connection::Connection;
use crate::entry::{Entry as _, HostEntry};
use crate::key::Key;
use crate::step::{Change, Looked, Outcome, Question, Step, Stored, Transaction};

/// Values that are read at once: of each not more than a message of PID 1.
const VALUES_MAX: usize = 16;
/// The longest answer of the store.
const ANSWER_MAX: usize = 8 << 20;

pub struct Session {
    connection: Connection,
    /// How the member is named in problems.
    endpoint: String,
    /// It has answered.
    is_proven: bool,
    lease: LeaseClient,
    /// The stream of renewals of a lease.
    renewals: Option<(i64, LeaseKeeper, LeaseKeepAliveStream)>,
}

/// What a step gives: the session, unless it has failed.
pub type Performed = (Option<Session>, Outcome);

/// Performs one step. A session with which something has failed ends.
pub async fn perform(session: Option<Session>, step: Step, spec: FleetSpec, limits: Steps) -> Performed {
    if let Step::Connect(number) = step {
        let endpoint = spec.endpoints.get(number).cloned().unwrap_or_default();
        return match within(limits.call, Session::new(&spec, number, endpoint.clone())).await {
            Ok(session) => {
                let outcome = Outcome::Connected(session.connection.address);
                (Some(session), outcome)
            }
            Err(problem) => (None, failed(&endpoint, &problem)),
        };
    }
    let Some(mut session) = session else {
        return (None, Outcome::Failed("the connection is lost".to_owned()));
    };
    let performed = async {
        match session.perform(step, limits.ttl).await {
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(session.connection.text(&error).await),
        }
    };
    match within(limits.call, performed).await {
        Ok(outcome) => {
            session.is_proven = true;
            (Some(session), outcome)
        }
        // The end of the connection may hide the reason.
        Err(problem) if session.endpoint.starts_with("https:") && !session.is_proven => {
            let problem = format!("{problem}; it may refuse the host's certificate");
            (None, failed(&session.endpoint, &problem))
        }
        Err(problem) => (None, failed(&session.endpoint, &problem)),
    }
}

/// The limits of a step.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    pub call: Duration,
    pub ttl: Duration,
}

fn failed(endpoint: &str, problem: &str) -> Outcome {
    Outcome::Failed(format!("etcd at {endpoint}: {problem}"))
}

/// # Errors
/// What failed, or that there was no answer.
pub async fn within<T>(time: Duration, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = || Err(format!("no answer within {} s", time.as_secs_f32()));
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| late())
}

impl Session {
    async fn new(spec: &FleetSpec, number: usize, endpoint: String) -> Result<Session, String> {
        let connection = Connection::new(spec, number).await?;
        let lease = connection.client.lease_client();
        Ok(Session { connection, endpoint, is_proven: false, lease, renewals: None })
    }

    /// For reads. It ends with the session.
    pub fn reader(&self) -> KvClient {
        self.connection.client.kv_client().max_decoding_message_size(ANSWER_MAX)
    }

    async fn perform(&mut self, step: Step, ttl: Duration) -> Result<Outcome, Error> {
        match step {
            Step::Connect(_) => Ok(Outcome::Connected(self.connection.address)),
            Step::Renew(lease) => self.renew(lease).await,
            Step::Look(question) => self.look(question).await,
            Step::Grant => {
                let granted =
                    self.lease.grant(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX), None).await?;
                let ttl = Duration::from_secs(granted.ttl().unsigned_abs());
                Ok(Outcome::Granted { lease: granted.id(), ttl })
            }
            Step::Revoke(lease) => match self.lease.revoke(lease).await {
                Err(Error::GRpcStatus(status)) if status.code() == Code::NotFound => Ok(Outcome::Revoked),
                revoked => revoked.map(|_| Outcome::Revoked),
            },
            Step::Commit(transaction) => self.commit(transaction).await,
        }
    }

    async fn renew(&mut self, lease: i64) -> Result<Outcome, Error> {
        if let Some((of, keeper, answers)) = &mut self.renewals
            && *of == lease
        {
            keeper.keep_alive().await?;
            return match answers.message().await? {
                Some(answer) if answer.ttl() > 0 => Ok(Outcome::Renewed),
                Some(_) => Ok(Outcome::LeaseGone),
                None => Err(Error::LeaseKeepAliveError("the store has ended the renewals".to_owned())),
            };
        }
        match self.lease.keep_alive(lease).await {
            Ok((keeper, answers)) => {
                self.renewals = Some((lease, keeper, answers));
                Ok(Outcome::Renewed)
            }
            // Of etcd-client, which looks at the first answer itself.
            Err(Error::LeaseKeepAliveError(_)) => Ok(Outcome::LeaseGone),
            Err(error) => Err(error),
        }
    }

    async fn look(&mut self, question: Question) -> Result<Outcome, Error> {
        let mut keys = Vec::new();
        if let Some(lease) = question.lease {
            let Some(found) = self.keys_of(lease).await? else { return Ok(Outcome::LeaseGone) };
            keys = found;
        }
        let mut reader = self.reader();
        let mut answer = reader.get(question.host.clone(), None).await?;
        let host = answer.take_kvs().into_iter().next().map(|value| (stored(&value), value.mod_revision()));
        if question.lease.is_none()
            && let Some((stored, _)) = &host
            && HostEntry::read(&stored.value).is_ok_and(|entry| entry.id == question.id)
            && stored.lease != 0
        {
            keys = self.keys_of(stored.lease).await?.unwrap_or_default();
        }
        keys.retain(|key| *key != question.host);
        let mut entries = BTreeMap::new();
        for some in keys.chunks(VALUES_MAX) {
            let gets: Vec<TxnOp> = some.iter().map(|key| TxnOp::get(key.clone(), None)).collect();
            for answer in reader.txn(Txn::new().and_then(gets)).await?.op_responses() {
                if let TxnOpResponse::Get(answer) = answer {
                    entries.extend(answer.kvs().iter().map(|value| (value.key().to_vec(), stored(value))));
                }
            }
        }
        Ok(Outcome::Looked(Looked { host, entries }))
    }

    /// The keys of a lease. `None`: the store has no such lease.
    async fn keys_of(&mut self, lease: i64) -> Result<Option<Vec<Key>>, Error> {
        let options = LeaseTimeToLiveOptions::new().with_keys();
        let answer = self.lease.time_to_live(lease, Some(options)).await?;
        Ok((answer.ttl() > 0).then(|| answer.keys().to_vec()))
    }

    async fn commit(&mut self, transaction: Transaction) -> Result<Outcome, Error> {
        let Transaction { host: (host, revision), lease, changes } = transaction;
        let compare = Compare::mod_revision(host, CompareOp::Equal, revision);
        let changes: Vec<TxnOp> = changes
            .into_iter()
            .map(|change| match change {
                Change::Put(key, value) => TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease))),
                Change::Delete(key) => TxnOp::delete(key, None),
            })
            .collect();
        let transaction = Txn::new().when(vec![compare]).and_then(changes);
        match self.connection.client.kv_client().txn(transaction).await {
            Ok(answer) if answer.succeeded() => {
                let revision = answer.header().map(|header| header.revision()).unwrap_or_default();
                Ok(Outcome::Committed { revision })
            }
            Ok(_) => Ok(Outcome::Conflict),
            Err(Error::GRpcStatus(status)) if status.code() == Code::NotFound => Ok(Outcome::LeaseGone),
            Err(error) => Err(error),
        }
    }
}

fn stored(value: &KeyValue) -> Stored {
    Stored { value: value.value().to_vec(), lease: value.lease() }
}

/// Reads a part of a range.
///
/// # Errors
/// See [`Error`].
pub async fn range(
    reader: &mut KvClient,
    from: Key,
    end: Key,
    limit: i64,
) -> Result<(Vec<KeyValue>, bool), Error> {
    let options = GetOptions::new().with_range(end).with_limit(limit);
    let mut answer = reader.get(from, Some(options)).await?;
    let more = answer.more();
    Ok((answer.take_kvs(), more))
}
