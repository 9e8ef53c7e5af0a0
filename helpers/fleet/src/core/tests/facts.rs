//! Facts in the entry of the host, and variables in what services register.

use std::collections::HashMap;

use kelson_proto::v1::FleetFacts;

use super::*;

impl Fleet {
    fn facts(&mut self, facts: &[(&str, &str)]) {
        let pairs = facts.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        self.send(Command::Facts(FleetFacts { facts: pairs.collect() }));
    }

    fn register_at(&mut self, service: &str, text: &str) {
        self.send(Command::Register(FleetRegister {
            service: service.to_owned(),
            name: "web".to_owned(),
            port: 80,
            meta: HashMap::from([("at".to_owned(), text.to_owned())]),
            ..FleetRegister::default()
        }));
    }

    fn value(&self, key: &str) -> Option<serde_json::Value> {
        let stored = self.store.values.iter().find(|(known, _)| ***known == *key.as_bytes());
        stored.map(|(_, (stored, _))| serde_json::from_slice(&stored.value).unwrap())
    }
}

#[test]
fn a_new_fact_is_one_put_and_the_same_facts_are_none() {
    let mut fleet = registered(&[]);
    fleet.facts(&[("platform", "aws"), ("boot.id", "7")]);
    assert_eq!(fleet.changes(), [format!("put {HOST}")]);
    assert_eq!(fleet.value(HOST).unwrap()["facts"], serde_json::json!({"platform": "aws"}));
    fleet.facts(&[("platform", "aws"), ("boot.id", "8")]);
    let mut fleet = fleet.replace();
    fleet.send(Command::Complete(true));
    fleet.pass(SECOND);
    fleet.facts(&[("platform", "aws")]);
    fleet.pass(SECOND);
    assert_eq!(fleet.changes(), [""; 0], "nor does a new helper change them");
}

#[test]
fn a_variable_waits_for_its_fact() {
    let mut fleet = registered(&[]);
    fleet.register_at("a", "http://${host.name}:${port}");
    fleet.register_at("b", "${fact.platform}");
    let (a, b) = (key("a", "web"), key("b", "web"));
    assert_eq!(fleet.changes(), [format!("put {a}")]);
    assert_eq!(fleet.value(&a).unwrap()["meta"]["at"], "http://edge-1:80");
    assert_eq!(fleet.state("b").problem, "the facts of the host are not known yet");
    fleet.facts(&[("cpu.threads", "2")]);
    assert_eq!(fleet.changes(), [format!("put {HOST}")]);
    let problem = "a value of `meta` needs the fact platform, which this host does not have; kelsonctl facts lists what it has";
    assert_eq!(
        (fleet.state("b").state.as_str(), fleet.state("b").problem.as_str()),
        ("registering", problem)
    );
    fleet.facts(&[("platform", "aws")]);
    assert_eq!(fleet.changes(), [format!("put {HOST}"), format!("put {b}")]);
    assert_eq!(fleet.value(&b).unwrap()["meta"]["at"], "aws");
    assert_eq!(fleet.state("b").state, "registered");
    // A new helper has no facts at first, and leaves what is there.
    let mut fleet = fleet.replace();
    fleet.register_at("a", "http://${host.name}:${port}");
    fleet.register_at("b", "${fact.platform}");
    fleet.send(Command::Complete(true));
    fleet.pass(SECOND);
    assert_eq!((fleet.changes(), fleet.state("b").state.as_str()), (vec![], "registered"));
    fleet.facts(&[("platform", "aws")]);
    assert_eq!(fleet.changes(), [""; 0]);
}
