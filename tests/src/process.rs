//! The processes of a host under test, as seen from inside and from outside of its PID namespace.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// One process in the namespace of a host.
#[derive(Debug, Clone)]
pub struct Process {
    /// In the host's namespace: what Kelson speaks of.
    pub pid: i32,
    /// In the test's namespace: what the test signals.
    pub outer_pid: i32,
    /// Its parent, in the host's namespace.
    pub parent: i32,
    /// As in `/proc/PID/stat`: `R`, `S`, `D`, `T`, `Z`.
    pub state: char,
    /// Empty for a zombie.
    pub command: Vec<String>,
}

/// All processes of the PID namespace that `init` (outer PID) is the first of, those of containers in it and zombies
/// too, sorted by PID.
pub fn of_namespace(init: i32) -> Vec<Process> {
    let (Some(wanted), Some(ids)) = (namespace(init), status_field(init, "NSpid")) else { return Vec::new() };
    let depth = ids.split_whitespace().count();
    let all: Vec<i32> = fs::read_dir("/proc")
        .expect("/proc is readable")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    let mut found: Vec<Process> = all
        .into_iter()
        .filter(|pid| is_of(*pid, depth, &wanted))
        .filter_map(|pid| read(pid, depth))
        .collect();
    let inner: Vec<(i32, i32)> = found.iter().map(|p| (p.outer_pid, p.pid)).collect();
    for process in &mut found {
        // Zero for the first one, whose parent is outside.
        process.parent = inner.iter().find(|(outer, _)| *outer == process.parent).map_or(0, |(_, pid)| *pid);
    }
    found.sort_by_key(|process| process.pid);
    found
}

/// Whether it is in the namespace, which is `depth` deep, or in one below it: then one of its ancestors is in
/// it.
fn is_of(mut pid: i32, depth: usize, wanted: &PathBuf) -> bool {
    loop {
        if namespace(pid).as_ref() == Some(wanted) {
            return true;
        }
        let ids = status_field(pid, "NSpid").unwrap_or_default();
        if ids.split_whitespace().count() <= depth {
            return false;
        }
        match status_field(pid, "PPid").and_then(|parent| parent.parse().ok()) {
            Some(parent) if parent > 0 => pid = parent,
            _ => return false,
        }
    }
}

fn namespace(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// The rest of a line of `/proc/PID/status`, by its name; `None` where there is no such process or line.
pub fn status_field(pid: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
}

/// How long the first thread of a process has run; panics where it is gone.
#[track_caller]
pub fn ran(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it runs");
    Duration::from_nanos(stat.split_whitespace().next().expect("a number").parse().expect("a number"))
}

/// The process, its parent still as seen from outside.
fn read(outer_pid: i32, depth: usize) -> Option<Process> {
    let command = fs::read(format!("/proc/{outer_pid}/cmdline")).unwrap_or_default();
    let command = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(Process {
        pid: status_field(outer_pid, "NSpid")?.split_whitespace().nth(depth - 1)?.parse().ok()?,
        outer_pid,
        parent: status_field(outer_pid, "PPid")?.parse().ok()?,
        state: status_field(outer_pid, "State")?.chars().next()?,
        command: command.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
    })
}
