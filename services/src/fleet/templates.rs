//! The templates of services: what the helper says of them, and which services have to look at their files again.
//!
//! The helper keeps the texts in the runtime folder. A service that runs looks at them whenever one of them may be another one:
//! once more than needed changes nothing, as `kelson-task` compares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_conditions::TemplateStates;
use kelson_proto::v1;
use tokio::sync::watch;

use super::cut_off::Act;
use crate::model::Snapshot;

/// A service that has templates.
#[derive(Default, PartialEq, Eq)]
struct User {
    sources: Vec<PathBuf>,
    /// Its run has begun.
    runs: bool,
}

/// See the module.
pub struct Templates {
    users: BTreeMap<Arc<str>, User>,
    states: TemplateStates,
    publish: watch::Sender<TemplateStates>,
    /// The helper knows all of them.
    is_sent: bool,
    /// Those that have to look at their files.
    to_renew: BTreeSet<Arc<str>>,
    /// Those that do.
    renewing: BTreeSet<Arc<str>>,
}

impl Templates {
    pub fn new(publish: watch::Sender<TemplateStates>) -> Templates {
        Templates {
            users: BTreeMap::new(),
            states: TemplateStates::new(),
            publish,
            is_sent: true,
            to_renew: BTreeSet::new(),
            renewing: BTreeSet::new(),
        }
    }

    /// A service is so now; `None`: there is none of this name.
    pub fn follow(&mut self, service: &Arc<str>, snapshot: Option<&Snapshot>) {
        let spec = snapshot.and_then(|snapshot| snapshot.spec.as_ref());
        let sources: Vec<PathBuf> =
            spec.iter().flat_map(|spec| &spec.templates).map(|one| one.source.clone()).collect();
        let before = self.users.get(service);
        if sources.is_empty() && before.is_none() {
            return;
        }
        let runs = snapshot.is_some_and(|snapshot| snapshot.runs);
        let (ran, is_same) = before.map_or((false, false), |before| (before.runs, before.sources == sources));
        if runs && !ran {
            // They may have changed between its preparation and its spawn.
            self.to_renew.insert(Arc::clone(service));
        }
        match sources.is_empty() {
            true => drop(self.users.remove(service)),
            false => drop(self.users.insert(Arc::clone(service), User { sources, runs })),
        }
        if !is_same {
            self.is_sent = false;
            let users = &self.users;
            self.states.retain(|source, _| users.values().any(|user| user.sources.contains(source)));
        }
    }

    fn sources(&self) -> BTreeSet<&Path> {
        self.users.values().flat_map(|user| user.sources.iter().map(PathBuf::as_path)).collect()
    }

    /// Whether the helper has to be sent all of them. Asked once.
    pub fn has_changed(&mut self) -> bool {
        !std::mem::replace(&mut self.is_sent, true)
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// The sources of all.
    pub fn all(&self) -> v1::FleetTemplates {
        let sources = self.sources().into_iter();
        v1::FleetTemplates { sources: sources.map(|source| source.to_string_lossy().into_owned()).collect() }
    }

    /// Takes what the helper reports. Returns what is new to say of a template, and the services that have it.
    pub fn reported(&mut self, template: v1::FleetTemplate) -> Option<(String, Vec<Arc<str>>)> {
        let source = PathBuf::from(&template.source);
        let users: Vec<Arc<str>> = self
            .users
            .iter()
            .filter(|(_, user)| user.sources.contains(&source))
            .map(|(service, _)| Arc::clone(service))
            .collect();
        if users.is_empty() {
            return None;
        }
        self.to_renew.extend(users.iter().cloned());
        let problem = (!template.problem.is_empty()).then(|| Arc::<str>::from(template.problem.as_str()));
        let before = self.states.insert(source, problem.clone());
        let was = before.flatten();
        if was == problem {
            return None;
        }
        let text = match &problem {
            Some(problem) if template.is_rendered => {
                format!("template {}: {problem}; its file stays as it is", template.source)
            }
            Some(problem) => format!("template {}: {problem}", template.source),
            None => format!("template {} can be rendered again", template.source),
        };
        Some((text, users))
    }

    /// Publishes what is known now.
    pub fn publish(&self) {
        self.publish.send_if_modified(|last| {
            let differs = *last != self.states;
            if differs {
                last.clone_from(&self.states);
            }
            differs
        });
    }

    /// The services that run and have to look at their files now.
    pub fn acts(&mut self) -> Vec<Act> {
        let all = std::mem::take(&mut self.to_renew);
        let mut acts = Vec::new();
        for service in all {
            if !self.users.get(&service).is_some_and(|user| user.runs) {
                continue;
            }
            if self.renewing.insert(Arc::clone(&service)) {
                acts.push(Act::Renew(service));
            } else {
                self.to_renew.insert(service);
            }
        }
        acts
    }

    /// A service has looked at them; or it is to be tried again.
    pub fn renewed(&mut self, service: &Arc<str>, is_done: bool) {
        self.renewing.remove(service);
        if !is_done {
            self.to_renew.insert(Arc::clone(service));
        }
    }
}

#[cfg(test)]
mod tests {
    use kelson_spec::ServiceSpec;
    use kelson_spec::templates::Template;

