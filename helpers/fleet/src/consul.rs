//! Performs the steps of the core at the agent of Consul on this host.
//!
//! The key of the host is in Consul's key-value store. A session, which is the lease, holds it, and Consul removes the key
//! when the session ends. Services are services of the agent, so Consul's DNS and its catalogue have them. Each has a
//! check with the TTL of the lease, which passes with each renewal: a service whose host is lost is not passing any more,
//! and Consul removes it a minute later.

mod agent;
mod list;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use kelson_spec::fleet::FleetSpec;
use serde::Deserialize;
use serde_json::json;

pub use agent::Agent;
pub use list::answer;
pub use watch::follow;

use crate::entry::{Entry as _, ServiceEntry};
use crate::key::{Key, Keys, Place};
use crate::session::{Steps, within};
use crate::step::{Change, Looked, Outcome, Question, Step, Stored, Transaction};

/// Consul removes a service so long after its check has failed. It allows nothing shorter.
const REMOVED_AFTER: &str = "1m";
/// What Kelson knows its services by, in their `Meta`. Names of `meta` do not begin so.
const HOST: &str = "kelson-host";
const SERVICE: &str = "kelson-service";
const LEASE: &str = "kelson-lease";
const SINCE: &str = "kelson-since";

/// The agent, and what this host has there.
pub struct Consul {
    agent: Agent,
    keys: Keys,
    /// The key of the host.
    host: Key,
    /// A lease and the session that it is.
    session: Option<(i64, String)>,
    /// The services whose checks pass with each renewal, by their ids.
    services: BTreeSet<String>,
}

/// Performs one step. What has failed ends with the problem.
pub async fn perform(
    consul: Option<Consul>,
    step: Step,
    spec: &FleetSpec,
    limits: Steps,
) -> (Option<Consul>, Outcome) {
    let failed = |problem: String| (None, Outcome::Failed(problem));
    if let Step::Connect(_) = step {
        return match within(limits.silence, Consul::new(spec)).await {
            Ok((consul, address)) => (Some(consul), Outcome::Connected(address)),
            Err(problem) => failed(problem),
        };
    }
    let Some(mut consul) = consul else { return failed("the connection is lost".to_owned()) };
    match within(limits.call, consul.perform(step, limits.ttl)).await {
        Ok(outcome) => (Some(consul), outcome),
        Err(problem) => failed(problem),
    }
}

/// An entry of the key-value store.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Pair {
    key: String,
    modify_index: i64,
    /// In base64.
    value: Option<String>,
    session: Option<String>,
}

/// The answer to a transaction.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Done {
    results: Option<Vec<One>>,
}

#[derive(Deserialize)]
struct One {
    #[serde(rename = "KV")]
    pair: Pair,
}

impl Pair {
    fn value(&self) -> Vec<u8> {
        STANDARD.decode(self.value.as_deref().unwrap_or_default()).unwrap_or_default()
    }
}

/// A service of the agent, or of the catalogue.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    #[serde(rename = "ID")]
    id: String,
    service: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    port: u32,
    tags: Option<Vec<String>>,
    meta: Option<BTreeMap<String, String>>,
}

impl Service {
    /// What Kelson has registered it for, and with which lease. `None`: it is none of Kelson's.
    fn entry(self) -> Option<(Place, ServiceEntry, i64)> {
        let mut meta = self.meta?;
        let (host, service) = (meta.remove(HOST)?, meta.remove(SERVICE)?);
        let lease = meta.remove(LEASE)?.parse().ok()?;
        let since = meta.remove(SINCE).unwrap_or_default();
        let tags = self.tags.unwrap_or_default();
        let entry = ServiceEntry { address: self.address, port: self.port, tags, meta, since };
        Some((Place { name: self.service, host, service }, entry, lease))
    }
}

impl Consul {
    async fn new(spec: &FleetSpec) -> Result<(Consul, IpAddr), String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Own {
            member: Member,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Member {
            addr: String,
        }
        let agent = Agent::new(spec).await?;
        let own: Own = agent.get("/v1/agent/self").await?.json()?;
        let unfit = |_| agent.problem(&format!("{:?} is no address", own.member.addr));
        let address = own.member.addr.parse().map_err(unfit)?;
        let keys = Keys::new(&spec.prefix);
        let host = keys.host(spec.name.as_deref().unwrap_or_default());
        Ok((Consul { agent, keys, host, session: None, services: BTreeSet::new() }, address))
    }

