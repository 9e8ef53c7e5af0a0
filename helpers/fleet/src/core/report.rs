//! What PID 1 knows, and what it has to be sent.

use std::collections::{BTreeMap, VecDeque};

use kelson_proto::v1::fleet_report::Report;
use kelson_proto::v1::{FleetConnection, FleetServiceState};

use crate::clock::{Moment, micros};

/// The state of a service that is not registered.
pub const ABSENT: &str = "absent";

#[derive(Default)]
pub struct Reports {
    queue: VecDeque<Report>,
    /// What PID 1 knows.
    pub connection: Option<FleetConnection>,
    services: BTreeMap<String, FleetServiceState>,
}

impl Reports {
    pub fn push(&mut self, report: Report) {
        self.queue.push_back(report);
    }

    /// When the store confirmed the registration last. `None`: not since the boot.
    pub fn contact(&mut self, at: Option<Moment>) {
        self.push(Report::Contact(at.map_or(0, micros)));
    }

    pub fn trouble(&mut self, text: String) {
        self.push(Report::Trouble(text));
    }

    pub fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.connected)
    }

    pub fn next(&mut self) -> Option<Report> {
        self.queue.pop_front()
    }

    /// How the connection is now.
    pub fn set_connection(&mut self, connection: FleetConnection) {
        if self.connection.as_ref() != Some(&connection) {
            self.push(Report::Connection(connection.clone()));
            self.connection = Some(connection);
        }
    }

    /// How a service is now.
    pub fn set_service(&mut self, state: FleetServiceState) {
        let old = match state.state == ABSENT {
            true => self.services.remove(&state.service),
            false => self.services.insert(state.service.clone(), state.clone()),
        };
        if old.as_ref() != Some(&state) {
            self.push(Report::Service(state));
        }
    }
}
