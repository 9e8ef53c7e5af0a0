//! The parts of a condition that are still missing, as data; [`Display`](fmt::Display) is the one place that
//! makes text of them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::facts::FactTest;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::fleet::Instances;
use kelson_spec::service::{NetworkAspect, PathEvent, PathTrigger, Requirement, ServiceEvent};
use kelson_spec::units::duration_text;
use kelson_sys::text::first_of_many;
use prost_types::Timestamp;

use crate::answers::Count;

/// One condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub subject: Subject,
    /// Why it will not come by itself, or is not known; `None`: it may come.
    pub reason: Option<Reason>,
}

/// The subject of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Service {
        name: Arc<str>,
        event: ServiceEvent,
    },
    /// As it stands in the service file.
    Path(PathBuf),
    Network(NetworkAspect),
    Interface(String),
    TimeSynced,
    Mount(PathBuf),
    KernelArgument(String),
    Fact(FactTest),
    /// As it stands in the service file.
    Device(PathBuf),
    /// The secret of this name is set.
    Secret(String),
    /// Something comes in on one of these sockets of the service: their names as text.
    Connection(Arc<str>),
    /// A path that starts the service.
    Trigger(PathTrigger),
    /// Instances in the registry of the fleet.
    Registered(Arc<Instances>),
    /// The template of this source can be rendered.
    Template(PathBuf),
    /// This one does not hold.
    Not(Box<Requirement>),
    /// One of these; each is all that one alternative lacks.
    Any(Vec<Vec<Missing>>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("there is no such service")]
    UnknownService,
    /// Its message.
    #[error("it failed: {0}")]
    Failed(Arc<str>),
    #[error("it was skipped")]
    Skipped,
    /// By an operator.
    #[error("it was stopped")]
    Stopped,
    /// `start: manual`, and nobody has started it.
    #[error("nothing starts it; its start is manual")]
    Manual,
    /// Its name.
    #[error("set it with kelsonctl secret set {0}")]
    Unset(Arc<str>),
    /// The value of a fact.
    #[error("it is {0}")]
    Value(Arc<str>),
    #[error("this host does not have it")]
    NoFact,
    /// Why the facts are not known.
    #[error("{0}")]
    NotRead(Arc<str>),
    #[error("it is not a device")]
    NoDevice,
    /// The file system of a path.
    #[error("its file system does not answer")]
    Silent,
    /// Why there is none.
    #[error("no process to look for it could be started: {0}")]
    NoHelper(Arc<str>),
    #[error("this machine has no fleet; write fleet in its machine file")]
    NoFleet,
    /// Since PID 1 wants to know it.
    #[error("the registry has not answered yet")]
    Unanswered,
    #[error("{}", of_registry(count, *min))]
    TooFew { count: Count, min: u32 },
    /// For so long.
    #[error("the registry has not answered for {}", duration_text(*.0))]
    SilentRegistry(Duration),
    #[error("kelson-fleet has not rendered it yet")]
    NotRendered,
    /// Why a template cannot be rendered.
    #[error("{0}")]
    Template(Arc<str>),
}

fn of_registry(Count { count, all, as_of }: &Count, min: u32) -> String {
    if const { !OWN.has(Feature::Fleet) } {
        return String::new();
    }
    let mut text = format!("{count} of {min}");
    let others = all.saturating_sub(*count);
    if others > 0 {
        text.push_str(&format!("; {others} without the tag"));
    }
    if let Some(at) = as_of {
        let at = Timestamp { nanos: 0, ..Timestamp::from(*at) };
        text.push_str(&format!("; as of {at}, the registry does not answer"));
    }
    text
}

impl From<Subject> for Missing {
    fn from(subject: Subject) -> Missing {
        Missing { subject, reason: None }
    }
}

impl Missing {
    /// Whether this is about the same condition, or has it among its alternatives.
    pub fn concerns(&self, other: &Subject) -> bool {
        match &self.subject {
            Subject::Any(alternatives) => alternatives.iter().flatten().any(|part| part.concerns(other)),
            leaf => leaf == other,
        }
    }
}

