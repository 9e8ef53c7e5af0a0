//! Performs the steps of the core in one member of etcd.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, Error, KeyValue, KvClient, LeaseClient, LeaseKeepAliveStream, LeaseKeeper,
    LeaseTimeToLiveOptions, PutOptions, Txn, TxnOp, TxnOpResponse, WatchClient,
};
use kelson_spec::fleet::FleetSpec;
use tonic::Code;

use crate::connection::{Connection, no_answer, text};
use crate::entry::{Entry as _, HostEntry};
use crate::key::Key;
use crate::received::Received;
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
        return match within(limits.silence, Session::new(&spec, number, endpoint.clone())).await {
            Ok(session) => {
                let outcome = Outcome::Connected(session.connection.address);
                (Some(session), outcome)
            }
            Err(problem) => (None, Outcome::Failed(format!("etcd at {endpoint}: {problem}"))),
        };
    }
    let Some(mut session) = session else {
        return (None, Outcome::Failed("the connection is lost".to_owned()));
    };
    let received = session.connection.received.clone();
    // A lease does not wait.
    let call = if matches!(step, Step::Renew(_)) { limits.silence } else { limits.call };
    let limits = Steps { call, ..limits };
    let is_alone = spec.endpoints.len() == 1;
    let performed = answered(&received, limits, session.perform(step, limits.ttl)).await;
    let (is_lost, mut problem) = match performed {
        Ok(Ok(outcome)) => {
            session.is_proven = true;
            return (Some(session), outcome);
        }
        Ok(Err(error)) if is_refusal(&error, is_alone) => (false, text(&error)),
        Ok(Err(error)) => (true, session.connection.text(&error).await),
        Err(Late { is_silent, after }) => (is_silent || !is_alone, no_answer(after)),
    };
    // The end of the connection may hide the reason.
    if is_lost && session.endpoint.starts_with("https:") && !session.is_proven {
        problem.push_str("; it may refuse the host's certificate");
    }
    let problem = format!("etcd at {}: {problem}", session.endpoint);
    match is_lost {
        true => (None, Outcome::Failed(problem)),
        false => (Some(session), Outcome::Refused(problem)),
    }
}

/// Whether the store has answered, and would over another connection answer the same. `is_alone`: there is one member.
fn is_refusal(error: &Error, is_alone: bool) -> bool {
    let Error::GRpcStatus(status) = error else { return false };
    status.source().is_none()
        && match status.code() {
            // The next connection may have another certificate.
            Code::Unauthenticated | Code::PermissionDenied => false,
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Internal | Code::Unknown => {
                is_alone
            }
            _ => true,
        }
}

/// There was no answer in time.
struct Late {
    /// And nothing else came over the connection.
    is_silent: bool,
    after: Duration,
}

/// Waits for the answer of a member as long as the limits allow it.
async fn answered<T>(received: &Received, limits: Steps, work: impl Future<Output = T>) -> Result<T, Late> {
    let mut work = std::pin::pin!(work);
    let mut after = Duration::ZERO;
    loop {
        let before = received.count();
        let wait = limits.silence.min(limits.call.saturating_sub(after));
        if let Ok(done) = tokio::time::timeout(wait, &mut work).await {
            return Ok(done);
        }
        after = after.saturating_add(wait);
        let is_silent = received.count() == before;
        if is_silent || after >= limits.call {
            return Err(Late { is_silent, after });
        }
    }
}

/// The limits of a step.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    pub silence: Duration,
    pub call: Duration,
    pub ttl: Duration,
}

/// # Errors
/// What failed, or that there was no answer.
pub async fn within<T>(time: Duration, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| Err(no_answer(time)))
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

    /// For changes. It ends with the session.
    pub fn watcher(&self) -> WatchClient {
        self.connection.client.watch_client().max_decoding_message_size(ANSWER_MAX)
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
        // A stream with an answer that nobody has waited for is not used again.
        if let Some((_, mut keeper, mut answers)) = self.renewals.take().filter(|(of, ..)| *of == lease) {
            keeper.keep_alive().await?;
            return match answers.message().await? {
                Some(answer) if answer.ttl() > 0 => {
                    self.renewals = Some((lease, keeper, answers));
                    Ok(Outcome::Renewed)
                }
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
        let Question { host: name, id, lease, keys, is_after_commit } = question;
        if is_after_commit {
            self.wait_for_earlier(name.clone()).await?;
        }
        let mut keys = match (keys, lease) {
            (Some(keys), _) => keys,
            (None, None) => Vec::new(),
            (None, Some(lease)) => match self.keys_of(lease).await? {
                Some(keys) => keys,
                None => return Ok(Outcome::LeaseGone),
            },
        };
        keys.retain(|key| *key != name);
        keys.push(name.clone());
        let mut values = self.values(&keys).await?;
        let host = values.remove(&name).map(|value| (stored(&value), value.mod_revision()));
        if lease.is_none()
            && let Some((Stored { value, lease }, _)) = &host
            && HostEntry::read(value).is_ok_and(|entry| entry.id == id)
            && *lease != 0
        {
            let mut keys = self.keys_of(*lease).await?.unwrap_or_default();
            keys.retain(|key| *key != name);
            values = self.values(&keys).await?;
        }
        let entries = values.into_iter().map(|(key, value)| (key, stored(&value))).collect();
        Ok(Outcome::Looked(Looked { host, entries }))
    }

    /// Until etcd has done what it had accepted before. A read may overtake a transaction that waits for the disk; another
    /// one does not, and this one changes nothing, as its condition never holds. `own`: a key that this host may write.
    async fn wait_for_earlier(&self, own: Key) -> Result<(), Error> {
        let never = Compare::version(own.clone(), CompareOp::Less, 0);
        let transaction = Txn::new().when(vec![never]).and_then(vec![TxnOp::delete(own, None)]);
        self.connection.client.kv_client().txn(transaction).await.map(drop)
    }

    /// The values of these keys, without those that are not there.
    async fn values(&self, keys: &[Key]) -> Result<BTreeMap<Key, KeyValue>, Error> {
        let (mut reader, mut values) = (self.reader(), BTreeMap::new());
        for some in keys.chunks(VALUES_MAX) {
            let gets: Vec<TxnOp> = some.iter().map(|key| TxnOp::get(key.clone(), None)).collect();
            for answer in reader.txn(Txn::new().and_then(gets)).await?.op_responses() {
                if let TxnOpResponse::Get(mut answer) = answer {
                    values.extend(answer.take_kvs().into_iter().map(|value| (value.key().to_vec(), value)));
                }
            }
        }
        Ok(values)
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
