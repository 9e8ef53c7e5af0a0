//! The container that a service of a YAML file becomes, while its keys are read.

use std::path::{Path, PathBuf};

use kelson_load::Json;
use kelson_spec::service::{ContainerMount, ContainerSpec, ServiceSpec, Workload};

use crate::finding::{Fate, Finding, Outcome};
use crate::format::Format;
use crate::written::insert;

/// The name of an image with the registry that Docker adds: it takes a name without one from its own.
pub fn registry_name(name: &str) -> String {
    match name.split_once('/').map(|(first, _)| first) {
        None => format!("docker.io/library/{name}"),
        Some(host) if host.contains(['.', ':']) || host == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
    }
}

/// The state of the translation of one service. The functions of the tables write into it.
#[derive(Debug)]
pub struct Draft<'c, F: Format> {
    pub context: &'c F::Context<'c>,
    /// Of the file, for messages.
    pub file: &'c str,
    /// As the file calls the service.
    pub name: &'c str,
    pub spec: ServiceSpec,
    pub container: ContainerSpec,
    /// As the file has them: only a host can read them.
    pub environment_files: Vec<String>,
    pub findings: Vec<Finding>,
    /// The keys above the one that is read.
    path: Vec<String>,
}

impl<'c, F: Format> Draft<'c, F> {
    pub fn of(context: &'c F::Context<'c>, file: &'c str, name: &'c str, service: &str) -> Self {
        Draft {
            context,
            file,
            name,
            spec: ServiceSpec::process(service, Vec::<String>::new()),
            container: ContainerSpec::new(""),
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
            file: self.file.to_owned(),
            line,
            fate,
            sentence,
        };
        self.findings.push(finding);
    }

    /// Shows the container something of the host, or a file system in memory.
    pub fn mount(&mut self, source: PathBuf, target: &str, options: Vec<String>) -> Outcome {
        let target = PathBuf::from(target);
        if !target.is_absolute() || target == Path::new("/") {
            return Outcome::rejected(format!("{} is no place in a container", target.display()));
        }
        // The last one counts.
        self.container.mounts.retain(|known| known.target != target);
        self.container.mounts.push(ContainerMount { source, target, options, ..ContainerMount::default() });
        Outcome::as_table()
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.spec.environment.retain(|(known, _)| known != name);
        self.spec.environment.push((name.to_owned(), value.to_owned()));
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