impl Subject {
    /// Returns the subjects of a requirement; one for each aspect of the network, and none for alternatives,
    /// which are requirements themselves.
    pub fn of(requirement: &Requirement) -> Vec<Subject> {
        match requirement {
            Requirement::Service { name, event, .. } => {
                vec![Subject::Service { name: Arc::from(name.as_str()), event: *event }]
            }
            Requirement::Path(path) => vec![Subject::Path(path.clone())],
            Requirement::Network(aspects) => aspects.iter().map(Subject::of_network).collect(),
            Requirement::Interface(name) => vec![Subject::Interface(name.clone())],
            Requirement::TimeSynced => vec![Subject::TimeSynced],
            Requirement::Mount(path) => vec![Subject::Mount(path.clone())],
            Requirement::KernelArgument(argument) => vec![Subject::KernelArgument(argument.clone())],
            Requirement::Fact(test) => vec![Subject::Fact(test.clone())],
            Requirement::Device(path) => vec![Subject::Device(path.clone())],
            Requirement::Not(one) => vec![Subject::Not(one.clone())],
            Requirement::Registered { instances, .. } => {
                vec![Subject::Registered(Arc::new(instances.clone()))]
            }
            Requirement::Any(_) => Vec::new(),
        }
    }

    /// The subject of one entry of `network`.
    pub fn of_network(aspect: &NetworkAspect) -> Subject {
        match aspect {
            NetworkAspect::Interface(name) => Subject::Interface(name.clone()),
            aspect => Subject::Network(aspect.clone()),
        }
    }

    /// The kind of condition, and which one of that kind: the service, the path as its file has it, the aspect of the
    /// network, the argument, or nothing.
    pub fn name(&self) -> (&'static str, String) {
        match self {
            Subject::Service { name, .. } => ("service", name.to_string()),
            Subject::Path(path) => ("path", path.display().to_string()),
            Subject::Network(aspect) => ("network", aspect.name().to_owned()),
            Subject::Interface(name) => ("interface", name.clone()),
            Subject::TimeSynced => ("time", String::new()),
            Subject::Mount(path) => ("mount", path.display().to_string()),
            Subject::KernelArgument(argument) => ("kernel_argument", argument.clone()),
            Subject::Fact(test) => ("fact", test.name.clone()),
            Subject::Device(path) => ("device", path.display().to_string()),
            Subject::Secret(name) => ("secret", name.clone()),
            Subject::Connection(names) => ("socket", names.to_string()),
            Subject::Trigger(trigger) => ("trigger", trigger.to_string()),
            Subject::Registered(instances) => ("registered", instances.name.clone()),
            Subject::Template(source) => ("template", source.display().to_string()),
            Subject::Not(_) => ("not", String::new()),
            Subject::Any(_) => ("any", String::new()),
        }
    }
}

/// The parts as one text, which names the first of many: a service may wait for thousands, and each one that comes makes
/// a new text.
pub fn sentence(missing: &[Missing]) -> String {
    first_of_many(missing.iter(), ", ")
}

