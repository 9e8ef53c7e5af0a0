//! The difference between what should be in the store and what is there.

use std::collections::BTreeSet;

use kelson_proto::v1::FleetRegister;

use super::{Core, Fleet, Lease, facts};
use crate::cause;
use crate::clock::{Moment, Now};
use crate::entry::{self, CauseEntry, Entry, HostEntry, ServiceEntry};
use crate::key::Key;
use crate::step::{Change, Stored, Transaction};

/// The store takes at most 128 changes at once.
const CHANGES_MAX: usize = 100;
/// And 1.5 MiB.
const BYTES_MAX: usize = 512 << 10;
/// Instead of an address: that of the host.
const AUTO: &str = "auto";

impl Core {
    /// The next changes that the store lacks.
    pub(super) fn transaction(&self, fleet: &Fleet, lease: Lease, now: Now) -> Option<Transaction> {
        let looked = &self.store.looked;
        let wanted: BTreeSet<Key> =
            self.truth.services.values().map(|register| self.key_of(fleet, register)).collect();
        let deletes = looked.entries.keys().filter(|key| self.is_stale(fleet, &wanted, key));
        let deletes = deletes.map(|key| Change::Delete(key.clone()));
        let services = self.truth.services.values().filter_map(|register| {
            let key = self.key_of(fleet, register);
            // A value that is not known yet leaves what the store has.
            let entry = self.service_entry(fleet, register).ok()?;
            let value = changed(looked.entries.get(&key), lease, entry, now)?;
            Some(Change::Put(key, value))
        });
        let stored = looked.host.as_ref().map(|(stored, _)| stored);
        let host = changed(stored, lease, self.host_entry(fleet, now), now);
        let host = host.map(|value| Change::Put(fleet.key.clone(), value));
        // A store that is full still takes what makes room.
        let deletes_alone = self.connection.failures > 0 && deletes.clone().next().is_some();
        let mut bytes: usize = 0;
        let changes: Vec<Change> = deletes
            .chain(host.into_iter().chain(services).take_while(|_| !deletes_alone))
            .take(CHANGES_MAX)
            .take_while(|change| {
                let is_first = bytes == 0;
                bytes = bytes.saturating_add(match change {
                    Change::Put(key, value) => key.len().saturating_add(value.len()),
                    Change::Delete(key) => key.len(),
                });
                is_first || bytes <= BYTES_MAX
            })
            .collect();
        let revision = looked.host.as_ref().map_or(0, |(_, revision)| *revision);
        let host = (fleet.key.clone(), revision);
        (!changes.is_empty()).then_some(Transaction { host, lease: lease.id, changes })
    }

    pub(super) fn key_of(&self, fleet: &Fleet, register: &FleetRegister) -> Key {
        fleet.keys.service(&register.name, &fleet.name, &register.service)
    }

    /// Whether a key of the host's lease has to go.
    fn is_stale(&self, fleet: &Fleet, wanted: &BTreeSet<Key>, key: &Key) -> bool {
        let is_known = || {
            let place = fleet.keys.parse_service(key).filter(|place| place.host == fleet.name);
            place.is_some_and(|place| {
                self.truth.services.contains_key(&place.service) || self.removals.has(&place.service)
            })
        };
        !wanted.contains(key) && (self.truth.is_complete || is_known())
    }

    fn host_entry(&self, fleet: &Fleet, now: Now) -> HostEntry {
        // Before PID 1 has sent it, what the helper before this one wrote is right.
        let known = self.own_entry().map(|(entry, _)| entry);
        let facts = self.truth.facts.as_ref().map(facts::shared);
        let facts = facts.or_else(|| known.as_ref().map(|known| known.facts.clone())).unwrap_or_default();
        let known = known.map(|entry| (entry.health, entry.causes));
        let wanted = self.condition(fleet);
        let (health, causes) = match (wanted, known) {
            (Some((health, _)), Some((old_health, old))) if health == old_health && self.causes_wait(now) => {
                (health, old)
            }
            (wanted, known) => wanted.or(known).unwrap_or_default(),
        };
        HostEntry {
            id: self.host.id.clone(),
            boot_id: self.host.boot_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            health,
            addresses: self.connection.address.iter().map(ToString::to_string).collect(),
            labels: fleet.spec.labels.clone(),
            facts,
            causes,
            since: String::new(),
        }
    }

    /// How the host is, as PID 1 has sent it.
    fn condition(&self, fleet: &Fleet) -> Option<(String, Vec<CauseEntry>)> {
        let health = self.truth.health.as_ref().filter(|health| !health.state.is_empty())?;
        let mut causes: Vec<CauseEntry> = Vec::new();
        for obstacle in health.causes.iter().take(cause::MOST) {
            let cause = cause::text(obstacle, &fleet.name);
            causes.push(CauseEntry { service: obstacle.service.clone(), cause });
        }
        Some((health.state.clone(), causes))
    }

    /// It is too soon for another put of the causes alone.
    fn causes_wait(&self, now: Now) -> bool {
        self.causes_due().is_some_and(|due| now.at < due)
    }

    /// When the causes alone may be put again.
    fn causes_due(&self) -> Option<Moment> {
        Some(self.store.causes?.saturating_add(self.limits.causes))
    }

    /// When causes that wait may be put.
    pub(super) fn delayed_causes(&self, fleet: &Fleet, now: Now) -> Option<Moment> {
        let due = self.causes_due().filter(|due| now.at < *due)?;
        let (known, _) = self.own_entry()?;
        (self.condition(fleet)? != (known.health, known.causes)).then_some(due)
    }

    pub(super) fn service_entry(
        &self,
        fleet: &Fleet,
        register: &FleetRegister,
    ) -> Result<ServiceEntry, facts::Unknown> {
        let port = register.port;
        let meta = |(key, text): (&String, &String)| {
            let text = facts::expand(text, &fleet.name, port, self.truth.facts.as_ref())?;
            Ok((key.clone(), text))
        };
        Ok(ServiceEntry {
            address: self.address_of(register),
            port,
            tags: register.tags.clone(),
            meta: register.meta.iter().map(meta).collect::<Result<_, _>>()?,
            since: String::new(),
        })
    }

    /// The address under which a service is registered. Empty: it is not known yet.
    pub(super) fn address_of(&self, register: &FleetRegister) -> String {
        match register.address.as_str() {
            AUTO | "" => self.connection.address.map(|address| address.to_string()).unwrap_or_default(),
            address => address.to_owned(),
        }
    }
}

/// The value to put. `None`: what the store has is right, whatever it says about since when.
fn changed<E: Entry>(stored: Option<&Stored>, lease: Lease, mut entry: E, now: Now) -> Option<Vec<u8>> {
    let old = stored.filter(|stored| stored.lease == lease.id).and_then(|stored| E::read(&stored.value).ok());
    let Some(mut old) = old else {
        *entry.since() = entry::time(now.wall);
        return Some(entry.to_value());
    };
    old.since().clone_into(entry.since());
    (old != entry).then(|| entry.to_value())
}
