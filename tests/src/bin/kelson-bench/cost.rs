//! The cost of processes while nothing happens: memory, and how often they are woken.

use std::fs;

use kelson_tests::process::Process;

/// Proportional set size of all of them, in bytes: shared pages are counted once in all.
pub fn memory(processes: &[Process]) -> u64 {
    processes.iter().map(|process| memory_of(process.outer_pid)).sum()
}

fn memory_of(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or("0 kB");
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Context switches of all their threads until now, voluntary and not.
pub fn switches(processes: &[Process]) -> u64 {
    processes.iter().map(|process| switches_of(process.outer_pid)).sum()
}

fn switches_of(pid: i32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| {
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let counts = status.lines().filter(|line| line.contains("_ctxt_switches:"));
            counts.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum::<u64>()
        })
        .sum()
}
