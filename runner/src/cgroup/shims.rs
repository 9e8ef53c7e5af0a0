//! Where the shims of containers live: `shims/NAME` below the root, one cgroup each, so that neither the stop of
//! containerd nor that of a container's service reaches them. And the form in which a runtime takes a cgroup.

use std::path::Path;

use kelson_spec::names::SHIMS;

use super::{Cgroup, CgroupRoot};
use crate::runner::RunnerError;

/// Where runc and the shim expect cgroup2, and count from.
const MOUNT: &str = "/sys/fs/cgroup";

impl CgroupRoot {
    /// The cgroup of the shim of this service's container; it need not be there.
    pub(crate) fn shim_cgroup(&self, service: &str) -> Cgroup {
        self.cgroup(&format!("{SHIMS}/{service}"))
    }

    /// Makes that cgroup, or takes the one that is there: a shim may still live in it.
    pub(crate) fn make_shim_cgroup(&self, service: &str) -> Result<Cgroup, RunnerError> {
        self.cgroup(SHIMS).make()?;
        let cgroup = self.shim_cgroup(service);
        cgroup.make()?;
        Ok(cgroup)
    }
}

impl Cgroup {
    /// Its path from the mount of cgroup2, which is how runtimes name a cgroup. `None` where cgroup2 is mounted
    /// elsewhere: they would not find it.
    pub(crate) fn path_in_mount(&self) -> Option<String> {
        path_in_mount(&self.path())
    }
}

fn path_in_mount(path: &Path) -> Option<String> {
    let below = path.strip_prefix(MOUNT).ok()?.to_str()?;
    // A hybrid hierarchy: runtimes use the old one there.
    (!below.is_empty() && !below.starts_with("unified/")).then(|| format!("/{below}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_count_from_the_mount() {
        let path = |path| path_in_mount(Path::new(path));
        assert_eq!(path("/sys/fs/cgroup/kelson/web").as_deref(), Some("/kelson/web"));
        assert_eq!(path("/sys/fs/cgroup/a/kelson/shims/web").as_deref(), Some("/a/kelson/shims/web"));
        assert_eq!(path("/sys/fs/cgroup/unified/kelson/web"), None);
        assert_eq!(path("/mnt/cgroup/kelson/web"), None);
        assert_eq!(path("/sys/fs/cgroup"), None);
    }
}
