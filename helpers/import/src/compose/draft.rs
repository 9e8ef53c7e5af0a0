//! The service that one of a compose file becomes, while its keys are read.

use std::path::{Path, PathBuf};

use kelson_spec::service::{ContainerNetwork, RestartPolicy, RestartSpec, ServiceKind};

use crate::format::Format;
use crate::yaml::Value;

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

/// Docker Compose's.
#[derive(Debug)]
pub enum Compose {}

impl Format for Compose {
    const FILES: &'static str = "compose files";
    const OF_OTHERS: Option<&'static str> = Some("x-");
    type Context<'c> = Context<'c>;
}

pub type Draft<'c> = crate::container::Draft<'c, Compose>;
pub type Part = crate::part::Part<Compose>;

/// The service of this name, before its keys are read.
pub fn draft<'c>(context: &'c Context<'c>, name: &'c str, service: &str) -> Draft<'c> {
    let mut draft = Draft::of(context, context.file.name, name, service);
    let finishes = context.services().iter().any(|(_, other)| waits_for_the_end(other, name));
    let spec = &mut draft.spec;
    spec.kind = if finishes { ServiceKind::Oneshot } else { ServiceKind::Service };
    spec.restart = RestartSpec { policy: RestartPolicy::Once, ..RestartSpec::for_kind(spec.kind) };
    // Docker lets setuid programs of an image have their effect.
    spec.security.no_new_privileges = false;
    draft.container.network = ContainerNetwork::Bridge;
    draft
}

/// Whether a service starts once another has ended.
fn waits_for_the_end(service: &Value, name: &str) -> bool {
    let condition = service.get("depends_on").and_then(|on| on.get(name)).and_then(|on| on.get("condition"));
    condition.and_then(Value::text) == Some("service_completed_successfully")
}