    pub fn agent(&self) -> Agent {
        self.agent.clone()
    }

    async fn perform(&mut self, step: Step, ttl: Duration) -> Result<Outcome, String> {
        match step {
            // It was done by who calls this.
            Step::Connect(_) => Err("it is connected".to_owned()),
            Step::Renew(lease) => self.renew(lease).await,
            Step::Look(question) => self.look(question).await,
            Step::Grant => self.grant(ttl).await,
            Step::Revoke(lease) => self.revoke(lease).await,
            Step::Commit(transaction) => self.commit(transaction, ttl).await,
        }
    }

    async fn grant(&mut self, ttl: Duration) -> Result<Outcome, String> {
        #[derive(Deserialize)]
        struct Created {
            #[serde(rename = "ID")]
            id: String,
        }
        let body = json!({
            "Name": "kelson", "TTL": format!("{}s", ttl.as_secs()), "Behavior": "delete", "LockDelay": "0s",
        });
        let created: Created = self.agent.put("/v1/session/create", &body).await?.json()?;
        let lease = lease_of(&created.id).ok_or_else(|| self.agent.problem("the session has no UUID"))?;
        self.session = Some((lease, created.id));
        Ok(Outcome::Granted { lease, ttl })
    }

    /// The session of a lease, which the helper before this one may have begun. `None`: there is none.
    async fn session(&mut self, lease: i64) -> Result<Option<String>, String> {
        if self.session.as_ref().is_none_or(|(known, _)| *known != lease) {
            let host = self.pair().await?;
            let session = host.and_then(|pair| pair.session).filter(|id| lease_of(id) == Some(lease));
            self.session = session.map(|id| (lease, id));
        }
        Ok(self.session.as_ref().map(|(_, id)| id.clone()))
    }

    async fn renew(&mut self, lease: i64) -> Result<Outcome, String> {
        let Some(session) = self.session(lease).await? else { return Ok(Outcome::LeaseGone) };
        let renewed = self.agent.send(Method::PUT, &format!("/v1/session/renew/{session}"), None).await?;
        if renewed.is_missing() {
            self.session = None;
            return Ok(Outcome::LeaseGone);
        }
        renewed.ok()?;
        for id in &self.services {
            let passed =
                self.agent.send(Method::PUT, &format!("/v1/agent/check/pass/service:{id}"), None).await?;
            // After the next connection it is read what the agent has.
            if passed.is_missing() {
                return Err(self.agent.problem(&format!("it has lost the check of {id}")));
            }
            passed.ok()?;
        }
        Ok(Outcome::Renewed)
    }

    /// What the store has at the key of the host.
    async fn pair(&self) -> Result<Option<Pair>, String> {
        let answer = self.agent.get(&format!("/v1/kv/{}", path_of(&self.host))).await?;
        if answer.is_missing() {
            return Ok(None);
        }
        Ok(answer.json::<Vec<Pair>>()?.pop())
    }

    async fn look(&mut self, question: Question) -> Result<Outcome, String> {
        let host = self.pair().await?.map(|pair| {
            let lease = pair.session.as_deref().and_then(lease_of).unwrap_or_default();
            (Stored { value: pair.value(), lease }, pair.modify_index)
        });
        let registered = self.registered(&question.host).await?;
        self.services = registered.iter().map(|(id, ..)| id.clone()).collect();
        let entries = registered.into_iter().map(|(_, key, stored)| (key, stored)).collect();
        Ok(Outcome::Looked(Looked { host, entries }))
    }

    /// The services of a host that the agent has, with their ids.
    async fn registered(&self, host: &Key) -> Result<Vec<(String, Key, Stored)>, String> {
        let all: BTreeMap<String, Service> = self.agent.get("/v1/agent/services").await?.json()?;
        let registered = all.into_values().filter_map(|service| {
            let id = service.id.clone();
            let (Place { name, host: of, service }, entry, lease) = service.entry()?;
            let is_own = self.keys.host(&of) == *host;
            let stored = Stored { value: entry.to_value(), lease };
            is_own.then(|| (id, self.keys.service(&name, &of, &service), stored))
        });
        Ok(registered.collect())
    }

