//! A host that starts a database and a web server, and is powered off.

use kelson_proto::v1::{Event, GraphEdge, State};

use crate::samples::{edge, event};

/// Events at these milliseconds after the first, with numbers from 1 on.
pub fn sampled(events: &[(i64, &str, State, &str)]) -> Vec<Event> {
    let sampled = |(seq, &(millis, service, state, message)): (u64, &(i64, &str, State, &str))| {
        let (seconds, nanos) = (1_795_254_485 + millis.div_euclid(1000), millis.rem_euclid(1000) * 1_000_000);
        let time = Some(prost_types::Timestamp { seconds, nanos: nanos as i32 });
        Event { time, ..event(seq, service, state, message) }
    };
    (1..).zip(events).map(sampled).collect()
}

pub fn events() -> Vec<Event> {
    sampled(&[
        (0, "db", State::Preparing, "all that it waits for holds"),
        (0, "db", State::Starting, "run 1"),
        (0, "web", State::Waiting, "waiting for service \"db\" to be up"),
        (300, "db", State::Running, "running, ready after 300 ms"),
        (300, "web", State::Starting, "run 1"),
        (320, "web", State::Starting, "PID 9 started"),
        (500, "web", State::Running, "running"),
        (800, "", State::Unspecified, "power off <now>"),
        (800, "web", State::Stopping, "stopped: the host is stopping"),
        (1000, "web", State::Stopped, "stopped: the host is stopping"),
        (1000, "db", State::Stopping, "stopped: the host is stopping"),
        (1100, "db", State::Stopped, "stopped: the host is stopping"),
    ])
}

pub fn edges() -> Vec<GraphEdge> {
    vec![edge("web", "db", "up", false)]
}
