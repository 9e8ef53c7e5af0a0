//! What processes cost while nothing happens: memory, wake-ups and processor time.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kelson_tests::process::Process;

/// Bytes of memory of a supervisor.
#[derive(Default)]
pub struct Memory {
    /// Proportional set size of all processes: a page that several map is divided between them.
    pub pss: u64,
    /// Private pages, and all pages of memfds and tmpfs files, each counted once.
    pub held: u64,
}

/// The memory of these processes. `runtime` are folders of a tmpfs whose files belong to the supervisor.
pub fn memory(processes: &[Process], runtime: &[&Path]) -> Memory {
    let mut memory = Memory::default();
    // By device and inode.
    let mut files = HashMap::new();
    for process in processes {
        let folder = format!("/proc/{}", process.outer_pid);
        // It is executed from a memfd that it may have no descriptor of.
        keep_memfd(&mut files, Path::new(&folder).join("exe"));
        for entry in fs::read_dir(format!("{folder}/fd")).into_iter().flatten().flatten() {
            keep_memfd(&mut files, entry.path());
        }
        for entry in fs::read_dir(format!("{folder}/map_files")).into_iter().flatten().flatten() {
            keep_memfd(&mut files, entry.path());
        }
        let mappings = fs::read_to_string(format!("{folder}/smaps")).unwrap_or_default();
        add_mappings(&mut memory, &mappings, runtime);
    }
    for folder in runtime {
        keep_files(&mut files, folder);
    }
    memory.held += files.values().sum::<u64>();
    memory
}

/// Adds the mappings of one process. Those of a memfd or of a file of `runtime` are counted with the file, apart from pages
/// written privately.
fn add_mappings(memory: &mut Memory, text: &str, runtime: &[&Path]) {
    let kept: Vec<String> = runtime.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
    let mut of_kept = false;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(size)) = (words.next(), words.next()) else { continue };
        let bytes = size.parse::<u64>().unwrap_or(0) * 1024;
        match name {
            "Pss:" => memory.pss += bytes,
            "Private_Clean:" | "Private_Dirty:" if !of_kept => memory.held += bytes,
            "Anonymous:" if of_kept => memory.held += bytes,
            _ if !name.ends_with(':') => {
                of_kept =
                    line.contains("/memfd:") || kept.iter().any(|folder| line.contains(folder.as_str()));
            }
            _ => {}
        }
    }
}

fn keep_memfd(files: &mut HashMap<(u64, u64), u64>, link: impl AsRef<Path>) {
    let link = link.as_ref();
    if fs::read_link(link).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:")) {
        keep(files, link);
    }
}

fn keep(files: &mut HashMap<(u64, u64), u64>, path: &Path) {
    if let Ok(data) = fs::metadata(path) {
        files.insert((data.dev(), data.ino()), data.blocks() * 512);
    }
}

/// All files below a folder.
fn keep_files(files: &mut HashMap<(u64, u64), u64>, folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => keep_files(files, &entry.path()),
            Ok(kind) if kind.is_file() => keep(files, &entry.path()),
            _ => {}
        }
    }
}

/// Context switches of all their threads until now, voluntary and not.
pub fn switches(processes: &[Process]) -> u64 {
    of_threads(processes, "status", |text| {
        let counts = text.lines().filter(|line| line.contains("_ctxt_switches:"));
        counts.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
    })
}

/// Processor time of all their threads until now, in nanoseconds.
pub fn processor(processes: &[Process]) -> u64 {
    of_threads(processes, "schedstat", |text| {
        text.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or(0)
    })
}

/// The sum over all threads of what a file in /proc says of each.
fn of_threads(processes: &[Process], file: &str, value: impl Fn(&str) -> u64) -> u64 {
    let folders = processes.iter().map(|process| format!("/proc/{}/task", process.outer_pid));
    let threads = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    threads.map(|thread| value(&fs::read_to_string(thread.path().join(file)).unwrap_or_default())).sum()
}
