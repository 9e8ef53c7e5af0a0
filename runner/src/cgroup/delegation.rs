//! Which cgroup below a service's own its processes are put into.
//!
//! The limits are always on the service's own cgroup. A cgroup with controllers enabled for those below it takes no
//! process, and one with processes enables no controller (the kernel's rule of "no internal processes"), so:
//!
//! - The commands that PID 1 runs beside the main process (checks, hooks, `exec`) get the leaf [`COMMANDS`]. A service of
//!   root can enable controllers in its own cgroup at any moment, and neither must keep the other out.
//! - A service with `delegate` runs in the leaf [`MAIN`], which belongs to its user. There it may make cgroups and
//!   enable every controller that the host has. The service's own cgroup, with the limits, stays PID 1's.
//!
//! Any other service runs in its own cgroup: a leaf for each would cost every start one cgroup more.

use kelson_spec::ServiceSpec;
use kelson_spec::service::Resources;
use nix::fcntl::AtFlags;
use nix::unistd::{Gid, Uid, fchownat};

use super::{Cgroup, MOST};
use crate::runner::RunnerError;

/// The leaf that a delegated service runs in.
const MAIN: &str = "main";
/// How often processes that fork meanwhile are moved.
const ROUNDS: u32 = 16;
/// The leaf of the commands beside it.
const COMMANDS: &str = "exec";
/// The files of a delegated cgroup that its user owns, besides the folder: cgroup-v2.rst, "Model of
/// Delegation".
const OWNED: [&str; 3] = ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"];

impl Cgroup {
    fn leaf(&self, name: &str) -> Cgroup {
        self.root.cgroup(&[self.name(), name].join("/"))
    }

    /// Where the main process goes.
    pub(crate) fn of_main(&self, delegated: bool) -> Cgroup {
        if delegated { self.leaf(MAIN) } else { self.root.cgroup(self.name()) }
    }

    /// Where a command beside the main process goes. Makes that cgroup.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn of_commands(&self) -> Result<Cgroup, RunnerError> {
        let leaf = self.leaf(COMMANDS);
        leaf.make()?;
        Ok(leaf)
    }

    /// Moves what it has to a cgroup beside it, where it runs on, with the same limits. What cannot be moved stays.
    pub(crate) fn leave_behind(&self, resources: &Resources) {
        // No service has such a name.
        let beside = self.root.cgroup(&format!("{}.left", self.name()));
        // That of earlier runs goes with the last of its processes.
        beside.remove_empty();
        for _ in 0..ROUNDS {
            if !self.is_populated() {
                return;
            }
            if beside.make().is_ok_and(|is_new| is_new) {
                beside.limit(resources);
            }
            for pid in self.processes(MOST) {
                // One that has ended meanwhile needs no place.
                let _ = beside.write("cgroup.procs", &pid.to_string());
            }
        }
    }

    /// How many processes its run has, without the commands beside it.
    pub(crate) fn count_of_run(&self) -> u32 {
        if !self.is_populated() {
            return 0;
        }
        let commands = self.leaf(COMMANDS).processes(MOST);
        let of_run = self.processes(MOST).into_iter().filter(|pid| !commands.contains(pid)).count();
        u32::try_from(of_run).unwrap_or(u32::MAX)
    }

    /// Makes it ready for a run. Processes in one that was there before (`is_new`: not) are ended, and it is
    /// made again: it has been killed, maybe, and has the limits and counts of an earlier run. Returns as
    /// [`Cgroup::set_up`].
    ///
    /// # Errors
    /// When a process outlives its kill, or the kernel refuses.
    pub(crate) async fn prepare(
        &self,
        is_new: bool,
        spec: &ServiceSpec,
        owner: Option<(u32, u32)>,
    ) -> Result<Vec<String>, RunnerError> {
        if !is_new {
            let left = self.clear().await?;
            if left > 0 {
                let name = &spec.name;
                return Err(RunnerError::new(format!(
                    "{left} processes of an earlier run of service {name} cannot be killed"
                )));
            }
            self.remove()?;
            self.make()?;
        }
        self.set_up(spec, owner)
    }

    /// Prepares it, empty as it is, for a run: writes the limits, and delegates where the service asks for that. Returns
    /// what could not be done, a sentence each.
    ///
    /// # Errors
    /// When a leaf cannot be made.
    pub(crate) fn set_up(
        &self,
        spec: &ServiceSpec,
        owner: Option<(u32, u32)>,
    ) -> Result<Vec<String>, RunnerError> {
        let mut warnings = self.limit(&spec.resources);
        if spec.delegate {
            warnings.extend(self.delegate(owner)?);
        }
        Ok(warnings)
    }

    /// Hands a subtree over: passes on every controller that the host has, and makes the leaf for the main process, which
    /// `owner` (`None`: PID 1's own user) may divide further. Returns what could not be done, a sentence each.
    ///
    /// # Errors
    /// When the leaf cannot be made.
    fn delegate(&self, owner: Option<(u32, u32)>) -> Result<Vec<String>, RunnerError> {
        let mut warnings = Vec::new();
        let mut note = |what: &str, error: &std::io::Error| {
            warnings
                .push(RunnerError::system(format!("delegate is not in full effect: {what}"), error).message);
        };
        for controller in self.root.delegated_controllers() {
            if let Err(error) = self.write("cgroup.subtree_control", &format!("+{controller}")) {
                note(&format!("cannot pass on the cgroup controller {controller}"), &error);
            }
        }
        let leaf = self.leaf(MAIN);
        leaf.make()?;
        if let Some((uid, gid)) = owner {
            let files = OWNED.map(|file| [leaf.name(), file].join("/"));
            for path in files.iter().map(String::as_str).chain([leaf.name()]) {
                let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                if let Err(errno) = fchownat(self.root.folder(), path, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)
                {
                    note(&format!("cannot give {path} to its user"), &errno.into());
                }
            }
        }
        Ok(warnings)
    }
}
