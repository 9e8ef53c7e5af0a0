//! All processes, each with the service that it belongs to.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use kelson_proto::v1::{InspectService, Process};
use kelson_sys::process::{KERNEL_THREAD, Stat, Status};

use crate::answer::Unanswered;
use crate::clock;
use crate::owners::Owners;
use crate::system::{System, lasting, line, pids, whole};

/// The longest part of a command line that is reported, in bytes; programs have written books into theirs.
const COMMAND_MAX: u64 = 8 << 10;

/// In order of their PIDs. One that ends meanwhile is left out.
///
/// # Errors
/// When proc cannot be listed.
pub fn read(system: &System, services: &[InspectService]) -> Result<Vec<Process>, Unanswered> {
    let owners = Owners::new(system, services);
    let uptime = clock::uptime().unwrap_or_default();
    let pids = pids(&system.proc).map_err(|error| Unanswered::reading("/proc", &error))?;
    let mut processes: Vec<Process> = pids.iter().filter_map(|pid| process(system, *pid, uptime)).collect();
    let of = of_all(system, &owners, processes.iter().map(|process| (process.pid, process.parent)));
    for process in &mut processes {
        process.service = of.get(&process.pid).cloned().unwrap_or_default();
    }
    Ok(processes)
}

/// The services of processes, of which the parents are known.
pub fn of_all(
    system: &System,
    owners: &Owners,
    parents: impl Iterator<Item = (i32, i32)>,
) -> HashMap<i32, String> {
    let said = |pid: i32| {
        let text = system.proc(&format!("{pid}/cgroup")).unwrap_or_default();
        owners.by_cgroup(&text)
    };
    owners.of_all(&parents.map(|(pid, parent)| (pid, (parent, said(pid)))).collect())
}

fn process(system: &System, pid: i32, uptime: Duration) -> Option<Process> {
    let folder = system.proc.join(pid.to_string());
    let stat = fs::read(folder.join("stat")).ok()?;
    let stat = Stat::parse(&stat)?;
    let cpu: u64 = stat.field::<u64>(14)?.saturating_add(stat.field(15)?);
    let descriptors = fs::read_dir(folder.join("fd")).ok().map(Iterator::count);
    Some(Process {
        pid,
        parent: stat.parent()?,
        service: String::new(),
        command: command(&folder),
        state: stat.state()?.to_owned(),
        uid: user(&folder),
        threads: stat.threads()?,
        resident: stat.field::<u64>(24)?.saturating_mul(system.page),
        cpu: Some(lasting(system.ticks(cpu))),
        age: Some(lasting(uptime.saturating_sub(system.ticks(stat.start_time()?)))),
        descriptors: descriptors.and_then(|count| u32::try_from(count).ok()),
        kernel: stat.flags()? & KERNEL_THREAD != 0,
        name: stat.name(),
    })
}

fn command(folder: &Path) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = fs::File::open(folder.join("cmdline"));
    let read = read.and_then(|file| file.take(COMMAND_MAX).read_to_end(&mut bytes));
    if read.is_err() || bytes.is_empty() {
        return Vec::new();
    }
    // Programs that write a title of their own leave zeros behind it.
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// The real one; the folder's owner is root's for a process that may not be dumped.
fn user(folder: &Path) -> u32 {
    let status = Status::new(whole(&folder.join("status")).unwrap_or_default());
    let real = status.field("Uid").and_then(|users| users.split_whitespace().next());
    let owner = || fs::metadata(folder).map_or(0, |metadata| metadata.uid());
    real.and_then(|word| word.parse().ok()).unwrap_or_else(owner)
}

/// The name of a process.
pub fn name(system: &System, pid: i32) -> String {
    line(&system.proc.join(pid.to_string()).join("comm"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    /// The fields of proc_pid_stat(5) from the third on, as far as they are read.
    fn stat(pid: i32, name: &str, parent: i32, flags: u64) -> String {
        format!(
            "{pid} ({name}) S {parent} 1 1 0 -1 {flags} 1 2 3 4 150 50 0 0 20 0 3 0 200 9999 7 18446744073709551615\n"
        )
    }

    #[test]
    fn processes_have_their_service() {
        let played = Played::new(&[("proc/self/cgroup", "0::/kelson/_inspect-0\n"), ("proc/uptime", "")]);
        let put = |pid: i32, name: &str, parent: i32, flags: u64, cgroup: &str, command: &[u8]| {
            played.write(&format!("proc/{pid}/stat"), stat(pid, name, parent, flags).as_bytes());
            played.write(&format!("proc/{pid}/cgroup"), format!("0::{cgroup}\n").as_bytes());
            played.write(&format!("proc/{pid}/cmdline"), command);
            played.write(&format!("proc/{pid}/status"), b"Name:\tx\nUid:\t33\t0\t0\t0\n");
        };
        put(1, "init", 0, 0, "/", b"/sbin/init\0");
        put(2, "kthreadd", 0, KERNEL_THREAD, "/", b"");
        put(40, "a) (b", 1, 0, "/kelson/web", b"/bin/web\0--port\0\x3880\0\0\0");
        played.write("proc/41/stat", b"41 (cut off");
        let processes = read(&played.system, &[]).unwrap();
        assert_eq!(processes.iter().map(|one| one.pid).collect::<Vec<_>>(), [1, 2, 40], "41 ended meanwhile");
        let web = &processes[2];
        assert_eq!((web.service.as_str(), web.name.as_str(), web.parent), ("web", "a) (b", 1));
        assert_eq!(web.command, [&b"/bin/web"[..], b"--port", b"880"]);
        assert_eq!((web.uid, web.threads, web.resident), (33, 3, 7 * 4096));
        assert_eq!(web.cpu, Some(lasting(Duration::from_secs(2))));
        assert_eq!((web.descriptors, web.kernel), (None, false));
        assert!(processes[1].kernel && processes[1].command.is_empty());
        assert_eq!(processes[0].service, "");
    }

    #[test]
    fn this_process_is_among_all() {
        let own = i32::try_from(std::process::id()).unwrap();
        let services = [InspectService { name: "test".into(), pid: own }];
        let processes = read(&System::real(), &services).unwrap();
        let found = processes.iter().find(|process| process.pid == own).unwrap();
        assert!(found.descriptors.unwrap() > 2 && found.resident > 100_000 && !found.command.is_empty());
        assert!(found.age.unwrap().seconds < 3600);
    }

    #[test]
    fn what_is_no_stat_is_none() {
        for text in ["", "1", "1 (x)", "1 (x) S", "1 (x) S 1 1 1 0 -1 a", ")(", "1 (x) S -5 1 1 0 -1 1"] {
            let played = Played::new(&[("proc/1/stat", text)]);
            assert!(process(&played.system, 1, Duration::ZERO).is_none(), "{text:?}");
        }
    }
}