    /// Removes what has been registered with this lease, by this helper or by the one before it.
    async fn revoke(&mut self, lease: i64) -> Result<Outcome, String> {
        let session = self.session(lease).await?;
        for (id, _, stored) in self.registered(&self.host).await? {
            if stored.lease == lease {
                self.deregister(&id).await?;
            }
        }
        self.services.clear();
        if let Some(session) = session {
            let path = format!("/v1/session/destroy/{session}");
            self.agent.send(Method::PUT, &path, None).await?.ok()?;
        }
        self.session = None;
        Ok(Outcome::Revoked)
    }

    async fn commit(&mut self, transaction: Transaction, ttl: Duration) -> Result<Outcome, String> {
        let Transaction { host: (host, revision), lease, changes } = transaction;
        let Some(session) = self.session.as_ref().filter(|(of, _)| *of == lease).map(|(_, id)| id.clone())
        else {
            return Ok(Outcome::LeaseGone);
        };
        let key = path_of(&host);
        let mut steps = vec![match revision {
            0 => json!({"KV": {"Verb": "check-not-exists", "Key": key}}),
            index => json!({"KV": {"Verb": "check-index", "Key": key, "Index": index}}),
        }];
        for change in &changes {
            if let Change::Put(_, value) = change
                && change.key() == &host
            {
                let value = STANDARD.encode(value);
                steps.push(json!({"KV": {"Verb": "lock", "Key": key, "Value": value, "Session": session}}));
            }
        }
        let answer = self.agent.put("/v1/txn", &json!(steps)).await?;
        if answer.is_conflict() {
            return Ok(Outcome::Conflict);
        }
        let done: Done = answer.json()?;
        let revision = done.results.iter().flatten().map(|one| one.pair.modify_index).max();
        for change in changes.iter().filter(|change| change.key() != &host) {
            let Some(place) = self.keys.parse_service(change.key()) else { continue };
            match change {
                Change::Put(_, value) => self.register(&place, value, lease, ttl).await?,
                Change::Delete(_) => {
                    let id = id_of(&place);
                    self.deregister(&id).await?;
                    self.services.remove(&id);
                }
            }
        }
        Ok(Outcome::Committed { revision: revision.unwrap_or_default() })
    }

    async fn register(
        &mut self,
        place: &Place,
        value: &[u8],
        lease: i64,
        ttl: Duration,
    ) -> Result<(), String> {
        let entry = ServiceEntry::read(value).map_err(|error| error.to_string())?;
        let id = id_of(place);
        let mut meta = entry.meta;
        for (key, value) in [
            (HOST, &place.host),
            (SERVICE, &place.service),
            (LEASE, &lease.to_string()),
            (SINCE, &entry.since),
        ] {
            meta.insert(key.to_owned(), value.clone());
        }
        let body = json!({
            "ID": id, "Name": place.name, "Address": entry.address, "Port": entry.port, "Tags": entry.tags,
            "Meta": meta,
            "Check": {
                "Name": format!("Kelson: {} is up", place.service), "TTL": format!("{}s", ttl.as_secs()),
                "Status": "passing", "DeregisterCriticalServiceAfter": REMOVED_AFTER,
            },
        });
        self.agent.put("/v1/agent/service/register?replace-existing-checks=true", &body).await?.ok()?;
        self.services.insert(id);
        Ok(())
    }

    async fn deregister(&self, id: &str) -> Result<(), String> {
        let answer =
            self.agent.send(Method::PUT, &format!("/v1/agent/service/deregister/{id}"), None).await?;
        if answer.is_missing() { Ok(()) } else { answer.ok().map(drop) }
    }
}

/// Keys of Consul do not begin with a `/`. Those of hosts need no escapes in a path.
fn path_of(key: &[u8]) -> String {
    String::from_utf8_lossy(key).trim_start_matches('/').to_owned()
}

/// Of all services of an agent, which may be that of several hosts.
fn id_of(place: &Place) -> String {
    format!("{}:{}:{}", place.name, place.host, place.service)
}

/// The number of a session, which is a UUID: its first 60 bits.
fn lease_of(session: &str) -> Option<i64> {
    let digits: String = session.chars().filter(char::is_ascii_hexdigit).take(15).collect();
    i64::from_str_radix(&digits, 16).ok().filter(|lease| *lease > 0)
}
