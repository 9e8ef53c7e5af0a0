//! The metrics of a fleet and of what services register, which follow all others where the build has fleets.

use std::time::SystemTime;

use kelson_proto::v1::metric_family::Type::Gauge;

use super::families::{Family, host};

/// As [`families::FAMILIES`](super::families::FAMILIES).
pub const FAMILIES: &[Family] = &[
    host(
        Gauge,
        "kelson_fleet_connected",
        &[],
        "1 if the store of the fleet confirms that the host is registered; absent without a fleet.",
        |host, to| to.flag(&[], host.fleet.connection.as_ref().map(|connection| connection.connected)),
    ),
    host(
        Gauge,
        "kelson_fleet_last_confirmed_seconds",
        &[],
        "When the store last confirmed it, since 1970; absent before.",
        |host, to| {
            let confirmed = host.fleet.connection.as_ref().and_then(|connection| connection.last_confirmed);
            let at = confirmed.and_then(|at| SystemTime::try_from(at).ok());
            to.span(&[], at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()));
        },
    ),
    host(
        Gauge,
        "kelson_registered",
        &["service"],
        "1 if the service is registered; absent for one that registers nothing.",
        |host, to| {
            for registration in &host.fleet.registrations {
                to.flag(&[&registration.service], registration.state == "registered");
            }
        },
    ),
];
