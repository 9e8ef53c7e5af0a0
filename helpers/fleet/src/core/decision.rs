//! What comes next.

use super::Core;
use crate::clock::Now;
use crate::entry::{Entry as _, HostEntry};
use crate::key::is_host;
use crate::step::{Decision, Question, Step, Stored};

impl Core {
    pub(super) fn decide(&self, clock: Now) -> Decision {
        use Decision::{Do, Wait};
        let now = clock.at;
        let Some(fleet) = self.fleet.as_ref().filter(|fleet| is_host(&fleet.name)) else { return Wait(None) };
        if self.removals.has_left() || self.is_held {
            return Wait(None);
        }
        let retry = self.connection.retry;
        let waits = now < retry;
        if !self.connection.is_open {
            return match waits {
                true => Wait(Some(retry)),
                false => Do(Step::Connect(self.connection.endpoint)),
            };
        }
        if let (true, Some(lease)) = (self.removals.is_leaving(), self.lease.filter(|_| !waits)) {
            return Do(Step::Revoke(lease.id));
        }
        if let Some(lease) = self.lease.filter(|lease| now >= lease.renew) {
            return Do(Step::Renew(lease.id));
        }
        if waits {
            let renew = self.lease.map(|lease| lease.renew);
            return Wait(renew.into_iter().chain([retry]).min());
        }
        if !self.store.is_read || now >= self.store.look {
            let (host, id) = (fleet.key.clone(), self.host.id.clone());
            let keys = self.store.is_read.then(|| self.store.looked.entries.keys().cloned().collect());
            let is_after_commit = !self.store.is_certain;
            return Do(Step::Look(Question { host, id, lease: self.lease(), keys, is_after_commit }));
        }
        match (self.is_taken(), self.lease) {
            (true, Some(lease)) => Do(Step::Revoke(lease.id)),
            (true, None) => Wait(Some(self.store.look)),
            (false, None) if now < self.store.grant => Wait(Some(self.store.grant)),
            (false, None) => Do(Step::Grant),
            (false, Some(lease)) => match self.transaction(fleet, lease, clock) {
                Some(transaction) => Do(Step::Commit(transaction)),
                None => {
                    let causes = self.delayed_causes(fleet, clock);
                    Wait([Some(lease.renew), Some(self.store.look), causes].into_iter().flatten().min())
                }
            },
        }
    }

    /// The entry of the host in the store, where it is this host's.
    pub(super) fn own_entry(&self) -> Option<(HostEntry, &Stored)> {
        let (stored, _) = self.store.looked.host.as_ref()?;
        let entry = HostEntry::read(&stored.value).ok().filter(|entry| entry.id == self.host.id)?;
        Some((entry, stored))
    }

    /// Whether the name of the host is another's.
    fn is_taken(&self) -> bool {
        self.store.looked.host.is_some() && self.own_entry().is_none()
    }

    /// Why the name cannot be had.
    pub(super) fn taken(&self) -> Option<String> {
        let (stored, _) = self.store.looked.host.as_ref().filter(|_| self.is_taken())?;
        let name = &self.fleet.as_ref()?.name;
        Some(match HostEntry::read(&stored.value) {
            Ok(HostEntry { id, since, .. }) => {
                format!("the name {name} is taken by another host (id {id}, since {since})")
            }
            Err(error) => format!("the key of the host {name} has a value of another program: {error}"),
        })
    }

    /// Whether the store has the host with its lease.
    pub(super) fn is_registered(&self) -> bool {
        self.lease.is_some_and(|lease| self.own_entry().is_some_and(|(_, stored)| stored.lease == lease.id))
    }

    /// Whether the store has what should be.
    pub(super) fn is_settled(&self, now: Now) -> bool {
        let (Some(fleet), Some(lease), true) = (&self.fleet, self.lease, self.store.is_read) else {
            return false;
        };
        !self.is_taken() && self.transaction(fleet, lease, now).is_none()
    }
}
