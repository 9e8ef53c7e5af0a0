//! From the requirement of a service file to the condition that it stands for.
//!
//! - `path`: [`Paths`], which follows paths by inotify: by itself on memory file systems, through a process that may
//!   hang on all others.
//! - `device`: [`Paths`] as well, which see the type of a file.
//! - `network`: [`Network`], which follows rtnetlink and the hostname.
//! - `mounted`: [`Mounts`], which follows the table of mounts.
//! - `clock`: [`Clock`], which asks the kernel whether the clock is synchronised.
//! - `kernel_argument`: the kernel's command line, which never changes.
//! - `fact`: [`Facts`], which a process reads.
//! - `registered`: [`Registered`], which has what a helper finds in the registry of the fleet.
//! - a template: [`Templates`], which has what a helper says of it.
//! - `secret`: [`Paths`] as well, which see the file of a sealed value.

mod clock;
mod fact;
mod kernel_argument;
mod mounted;
mod network;
mod path;
mod registered;
mod secret;
mod template;

use std::path::Path;
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{Requirement, ServiceEvent};

use self::kernel_argument::KernelArgumentCondition;
use self::mounted::Mounts;
use self::secret::SecretCondition;
use crate::compose::{Any, Not};
use crate::condition::Condition;

pub use self::clock::{Clock, ClockSource};
pub use self::fact::{FactSource, Facts, FactsAnswer};
pub use self::network::Network;
pub use self::path::{PathCondition, Paths, path_helper};
pub use self::registered::{Registered, RegisteredCondition};
pub use self::template::{TemplateStates, Templates};

/// Where the conditions of a host come from, but those of its services. Cheap to clone.
#[derive(Clone)]
pub struct Sources {
    pub paths: Paths,
    pub network: Network,
    pub clock: Clock,
    pub mounts: Mounts,
    pub facts: Facts,
    pub registered: Registered,
    pub templates: Templates,
    /// The folder of the sealed secrets. Empty: this host has none.
    pub secrets: Arc<Path>,
    /// The runtime folder, which has the secrets of the sources of the configuration.
    pub runtime: Arc<Path>,
}

impl Sources {
    /// `launcher` starts the processes that watch paths on disks.
    pub fn new(launcher: Arc<dyn Launcher>) -> Sources {
        Sources {
            paths: Paths::new(launcher),
            network: Network::default(),
            clock: Clock::default(),
            mounts: Mounts::default(),
            facts: Facts::default(),
            registered: Registered::default(),
            templates: Templates::default(),
            secrets: Arc::from(Path::new("")),
            runtime: Arc::from(Path::new("")),
        }
    }

    /// Follows no path and no mount from now on. To be called before the root is unmounted, which the open tables of mounts
    /// hold.
    pub async fn end(&self) {
        self.paths.end().await;
        self.mounts.end().await;
    }

    /// Holds while the secret of this name is set.
    pub fn secret(&self, name: &str) -> Box<dyn Condition> {
        Box::new(SecretCondition::new(&self.paths, &self.secrets, &self.runtime, name))
    }

    /// Holds while the template of this source can be rendered.
    pub fn template(&self, source: &Path) -> Box<dyn Condition> {
        Box::new(self.templates.condition(source))
    }

    /// The condition that a requirement stands for; `service` makes those of services.
    pub fn condition(
        &self,
        requirement: &Requirement,
        service: &dyn Fn(&str, ServiceEvent) -> Box<dyn Condition>,
    ) -> Box<dyn Condition> {
        match requirement {
            Requirement::Service { name, event, .. } => service(name, *event),
            Requirement::Path(path) => Box::new(self.paths.condition(path)),
            Requirement::Network(aspects) => Box::new(self.network.all(aspects)),
            Requirement::TimeSynced => Box::new(self.clock.condition()),
            Requirement::Mount(path) => Box::new(self.mounts.condition(path)),
            Requirement::Interface(name) => Box::new(self.network.interface(name)),
            Requirement::Device(path) => Box::new(self.paths.device(path)),
            Requirement::KernelArgument(argument) => Box::new(KernelArgumentCondition::new(argument)),
            Requirement::Fact(test) if const { OWN.has(Feature::Inspect) } => {
                Box::new(self.facts.condition(test))
            }
            Requirement::Not(one) if const { OWN.has(Feature::Units) } => {
                Box::new(Not::new(self.condition(one, service), (**one).clone()))
            }
            Requirement::Registered { instances, .. } if const { OWN.has(Feature::Fleet) } => {
                Box::new(self.registered.condition(instances))
            }
            // No file that this build has read says so.
            Requirement::Not(_) | Requirement::Fact(_) | Requirement::Registered { .. } => {
                Box::new(Any::default())
            }
            Requirement::Any(alternatives) => {
                Box::new(Any::new(alternatives.iter().map(|one| self.condition(one, service)).collect()))
            }
        }
    }
}
