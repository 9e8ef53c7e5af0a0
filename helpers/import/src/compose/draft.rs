//! The service that one of a compose file becomes, while its keys are read.

use std::path::{Path, PathBuf};

use kelson_load::Json;
use kelson_spec::service::{
    ContainerNetwork, ContainerSpec, RestartPolicy, RestartSpec, ServiceKind, ServiceSpec, Workload,
};

use super::value::Value;
use crate::finding::{Fate, Finding};
use crate::written::insert;

/// A compose file as it lies on a disk.
#[derive(Debug, Clone, Copy)]
pub struct File<'t> {
    /// For messages.
    pub name: &'t str,
    pub text: &'t str,
    /// The absolute path of its folder: relative paths start there.
    pub folder: &'t Path,
    /// The name of the project where the file has none.
    pub project: &'t str,
    /// Variables that the file may name.
    pub variables: &'t [(String, String)],
}

/// What the services of a file share.
#[derive(Debug)]
pub struct Context<'c> {
    /// With the name of its project.
    pub file: File<'c>,
    /// The file as a whole.
    pub root: &'c Value,
}

impl Context<'_> {
    /// An absolute path. `~` is not expanded: the home is known to a shell alone.
    pub fn path(&self, text: &str) -> PathBuf {
        let mut path = PathBuf::new();
        for part in self.file.folder.join(text).components() {
            match part {
                std::path::Component::CurDir => {}
                std::path::Component::ParentDir => {
                    path.pop();
                }
                part => path.push(part),
            }
        }
        path
    }

    /// A part of the top level, such as `volumes`, by its name.
    pub fn named(&self, section: &str, name: &str) -> Option<&Value> {
        self.root.get(section)?.get(name)
    }

    pub fn services(&self) -> &[(String, Value)] {
        self.root.get("services").map_or(&[], Value::entries)
    }
}

/// The state of the translation of one service. The functions of the table write into it.
#[derive(Debug)]
pub struct Draft<'c> {
    pub context: &'c Context<'c>,
    /// As the file calls it.
    pub name: &'c str,
    pub spec: ServiceSpec,
    pub container: ContainerSpec,
    /// As the file has them: only a host can read them.
    pub environment_files: Vec<String>,
    pub findings: Vec<Finding>,
    /// The keys above the one that is read.
    path: Vec<String>,
}

impl<'c> Draft<'c> {
    pub fn new(context: &'c Context<'c>, name: &'c str, service: &str) -> Self {
        let mut spec = ServiceSpec::process(service, Vec::<String>::new());
        let finishes = context.services().iter().any(|(_, other)| waits_for_the_end(other, name));
        spec.kind = if finishes { ServiceKind::Oneshot } else { ServiceKind::Service };
        spec.restart = RestartSpec { policy: RestartPolicy::Once, ..RestartSpec::for_kind(spec.kind) };
        // Docker lets setuid programs of an image have their effect.
        spec.security.no_new_privileges = false;
        let mut container = ContainerSpec::new("");
        container.network = ContainerNetwork::Bridge;
        Draft {
            context,
            name,
            spec,
            container,
            environment_files: Vec::new(),
            findings: Vec::new(),
            path: Vec::new(),
        }
    }

    /// Does work at a key of the mapping that is read.
    pub fn at<T>(&mut self, key: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(key.to_owned());
        let done = work(self);
        self.path.pop();
        done
    }

    /// What became of the key that is read.
    pub fn judge(&mut self, line: u32, (fate, sentence): (Fate, String)) {
        let key = self.path.join(".");
        self.find(&key, line, fate, sentence);
    }

    pub fn find(&mut self, key: &str, line: u32, fate: Fate, sentence: String) {
        let finding = Finding {
            section: self.name.to_owned(),
            key: key.to_owned(),
            file: self.context.file.name.to_owned(),
            line,
            fate,
            sentence,
        };
        self.findings.push(finding);
    }

    /// The service file.
    pub fn finished(mut self) -> (Json, Vec<Finding>) {
        self.spec.workload = Workload::Container(self.container);
        let Json::Map(mut entries) = kelson_load::written(&self.spec) else {
            return (Json::Null, self.findings);
        };
        if !self.environment_files.is_empty() {
            let files = Json::texts(self.environment_files.iter().map(String::as_str));
            insert(&mut entries, "environmentFiles", files);
        }
        (Json::Map(entries), self.findings)
    }
}

/// Whether a service starts once another has ended.
fn waits_for_the_end(service: &Value, name: &str) -> bool {
    let condition = service.get("depends_on").and_then(|on| on.get(name)).and_then(|on| on.get("condition"));
    condition.and_then(Value::text) == Some("service_completed_successfully")
}
