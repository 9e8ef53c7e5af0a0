//! What the core wants to be done, and what came of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::clock::Moment;
use crate::key::Key;

/// One at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// With the endpoint of this number.
    Connect(usize),
    Renew(i64),
    Look(Question),
    Grant,
    Revoke(i64),
    Commit(Transaction),
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Do(Step),
    /// Nothing before this moment. `None`: nothing at all.
    Wait(Option<Moment>),
}

/// What the store has of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The key of the host.
    pub host: Key,
    pub id: String,
    /// The lease whose keys are asked for. `None`: that of the key of the host, if the key has the id.
    pub lease: Option<i64>,
    /// The other keys of the lease. `None`: they are asked for.
    pub keys: Option<Vec<Key>>,
    /// The store may still have a transaction of this host to do, whose answer is lost: the answer is one after it.
    pub is_after_commit: bool,
}

/// All of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// The key of the host, and the revision in which it must have been changed last. 0: it must not exist.
    pub host: (Key, i64),
    pub lease: i64,
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Put(Key, Vec<u8>),
    Delete(Key),
}

impl Change {
    pub fn key(&self) -> &Key {
        match self {
            Change::Put(key, _) | Change::Delete(key) => key,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// From this address of the host.
    Connected(IpAddr),
    Renewed,
    Looked(Looked),
    Granted {
        lease: i64,
        ttl: Duration,
    },
    Revoked,
    Committed {
        revision: i64,
    },
    /// The key of the host was changed by another.
    Conflict,
    /// The store has no such lease, and so none of its keys.
    LeaseGone,
    /// As [`Outcome::Failed`], but the connection is as good as before.
    Refused(String),
    /// For an operator. It is not known whether it was done, and the connection is lost.
    Failed(String),
}

/// A value in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub value: Vec<u8>,
    /// 0: none.
    pub lease: i64,
}

/// What the store has of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    /// The key of the host, with the revision in which it was changed last.
    pub host: Option<(Stored, i64)>,
    /// The other keys of the lease.
    pub entries: BTreeMap<Key, Stored>,
}

impl Looked {
    /// Without the keys of this lease.
    pub fn forget(&mut self, lease: i64) {
        self.entries.retain(|_, stored| stored.lease != lease);
        self.host.take_if(|(stored, _)| stored.lease == lease);
    }
}
