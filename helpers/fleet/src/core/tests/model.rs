//! A model of the store.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::entry::{Entry as _, HostEntry};
use crate::key::Key;
use crate::step::{Change, Looked, Outcome, Question, Step, Stored, Transaction};

const TTL: Duration = Duration::from_secs(30);

#[derive(Default)]
pub struct Store {
    pub at: Duration,
    /// Why it does not answer; empty: it does.
    pub down: String,
    /// The next transaction is done, and its answer is lost.
    pub late: bool,
    /// The next transaction has no answer, and is done only after the next look, unless that is to be after it.
    pub stalls: bool,
    stalled: Option<Transaction>,
    /// The number of next steps that are refused.
    pub refusals: usize,
    /// It takes no value.
    pub is_full: bool,
    /// With the revision of the last change.
    pub values: BTreeMap<Key, (Stored, i64)>,
    /// What a watcher sees.
    pub changes: Vec<String>,
    /// When each ends.
    leases: BTreeMap<i64, Duration>,
    revision: i64,
}

impl Store {
    pub fn perform(&mut self, step: &Step) -> Outcome {
        self.expire(self.at);
        if !self.down.is_empty() {
            return Outcome::Failed(self.down.clone());
        }
        if let Some(refusals) = self.refusals.checked_sub(1) {
            self.refusals = refusals;
            return Outcome::Refused("etcdserver: too many requests".into());
        }
        match step {
            Step::Connect(_) => panic!("the test does it"),
            Step::Renew(lease) => match self.leases.get_mut(lease) {
                Some(end) => {
                    *end = self.at + TTL;
                    Outcome::Renewed
                }
                None => Outcome::LeaseGone,
            },
            Step::Grant => {
                self.revision += 1;
                self.leases.insert(self.revision, self.at + TTL);
                Outcome::Granted { lease: self.revision, ttl: TTL }
            }
            Step::Revoke(lease) => {
                self.end(*lease);
                Outcome::Revoked
            }
            Step::Look(question) => {
                let stalled = self.stalled.take();
                let (before, after) =
                    if question.is_after_commit { (stalled, None) } else { (None, stalled) };
                before.iter().for_each(|stalled| drop(self.commit(stalled)));
                let looked = self.look(question);
                after.iter().for_each(|stalled| drop(self.commit(stalled)));
                looked
            }
            Step::Commit(transaction) if std::mem::take(&mut self.stalls) => {
                self.stalled = Some(transaction.clone());
                Outcome::Failed("no answer".into())
            }
            Step::Commit(transaction) => self.commit(transaction),
        }
    }

    fn look(&self, question: &Question) -> Outcome {
        let host = self.values.get(&question.host).cloned();
        let of_id = host
            .as_ref()
            .filter(|(stored, _)| HostEntry::read(&stored.value).is_ok_and(|entry| entry.id == question.id));
        let lease = question.lease.or(of_id.map(|(stored, _)| stored.lease));
        if question.lease.is_some_and(|lease| !self.leases.contains_key(&lease)) {
            return Outcome::LeaseGone;
        }
        let of_lease = |(key, (stored, _)): (&Key, &(Stored, i64))| {
            (Some(stored.lease) == lease && *key != question.host).then(|| (key.clone(), stored.clone()))
        };
        Outcome::Looked(Looked { entries: self.values.iter().filter_map(of_lease).collect(), host })
    }

    fn commit(&mut self, transaction: &Transaction) -> Outcome {
        let (host, revision) = &transaction.host;
        if self.values.get(host).map_or(0, |(_, revision)| *revision) != *revision {
            return Outcome::Conflict;
        }
        let is_put = transaction.changes.iter().any(|change| matches!(change, Change::Put(..)));
        if self.is_full && is_put {
            return Outcome::Refused("etcdserver: mvcc: database space exceeded".into());
        }
        assert!(transaction.changes.len() <= 128 && self.leases.contains_key(&transaction.lease));
        self.revision += 1;
        for change in &transaction.changes {
            let (word, key) = match change {
                Change::Put(key, value) => {
                    let stored = Stored { value: value.clone(), lease: transaction.lease };
                    self.values.insert(key.clone(), (stored, self.revision));
                    ("put", key)
                }
                Change::Delete(key) => {
                    self.values.remove(key);
                    ("delete", key)
                }
            };
            self.changes.push(format!("{word} {}", key.escape_ascii()));
        }
        if std::mem::take(&mut self.late) {
            return Outcome::Failed("no answer".into());
        }
        Outcome::Committed { revision: self.revision }
    }

    /// Ends leases whose time has come.
    pub fn expire(&mut self, at: Duration) {
        let ended: Vec<i64> =
            self.leases.iter().filter(|(_, end)| **end <= at).map(|(lease, _)| *lease).collect();
        ended.into_iter().for_each(|lease| self.end(lease));
    }

    fn end(&mut self, lease: i64) {
        self.leases.remove(&lease);
        let changes = &mut self.changes;
        self.values.retain(|key, (stored, _)| {
            if stored.lease == lease {
                changes.push(format!("delete {}", key.escape_ascii()));
            }
            stored.lease != lease
        });
    }

    /// By another client.
    pub fn put(&mut self, key: &str, value: &str, lease: i64) {
        self.revision += 1;
        let stored = Stored { value: value.into(), lease };
        self.values.insert(key.into(), (stored, self.revision));
    }

    /// By another client.
    pub fn delete(&mut self, key: &str) {
        self.values.remove(key.as_bytes());
    }
}