    use super::*;
    use crate::model::State;

    const SOURCE: &str = "/etc/proxy.cfg";

    fn templates() -> (Templates, watch::Receiver<TemplateStates>) {
        let (publish, states) = watch::channel(TemplateStates::new());
        (Templates::new(publish), states)
    }

    fn follow(templates: &mut Templates, runs: bool) {
        let template = Template { source: SOURCE.into(), ..Template::default() };
        let spec = ServiceSpec { templates: vec![template], ..ServiceSpec::default() };
        let name: Arc<str> = Arc::from("proxy");
        let snapshot = Snapshot {
            spec: Some(Arc::new(spec)),
            runs,
            ..Snapshot::new(Arc::clone(&name), State::Waiting, Arc::from(""))
        };
        templates.follow(&name, Some(&snapshot));
    }

    fn report(templates: &mut Templates, problem: &str) -> Option<String> {
        let report = v1::FleetTemplate { source: SOURCE.into(), is_rendered: true, problem: problem.into() };
        templates.reported(report).map(|(text, _)| text)
    }

    fn renewals(templates: &mut Templates) -> usize {
        templates.acts().len()
    }

    #[test]
    fn a_service_looks_once_at_a_time_and_only_while_it_runs() {
        let (mut templates, _states) = templates();
        assert!(!templates.has_changed() && templates.is_empty());
        follow(&mut templates, false);
        assert!(templates.has_changed() && !templates.has_changed());
        assert_eq!(templates.all().sources, [SOURCE]);
        assert_eq!(report(&mut templates, ""), None);
        assert_eq!(renewals(&mut templates), 0, "its start will place them");
        follow(&mut templates, true);
        assert_eq!(renewals(&mut templates), 1, "they may have changed just before");
        let proxy: Arc<str> = Arc::from("proxy");
        for _ in 0..2 {
            report(&mut templates, "");
            assert_eq!(renewals(&mut templates), 0, "it still looks");
        }
        templates.renewed(&proxy, true);
        assert_eq!(renewals(&mut templates), 1);
        templates.renewed(&proxy, false);
        assert_eq!(renewals(&mut templates), 1, "it is tried again");
        templates.renewed(&proxy, true);
        assert_eq!(renewals(&mut templates), 0);
        templates.follow(&proxy, None);
        assert!(templates.has_changed() && templates.is_empty());
        assert_eq!(report(&mut templates, "x"), None);
    }

    #[test]
    fn a_problem_is_said_once_and_published() {
        let (mut templates, states) = templates();
        follow(&mut templates, false);
        let text = format!("template {SOURCE}: no instance of web; its file stays as it is");
        assert_eq!(report(&mut templates, "no instance of web"), Some(text));
        assert_eq!(report(&mut templates, "no instance of web"), None);
        templates.publish();
        assert_eq!(states.borrow().get(Path::new(SOURCE)).unwrap().as_deref(), Some("no instance of web"));
        assert_eq!(report(&mut templates, ""), Some(format!("template {SOURCE} can be rendered again")));
        templates.publish();
        assert_eq!(states.borrow().get(Path::new(SOURCE)), Some(&None));
    }
}