/// `service "db" to be up (it was stopped)`.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.subject.fmt(f)?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Service { name, event } => {
                let to_be = match event {
                    ServiceEvent::Up => "be up",
                    ServiceEvent::Running => "be running",
                    ServiceEvent::Finished => "have finished",
                    ServiceEvent::Down => "be down",
                    ServiceEvent::Settled => "be up or down",
                };
                write!(f, "service \"{name}\" to {to_be}")
            }
            Subject::Path(path) => write!(f, "path {path:?} to exist"),
            Subject::Network(NetworkAspect::Addresses) => f.write_str("network addresses"),
            Subject::Network(NetworkAspect::Connectivity) => f.write_str("network connectivity"),
            Subject::Network(NetworkAspect::Hostname) => f.write_str("a hostname"),
            Subject::Interface(name) | Subject::Network(NetworkAspect::Interface(name)) => {
                write!(f, "interface {name} to be up")
            }
            Subject::TimeSynced => f.write_str("the clock to be synchronised"),
            Subject::Mount(path) => write!(f, "a file system to be mounted at {path:?}"),
            Subject::KernelArgument(argument) => write!(f, "kernel argument \"{argument}\""),
            Subject::Fact(test) => write!(f, "fact {test}"),
            Subject::Device(path) => write!(f, "device {path:?} to exist"),
            Subject::Secret(name) => write!(f, "secret \"{name}\" to be set"),
            Subject::Connection(names) => write!(f, "a connection on socket {names}"),
            Subject::Trigger(PathTrigger { event, path }) => match event {
                PathEvent::Exists => write!(f, "path {path:?} to exist"),
                PathEvent::NotEmpty => write!(f, "something in {path:?}"),
                PathEvent::Changed => write!(f, "a change of {path:?}"),
                PathEvent::Modified => write!(f, "a write to {path:?}"),
            },
            Subject::Registered(instances) => instances.fmt(f),
            Subject::Template(source) => write!(f, "template {source:?} to be rendered"),
            // Alternatives have no subject of their own, and cannot be negated.
            Subject::Not(one) => {
                write!(f, "not {}", first_of_many(Subject::of(one).iter(), ", "))
            }
            Subject::Any(alternatives) if alternatives.is_empty() => f.write_str("one of no conditions"),
            Subject::Any(alternatives) => {
                let alternative = |parts: &Vec<Missing>| match parts.len() {
                    0 | 1 => sentence(parts),
                    _ => format!("({})", sentence(parts)),
                };
                f.write_str(&first_of_many(alternatives.iter().map(alternative), " or "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> Missing {
        Subject::Path(path.into()).into()
    }

    fn db(event: ServiceEvent) -> Subject {
        Subject::Service { name: Arc::from("db"), event }
    }

    fn service(reason: Option<Reason>) -> Missing {
        Missing { subject: db(ServiceEvent::Up), reason }
    }

    #[test]
    fn a_condition_is_found_by_what_it_is_and_not_by_its_text() {
        let hostname = Subject::Network(NetworkAspect::Hostname);
        let silent = Missing { reason: Some(Reason::Silent), ..path("/run/a hostname") };
        assert!(silent.to_string().contains(&hostname.to_string()));
        assert!(!silent.concerns(&hostname));
        assert!(silent.concerns(&path("/run/a hostname").subject));
        assert!(service(Some(Reason::Stopped)).concerns(&db(ServiceEvent::Up)));
        assert!(!service(None).concerns(&db(ServiceEvent::Running)));
        let alternatives = vec![vec![path("/a"), hostname.clone().into()], vec![path("/b")]];
        let any = Missing::from(Subject::Any(alternatives));
        assert!(any.concerns(&path("/b").subject) && any.concerns(&hostname));
        assert!(!any.concerns(&path("/c").subject));
    }

    #[test]
    fn of_many_the_first_are_named() {
        let paths = |count: usize| (0..count).map(|n| path(&format!("/{n}"))).collect::<Vec<_>>();
        let text = sentence(&paths(10_000));
        assert!(text.starts_with("path \"/0\" to exist, path \"/1\" to exist, "), "{text}");
        assert!(text.ends_with("path \"/7\" to exist, 9992 more"), "{text}");
        assert!(sentence(&paths(8)).ends_with("path \"/7\" to exist"));
        let any = Subject::Any(paths(10_000).into_iter().map(|one| vec![one]).collect());
        assert!(any.to_string().ends_with(" or path \"/7\" to exist or 9992 more"), "{any}");
    }

    #[test]
    fn the_text_names_the_problem() {
        for (reason, text) in [
            (None, "service \"db\" to be up"),
            (Some(Reason::UnknownService), "service \"db\" to be up (there is no such service)"),
            (Some(Reason::Failed("exit 3".into())), "service \"db\" to be up (it failed: exit 3)"),
            (Some(Reason::Skipped), "service \"db\" to be up (it was skipped)"),
            (Some(Reason::Stopped), "service \"db\" to be up (it was stopped)"),
            (Some(Reason::Manual), "service \"db\" to be up (nothing starts it; its start is manual)"),
        ] {
            assert_eq!(service(reason).to_string(), text);
        }
        let any = Subject::Any(vec![vec![path("/a"), Subject::TimeSynced.into()], vec![path("/run//x")]]);
        assert_eq!(
            any.to_string(),
            "(path \"/a\" to exist, the clock to be synchronised) or path \"/run//x\" to exist"
        );
        assert_eq!(sentence(&[path("/a"), service(None)]), "path \"/a\" to exist, service \"db\" to be up");
    }
}
