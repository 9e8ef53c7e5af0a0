//! Every number that was measured, by row, peer and round: the file that `hack/bench-table` reads.

use std::collections::BTreeMap;

use crate::system::System;

/// The samples of each round.
type Rounds = Vec<Vec<f64>>;

#[derive(Default)]
pub struct Figures {
    values: BTreeMap<String, BTreeMap<&'static str, Rounds>>,
}

impl Figures {
    pub fn add(&mut self, row: &str, system: System, round: usize, value: f64) {
        let rounds = self.values.entry(row.to_owned()).or_default().entry(system.name()).or_default();
        if rounds.len() <= round {
            rounds.resize_with(round + 1, Vec::new);
        }
        rounds[round].push(value);
    }

    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!(self.values)
    }
}
