//! The store of a fleet: a member of etcd, or the agent of Consul on this host.

use std::collections::BTreeSet;

use etcd_client::{KvClient, WatchClient};
use kelson_proto::v1::{FleetPage, FleetQuestion};
use kelson_spec::fleet::FleetSpec;

use crate::consul::{self, Agent, Consul};
use crate::key::Keys;
use crate::list;
use crate::session::{self, Session, Steps};
use crate::step::{Outcome, Step};
use crate::watch::Watch;

/// A connection that has not failed.
pub enum Member {
    Etcd(Box<Session>),
    Consul(Consul),
}

/// What a step gives: the connection, unless it has failed.
pub type Performed = (Option<Member>, Outcome);

/// Performs one step. A connection with which something has failed ends.
pub async fn perform(member: Option<Member>, step: Step, spec: FleetSpec, limits: Steps) -> Performed {
    if spec.consul.is_some() {
        let consul =
            member.and_then(|member| if let Member::Consul(one) = member { Some(one) } else { None });
        let (consul, outcome) = consul::perform(consul, step, &spec, limits).await;
        return (consul.map(Member::Consul), outcome);
    }
    let session = member.and_then(|member| if let Member::Etcd(one) = member { Some(*one) } else { None });
    let (session, outcome) = session::perform(session, step, spec, limits).await;
    (session.map(|session| Member::Etcd(Box::new(session))), outcome)
}

/// Reads beside the steps.
#[derive(Clone)]
pub enum Reader {
    Etcd(Box<(KvClient, WatchClient)>),
    Consul(Agent),
}

impl Member {
    /// It ends with the connection.
    pub fn reader(&self) -> Reader {
        match self {
            Member::Etcd(session) => Reader::Etcd(Box::new((session.reader(), session.watcher()))),
            Member::Consul(consul) => Reader::Consul(consul.agent()),
        }
    }
}

impl Reader {
    /// Answers a question: one page in parts. `host`: the one whose plans may be changed.
    pub async fn answer(self, keys: Keys, host: String, question: FleetQuestion) -> Vec<FleetPage> {
        match self {
            Reader::Etcd(clients) => list::answer(clients.0, keys, host, question).await,
            Reader::Consul(agent) => consul::answer(agent, keys, question).await,
        }
    }

    /// Follows these names. Must be called on the runtime.
    pub fn watch(&self, keys: Keys, names: BTreeSet<String>) -> Watch {
        match self {
            Reader::Etcd(clients) => {
                let (reader, watcher) = *clients.clone();
                Watch::etcd(reader, watcher, keys, names)
            }
            Reader::Consul(agent) => Watch::consul(agent.clone(), names),
        }
    }
}
