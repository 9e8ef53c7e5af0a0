//! The parts that a host needs to run real containers in a PID namespace: containerd's programs, and a place
//! for their mounts.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ctl::Output;
use crate::host::{self, Host};
use crate::paths;

/// The parts of a host with containers.
#[derive(Debug, Default)]
pub struct Containers {
    /// Archives, by the name of their file.
    pub archives: Vec<(String, Vec<u8>)>,
    /// How large the disk of containerd is, as tmpfs takes it.
    pub disk: Option<String>,
    /// A folder that outlives the host, instead of that disk.
    pub state: Option<PathBuf>,
    /// [`Host::put_containerd`] can put another in its place.
    pub replaceable: bool,
    /// There is no containerd.
    pub alone: bool,
    /// containerd runs containers with crun instead of runc.
    pub crun: bool,
}

/// The further lines in the machine file of such a host: services look for their programs in a `PATH` of
/// their own.
#[track_caller]
pub fn machine(containers: &Containers) -> String {
    if containers.alone {
        return String::new();
    }
    let path = match containers.replaceable {
        true => format!("$DIR/{PLACE}:{}", host::PATH),
        false => path(),
    };
    let path = if containers.crun { format!("$DIR/{CRUN}:{path}") } else { path };
    format!("builtins: {{containerd: {{enabled: true, environment: {{PATH: '{path}'}}}}}}\n")
}

const WRITABLE: &str = "the test's folder is writable";

/// Where a containerd is that can be replaced: a link to the folder of its programs.
const PLACE: &str = "containerd-programs";

/// Where crun has the name that containerd's shim looks for.
const CRUN: &str = "crun";

/// A program that runs crun without its cgroups, below a host's folder. For the filter of devices of a cgroup crun
/// removes the limit of locked memory, for which this computer's root may lack `CAP_SYS_RESOURCE`.
#[track_caller]
pub fn put_crun(dir: &Path) {
    let program = dir.join(CRUN).join("runc");
    std::fs::create_dir_all(dir.join(CRUN)).expect(WRITABLE);
    std::fs::write(&program, "#!/bin/sh\nexec /usr/bin/crun --cgroup-manager=disabled \"$@\"\n")
        .expect(WRITABLE);
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect(WRITABLE);
}

/// Makes the mount namespace ready: `$1` is where containerd's disk goes, `$2` its size, empty where `$1` is
/// to be used as it is; then PID 1 with its arguments. Shims keep their sockets in `/run/containerd`,
/// regardless of their arguments.
pub const PREPARE: &str = r#"set -e
disk=$1 size=$2; shift 2
mount -t tmpfs none /run
if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
    umount -l /sys/fs/cgroup 2>/dev/null || true
    mount -t cgroup2 none /sys/fs/cgroup
fi
[ -z "$size" ] || mount -t tmpfs -o "size=$size" none "$disk"
exec "$@"
"#;

/// `unshare` into a PID namespace and a mount namespace in which real containers can run; the program that becomes PID 1
/// and its arguments are to be added. `disk` becomes a file system there that overlayfs takes.
pub fn namespaces(disk: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", PREPARE, "sh"]);
    command.arg(disk).arg("1G");
    command
}

/// `PATH` with the programs that run containers.
#[track_caller]
fn path() -> String {
    format!("{}:{}", programs().display(), host::PATH)
}

/// The folder with containerd, its shim, ctr and runc: of `KELSON_CONTAINERD_BIN`, else what `make image` has fetched.
#[track_caller]
pub fn programs() -> PathBuf {
    programs_of("1.6")
}

/// As [`programs`]; `None` where there are none.
#[track_caller]
pub fn find_programs() -> Option<PathBuf> {
    find("1.6")
}

/// As [`programs`], of this version.
#[track_caller]
fn programs_of(version: &str) -> PathBuf {
    find(version).unwrap_or_else(|| {
        panic!(
            "there is no containerd {version} in {}: run `make image`, which fetches 1.6, or hack/chaos, or name a folder with containerd, \
             containerd-shim-runc-v2, ctr and runc in KELSON_CONTAINERD_BIN",
            paths::cache().display()
        )
    })
}

#[track_caller]
fn find(version: &str) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("KELSON_CONTAINERD_BIN") {
        let folder = PathBuf::from(folder);
        assert!(
            folder.join("containerd").exists(),
            "KELSON_CONTAINERD_BIN: no containerd in {}",
            folder.display()
        );
        return Some(folder);
    }
    paths::fetched(&format!("containerd-{version}"), "containerd")
}

/// Links to the programs of this version, below a host's folder.
#[track_caller]
pub fn put(dir: &Path, version: &str) {
    let folder = dir.join(format!("containerd-{version}"));
    std::fs::create_dir_all(&folder).expect(WRITABLE);
    // The runc of 1.7 wants a C library that this computer need not have.
    let parts =
        [("containerd", version), ("containerd-shim-runc-v2", version), ("ctr", version), ("runc", "1.6")];
    for (program, version) in parts {
        let _ = std::fs::remove_file(folder.join(program));
        symlink(programs_of(version).join(program), folder.join(program)).expect(WRITABLE);
    }
    let beside = dir.join("containerd-programs.new");
    symlink(folder, &beside).expect(WRITABLE);
    std::fs::rename(beside, dir.join(PLACE)).expect(WRITABLE);
}

impl Host {
    /// Puts the programs of this version in the place of those that are there, as an upgrade does.
    #[track_caller]
    pub fn put_containerd(&self, version: &str) {
        put(&self.path(""), version);
    }

    /// Runs `ctr` in the namespaces of the host, against its containerd and in Kelson's own namespace there.
    #[track_caller]
    pub fn ctr(&self, arguments: &[&str]) -> Output {
        let socket = self.path("run/containerd/containerd.sock");
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", "--pid", "--target", &self.init_pid().to_string(), "--"])
            .arg(programs().join("ctr"))
            .args([Path::new("--address"), &socket])
            .args(["--namespace", "kelson"])
            .args(arguments)
            .env("PATH", path());
        Output::of(command, &format!("ctr {}", arguments.join(" ")))
    }

    /// The names of all containers that containerd has.
    #[track_caller]
    pub fn containers(&self) -> Vec<String> {
        words(&self.ctr(&["containers", "list", "--quiet"]).ok())
    }

    /// The tasks that containerd has: name, PID and state of each.
    #[track_caller]
    pub fn tasks(&self) -> Vec<(String, i32, String)> {
        let listed = self.ctr(&["tasks", "list"]).ok().stdout;
        let rows = listed.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
        rows.map(|row| match row[..] {
            [name, pid, state] => (name.to_owned(), pid.parse().expect("a PID"), state.to_owned()),
            _ => panic!("no task: {row:?}"),
        })
        .collect()
    }

    /// The names of the snapshots that are containers' own.
    #[track_caller]
    pub fn active_snapshots(&self) -> Vec<String> {
        self.snapshots("Active")
    }

    /// The names of the snapshots that are layers of images.
    #[track_caller]
    pub fn layers(&self) -> Vec<String> {
        self.snapshots("Committed")
    }

    #[track_caller]
    fn snapshots(&self, kind: &str) -> Vec<String> {
        let listed = self.ctr(&["snapshots", "list"]).ok().stdout;
        let rows = listed.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row.last() == Some(&kind)).map(|row| row[0].to_owned()).collect()
    }

    /// A path that a process of the host sees under this name, as the test sees it.
    #[track_caller]
    pub fn inside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.init_pid()))
    }
}

fn words(output: &Output) -> Vec<String> {
    output.stdout.split_whitespace().map(str::to_owned).collect()
}
