//! What is looked at on the machine itself, as programs read it.

use kelson_proto::v1;

use super::value::{some, views};

/// What the processors did between two looks. `pressure`: null where the kernel does not count it.
#[derive(Debug, Clone)]
pub struct Cpu {
    pub model: String,
    pub interval_ms: f64,
    /// Over the last 1, 5 and 15 minutes.
    pub load: [f64; 3],
    pub pressure: Option<v1::Pressure>,
    pub switches_per_second: f64,
    pub forks_per_second: f64,
    pub all: CpuShares,
    pub processors: Vec<CpuShares>,
}

/// Where the time of a processor went: shares of 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuShares {
    /// Null: all of them.
    pub processor: Option<u32>,
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub irq: f64,
    pub soft_irq: f64,
    pub io_wait: f64,
    pub steal: f64,
    pub idle: f64,
}

views! {
    // How much of the time some processes, and all of them, waited over the last 10 s, 60 s, 300 s: shares of 0 to 1.
    v1::Pressure: pressure { some_10, some_60, some_300, full_10, full_60, full_300 }
    // Bytes. `used`: what cannot be had without swapping.
    v1::MemoryResponse: memory {
        total, used: memory.total.saturating_sub(memory.available), available, free, buffers, cached, shared, slab,
        slab_reclaimable, dirty, swap_total, swap_free, committed, commit_limit, pressure,
    }
    Cpu: cpu {
        model, interval_ms, load1: cpu.load[0], load5: cpu.load[1], load15: cpu.load[2], pressure,
        switches_per_second, forks_per_second, all, processors,
    }
    CpuShares: shares { processor, user, nice, system, irq, soft_irq, io_wait, steal, idle }
    // `path`: below the root; empty: the root itself. What no controller counts is null, and so is a limit that there is
    // not. `cpu_max`: processors.
    v1::Cgroup: cgroup {
        path, service: some(&cgroup.service), processes, frozen, cpu_ms: cgroup.cpu, throttled_ms: cgroup.throttled,
        memory_bytes: cgroup.memory, memory_peak_bytes: cgroup.memory_peak, memory_max_bytes: cgroup.memory_max,
        memory_high_bytes: cgroup.memory_high, oom_kills, pids, pids_max, cpu_max, cpu_weight,
    }
    // `service`: null where it is none's. `name`: what the kernel calls it, up to 15 characters. `command`: bytes that are
    // not UTF-8 are replaced. `state`: one letter, as `ps` has it. `descriptors`: null where the kernel did not tell.
    v1::Process: process {
        pid, parent, service: some(&process.service), name,
        command: process.command.iter().map(|word| lossy(word)).collect::<Vec<_>>(), state, uid, threads,
        memory_bytes: process.resident, cpu_ms: process.cpu.unwrap_or_default(),
        age_ms: process.age.unwrap_or_default(), descriptors, kernel,
    }
    // `protocol`: tcp, tcp6, udp, udp6, unix. `remote`: null where it is connected to nobody.
    v1::Socket: socket {
        protocol, local, remote: some(&socket.remote), state, uid, receive_queue, send_queue, inode,
        processes: socket.holders,
    }
    v1::SocketHolder: holder { pid, name, service: some(&holder.service) }
    // Bytes; null where there is no such number or nobody answered, and `trouble` says why. `root`: what of the file
    // system is mounted.
    v1::Mount: mount {
        source, target, r#type, root, options, size, used, available, inodes, inodes_used,
        trouble: some(&mount.trouble),
    }
    // A disk, or a partition of one, which has a parent. `type`: null where it is not mounted. `backing`: the file behind
    // a loop device.
    v1::Disk: disk {
        name, parent: some(&disk.parent), size, model: some(&disk.model), serial: some(&disk.serial), read_only,
        removable, rotational, targets, r#type: some(&disk.r#type), read_bytes, written_bytes,
        busy_ms: disk.busy.unwrap_or_default(), backing: some(&disk.backing),
    }
    // `name`: below the path that was asked for; empty: that itself. `mode`: permissions, in octal. `link`: where a
    // symbolic link leads. `major`, `minor`: of a device. `trouble`: why nothing more is known of it.
    v1::File: file {
        name: lossy(&file.name), r#type: file_kind(file.mode), mode: format!("{:04o}", file.mode & 0o7777), uid, gid,
        size, modified, link: some(&lossy(&file.link)), major: is_device(file.mode).then_some(file.major),
        minor: is_device(file.mode).then_some(file.minor), trouble: some(&file.trouble),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_device(mode: u32) -> bool {
    matches!(file_kind(mode), "character" | "block")
}

/// The word for the type of a file; empty where it is not known.
pub fn file_kind(mode: u32) -> &'static str {
    match mode & libc::S_IFMT {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "folder",
        libc::S_IFLNK => "link",
        libc::S_IFIFO => "pipe",
        libc::S_IFSOCK => "socket",
        libc::S_IFCHR => "character",
        libc::S_IFBLK => "block",
        _ => "",
    }
}
