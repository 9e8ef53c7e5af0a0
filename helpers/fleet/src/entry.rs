//! Values in the store, as JSON.

use std::collections::BTreeMap;
use std::time::SystemTime;

use kelson_proto::v1::{FleetCause, FleetHost, FleetInstance};
use prost_types::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::key::Place;

/// Of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostEntry {
    pub id: String,
    pub boot_id: String,
    pub version: String,
    pub health: String,
    pub addresses: Vec<String>,
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseEntry>,
    pub since: String,
}

/// One cause in the entry of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CauseEntry {
    /// Empty: the host itself.
    pub service: String,
    pub cause: String,
}

/// Of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceEntry {
    pub address: String,
    pub port: u32,
    pub tags: Vec<String>,
    pub meta: BTreeMap<String, String>,
    pub since: String,
}

/// Says since when it has been registered.
pub trait Entry: Serialize + DeserializeOwned + PartialEq {
    fn since(&mut self) -> &mut String;

    /// # Errors
    /// What is wrong with the value.
    fn read(value: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(value)
    }

    fn to_value(&self) -> Vec<u8> {
        // Maps have texts for keys, so it always can be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Entry for HostEntry {
    fn since(&mut self) -> &mut String {
        &mut self.since
    }
}

impl Entry for ServiceEntry {
    fn since(&mut self) -> &mut String {
        &mut self.since
    }
}

impl HostEntry {
    fn show(self, name: String) -> Result<FleetHost, String> {
        Ok(FleetHost {
            name,
            since: parse_time(&self.since)?,
            id: self.id,
            boot_id: self.boot_id,
            version: self.version,
            health: self.health,
            addresses: self.addresses,
            labels: self.labels.into_iter().collect(),
            facts: self.facts.into_iter().collect(),
            problem: String::new(),
            causes: self
                .causes
                .into_iter()
                .map(|CauseEntry { service, cause }| FleetCause { service, cause })
                .collect(),
        })
    }
}

impl ServiceEntry {
    fn show(self, Place { name, host, service }: Place) -> Result<FleetInstance, String> {
        Ok(FleetInstance {
            name,
            host,
            service,
            since: parse_time(&self.since)?,
            address: self.address,
            port: self.port,
            tags: self.tags,
            meta: self.meta.into_iter().collect(),
            problem: String::new(),
        })
    }
}

/// A host as the store has it.
pub fn host(name: String, value: &[u8]) -> FleetHost {
    let read = HostEntry::read(value).map_err(|error| unfit(&error));
    let shown = read.and_then(|entry| entry.show(name.clone()));
    shown.unwrap_or_else(|problem| FleetHost { name, problem, ..FleetHost::default() })
}

/// A registered service as the store has it.
pub fn instance(place: Place, value: &[u8]) -> FleetInstance {
    let read = ServiceEntry::read(value).map_err(|error| unfit(&error));
    let shown = read.and_then(|entry| entry.show(place.clone()));
    shown.unwrap_or_else(|problem| {
        let Place { name, host, service } = place;
        FleetInstance { name, host, service, problem, ..FleetInstance::default() }
    })
}

fn unfit(error: &serde_json::Error) -> String {
    format!("its entry is none of Kelson's: {error}")
}

/// Whole seconds, as RFC 3339 has them.
pub fn time(at: SystemTime) -> String {
    Timestamp { nanos: 0, ..Timestamp::from(at) }.to_string()
}

fn parse_time(text: &str) -> Result<Option<Timestamp>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("its entry is none of Kelson's: since: {text:?} is no time"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_host_is_shown_as_it_was_written() {
        let at = UNIX_EPOCH + Duration::from_millis(1_764_000_000_900);
        let entry = HostEntry {
            id: "7".into(),
            health: "healthy".into(),
            addresses: vec!["10.0.0.1".into()],
            labels: [("role".into(), "edge".into())].into(),
            since: time(at),
            ..HostEntry::default()
        };
        let text = r#"{"id":"7","bootId":"","version":"","health":"healthy","addresses":["10.0.0.1"],"labels":{"role":"edge"},"since":"2025-11-24T16:00:00Z"}"#;
        assert_eq!(String::from_utf8(entry.to_value()).unwrap(), text);
        let shown = host("edge-1".into(), text.as_bytes());
        assert_eq!((shown.name.as_str(), shown.id.as_str(), shown.problem.as_str()), ("edge-1", "7", ""));
        assert_eq!(shown.since.unwrap().seconds, 1_764_000_000);
    }

    #[test]
    fn what_others_wrote_is_shown_with_the_problem() {
        for value in [&b"\xff"[..], b"", b"7", br#"{"id":7}"#, br#"{"since":"yesterday"}"#] {
            let shown = host("a".into(), value);
            assert_eq!(shown.name, "a");
            assert!(shown.problem.starts_with("its entry is none of Kelson's: "), "{}", shown.problem);
        }
        let place = Place { name: "web".into(), host: "a".into(), service: "b".into() };
        let shown = instance(place.clone(), br#"{"port":-1}"#);
        assert!(shown.host == "a" && shown.problem.contains("-1"), "{}", shown.problem);
        // A later version may say more.
        let shown = instance(place, br#"{"address":"10.0.0.1","port":80,"weight":3}"#);
        assert_eq!((shown.port, shown.problem.as_str()), (80, ""));
    }
}
