//! What a condition still lacks, as data; [`Display`](fmt::Display) is the one place that makes text of it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use kelson_spec::service::{NetworkAspect, Requirement, ServiceEvent};

/// One condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    Service {
        name: Arc<str>,
        event: ServiceEvent,
        /// Why it will not come by itself; `None`: it may.
        problem: Option<ServiceProblem>,
    },
    Path {
        /// As it stands in the service file.
        path: PathBuf,
        problem: Option<PathProblem>,
    },
    Network(NetworkAspect),
    TimeSynced,
    /// None of these alternatives holds; each with all that it lacks.
    Any(Vec<Vec<Missing>>),
}

/// Why nothing will start a service that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceProblem {
    Unknown,
    /// Its message.
    Failed(Arc<str>),
    Skipped,
    /// By an operator.
    Stopped,
    /// `start: manual`, and nobody has started it.
    Manual,
}

/// Why it is not known whether a path exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathProblem {
    /// Its file system does not answer.
    Silent,
    /// No process that looks for it could be started, and why.
    NoHelper(Arc<str>),
}

impl Missing {
    /// What each requirement that is no service stands for; one for each aspect of the network, and none for
    /// alternatives, which are requirements themselves.
    pub fn of(requirement: &Requirement) -> Vec<Missing> {
        match requirement {
            Requirement::Service { name, event, .. } => {
                vec![Missing::Service { name: Arc::from(name.as_str()), event: *event, problem: None }]
            }
            Requirement::Path(path) => vec![Missing::Path { path: path.clone(), problem: None }],
            Requirement::Network(aspects) => aspects.iter().copied().map(Missing::Network).collect(),
            Requirement::TimeSynced => vec![Missing::TimeSynced],
            Requirement::Any(_) => Vec::new(),
        }
    }

    /// The condition alone, without its problem.
    pub fn condition(&self) -> Missing {
        match self {
            Missing::Service { name, event, .. } => {
                Missing::Service { name: Arc::clone(name), event: *event, problem: None }
            }
            Missing::Path { path, .. } => Missing::Path { path: path.clone(), problem: None },
            other => other.clone(),
        }
    }

    /// Whether this is the same condition, or has it among its alternatives. Problems do not count.
    pub fn concerns(&self, other: &Missing) -> bool {
        match self {
            Missing::Any(alternatives) => alternatives.iter().flatten().any(|part| part.concerns(other)),
            leaf => leaf.condition() == other.condition(),
        }
    }

    /// The problem in words, where there is one.
    pub fn problem(&self) -> Option<String> {
        match self {
            Missing::Service { problem, .. } => problem.as_ref().map(ToString::to_string),
            Missing::Path { problem, .. } => problem.as_ref().map(ToString::to_string),
            Missing::Network(_) | Missing::TimeSynced | Missing::Any(_) => None,
        }
    }
}

/// The parts as one text.
pub fn sentence(missing: &[Missing]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// `service "db" to be up (it was stopped)`.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Service { name, event, .. } => {
                let to_be = match event {
                    ServiceEvent::Up => "be up",
                    ServiceEvent::Running => "be running",
                    ServiceEvent::Finished => "have finished",
                    ServiceEvent::Down => "be down",
                };
                write!(f, "service \"{name}\" to {to_be}")?;
            }
            Missing::Path { path, .. } => write!(f, "path {path:?} to exist")?,
            Missing::Network(NetworkAspect::Addresses) => f.write_str("network addresses")?,
            Missing::Network(NetworkAspect::Connectivity) => f.write_str("network connectivity")?,
            Missing::Network(NetworkAspect::Hostname) => f.write_str("a hostname")?,
            Missing::TimeSynced => f.write_str("the clock to be synchronised")?,
            Missing::Any(alternatives) if alternatives.is_empty() => f.write_str("one of no conditions")?,
            Missing::Any(alternatives) => {
                for (place, parts) in alternatives.iter().enumerate() {
                    let or = if place == 0 { "" } else { " or " };
                    match parts.len() {
                        0 | 1 => write!(f, "{or}{}", sentence(parts))?,
                        _ => write!(f, "{or}({})", sentence(parts))?,
                    }
                }
            }
        }
        match self.problem() {
            Some(problem) => write!(f, " ({problem})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ServiceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceProblem::Unknown => f.write_str("there is no such service"),
            ServiceProblem::Failed(message) => write!(f, "it failed: {message}"),
            ServiceProblem::Skipped => f.write_str("it was skipped"),
            ServiceProblem::Stopped => f.write_str("it was stopped"),
            ServiceProblem::Manual => f.write_str("nothing starts it; its start is manual"),
        }
    }
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathProblem::Silent => f.write_str("its file system does not answer"),
            PathProblem::NoHelper(error) => {
                write!(f, "no process to look for it could be started: {error}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> Missing {
        Missing::Path { path: path.into(), problem: None }
    }

    fn service(problem: Option<ServiceProblem>) -> Missing {
        Missing::Service { name: Arc::from("db"), event: ServiceEvent::Up, problem }
    }

    #[test]
    fn a_condition_is_found_by_what_it_is_and_not_by_its_text() {
        let hostname = Missing::Network(NetworkAspect::Hostname);
        let silent = Missing::Path { path: "/run/a hostname".into(), problem: Some(PathProblem::Silent) };
        assert!(silent.to_string().contains(&hostname.to_string()));
        assert!(!silent.concerns(&hostname));
        assert!(silent.concerns(&path("/run/a hostname")));
        assert!(service(Some(ServiceProblem::Stopped)).concerns(&service(None)));
        let up = Missing::Service { name: Arc::from("db"), event: ServiceEvent::Running, problem: None };
        assert!(!service(None).concerns(&up));
        let any = Missing::Any(vec![vec![path("/a"), hostname.clone()], vec![path("/b")]]);
        assert!(any.concerns(&path("/b")) && any.concerns(&hostname) && !any.concerns(&path("/c")));
    }

    #[test]
    fn the_text_names_the_problem() {
        for (problem, text) in [
            (None, "service \"db\" to be up"),
            (Some(ServiceProblem::Unknown), "service \"db\" to be up (there is no such service)"),
            (Some(ServiceProblem::Failed("exit 3".into())), "service \"db\" to be up (it failed: exit 3)"),
            (Some(ServiceProblem::Skipped), "service \"db\" to be up (it was skipped)"),
            (Some(ServiceProblem::Stopped), "service \"db\" to be up (it was stopped)"),
            (
                Some(ServiceProblem::Manual),
                "service \"db\" to be up (nothing starts it; its start is manual)",
            ),
        ] {
            assert_eq!(service(problem).to_string(), text);
        }
        let any = Missing::Any(vec![vec![path("/a"), Missing::TimeSynced], vec![path("/run//x")]]);
        assert_eq!(
            any.to_string(),
            "(path \"/a\" to exist, the clock to be synchronised) or path \"/run//x\" to exist"
        );
        assert_eq!(sentence(&[path("/a"), service(None)]), "path \"/a\" to exist, service \"db\" to be up");
    }
}
