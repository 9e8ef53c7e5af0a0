//! What a service needs: the entries of `depends` and `when`.

mod nesting;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::facts::FactTest;
use crate::fleet::Instances;

/// One entry of `depends:` or `when:`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requirement {
    Service {
        name: String,
        #[serde(default)]
        event: ServiceEvent,
        #[serde(default)]
        when_down: WhenDown,
    },
    Path(PathBuf),
    Network(Vec<NetworkAspect>),
    /// An interface of this name is up and has a cable.
    Interface(String),
    TimeSynced,
    Any(#[serde(deserialize_with = "nesting::alternatives")] Vec<Requirement>),
    /// A file system is mounted at this path.
    Mount(PathBuf),
    /// The kernel's command line has this argument: `NAME`, with any value or none, or `NAME=VALUE`.
    KernelArgument(String),
    /// A device is at this path, or a link that leads to one.
    Device(PathBuf),
    /// This one does not hold. Not for a service, nor for alternatives.
    Not(#[serde(deserialize_with = "nesting::negated")] Box<Requirement>),
    /// A fact about the host is so.
    #[cfg_attr(not(feature = "inspect"), serde(skip))]
    Fact(FactTest),
    /// Instances are registered in the fleet.
    #[cfg_attr(not(feature = "fleet"), serde(skip))]
    Registered {
        instances: Instances,
        when_down: WhenDown,
    },
}

impl Requirement {
    /// That an event of a service holds; what runs already does not mind when it no longer does.
    pub fn service(name: impl Into<String>, event: ServiceEvent) -> Self {
        Requirement::Service { name: name.into(), event, when_down: WhenDown::Ignore }
    }

    /// Calls `visit` for each entry that is neither `any` nor `not`, and for each in those, in the order of the file.
    pub fn each_of<'s>(list: &'s [Requirement], visit: &mut impl FnMut(&'s Requirement)) {
        for one in list {
            match one {
                Requirement::Any(list) => Requirement::each_of(list, visit),
                Requirement::Not(inner) => Requirement::each_of(std::slice::from_ref(inner), visit),
                leaf => visit(leaf),
            }
        }
    }

    /// The service after which this orders a start, without a need for it: an entry of the key `after`.
    pub fn after(&self) -> Option<&str> {
        match self {
            Requirement::Service { name, event: ServiceEvent::Settled, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether it asks for this event of this service, whatever comes of it later. One alternative of several does not.
    pub fn is_for(&self, service: &str, wanted: ServiceEvent) -> bool {
        matches!(self, Requirement::Service { name, event, .. } if name == service && *event == wanted)
    }
}

/// The reaction of a running service when one that it needs goes down: when that one's run ends, for whatever
/// reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WhenDown {
    /// It runs on.
    #[default]
    Ignore,
    /// It is stopped, and stays so until somebody starts it.
    Stop,
    /// It is stopped, and starts again once its whole gate holds.
    Restart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ServiceEvent {
    #[default]
    Up,
    Running,
    Finished,
    Down,
    /// It is not on its way: up, down, or its last start has failed. This orders starts without a need; the key `after`.
    Settled,
}

impl ServiceEvent {
    /// Those that an entry of `depends` can name.
    pub const ALL: [ServiceEvent; 4] =
        [ServiceEvent::Up, ServiceEvent::Running, ServiceEvent::Finished, ServiceEvent::Down];

    /// The word of the service file.
    pub fn name(self) -> &'static str {
        match self {
            ServiceEvent::Up => "up",
            ServiceEvent::Running => "running",
            ServiceEvent::Finished => "finished",
            ServiceEvent::Down => "down",
            ServiceEvent::Settled => "settled",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkAspect {
    /// An interface other than loopback has an address.
    Addresses,
    /// There is a default route.
    Connectivity,
    /// The hostname is set.
    Hostname,
    /// The interface of this name is up and has a cable.
    Interface(String),
}

impl NetworkAspect {
    /// Those that are a word of the service file.
    pub const WORDS: [(&str, NetworkAspect); 3] = [
        ("addresses", NetworkAspect::Addresses),
        ("connectivity", NetworkAspect::Connectivity),
        ("hostname", NetworkAspect::Hostname),
    ];

    /// The word of the service file, or the name of the interface.
    pub fn name(&self) -> &str {
        match self {
            NetworkAspect::Addresses => "addresses",
            NetworkAspect::Connectivity => "connectivity",
            NetworkAspect::Hostname => "hostname",
            NetworkAspect::Interface(name) => name,
        }
    }
}
