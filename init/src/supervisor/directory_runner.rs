//! The folders of a service: made for its runs, and those below `/run` removed as its file says.

use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::task::DirectoryRequest;
use kelson_runner::{RunContext, Runner, RunnerError};
use kelson_spec::ServiceSpec;
use kelson_spec::service::{Directories, DirectoryKind, Preserve};
use nix::unistd::{getegid, geteuid};

use super::provided_runner::{ProvidedRunner, Provision, ask};

/// The runner of a service, which gives it its folders if it has some.
pub(super) fn with_directories(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    tasks: &Arc<dyn Launcher>,
) -> Box<dyn Runner> {
    if spec.directories.list.is_empty() {
        return inner;
    }
    let provision = OwnDirectories { tasks: Arc::clone(tasks), spec: Arc::clone(spec) };
    Box::new(ProvidedRunner::new(inner, provision))
}

struct OwnDirectories {
    tasks: Arc<dyn Launcher>,
    spec: Arc<ServiceSpec>,
}

impl Provision for OwnDirectories {
    async fn make(
        &mut self,
        _: &mut dyn Runner,
        is_made: bool,
        _: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if is_made {
            return Ok(());
        }
        let own = || (geteuid().as_raw(), getegid().as_raw());
        let (uid, gid) = self.spec.user.as_ref().map_or_else(own, |user| (user.uid, user.gid));
        let Directories { list, preserve } = &self.spec.directories;
        let directories = list.clone();
        let request = match preserve {
            Preserve::Never => DirectoryRequest::Renew { uid, gid, directories },
            Preserve::Restart | Preserve::Always => DirectoryRequest::Make { uid, gid, directories },
        };
        ask(&self.tasks, request.whole()).await
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        let Directories { list, preserve } = &self.spec.directories;
        if *preserve == Preserve::Always {
            return Ok(());
        }
        let mut directories = list.clone();
        directories.retain(|directory| directory.kind == DirectoryKind::Runtime);
        if directories.is_empty() {
            return Ok(());
        }
        ask(&self.tasks, DirectoryRequest::Remove { directories }.whole()).await
    }
}
