//! `processes` and `netstat`, as programs read them.

use kelson_proto::v1;
use serde::Serialize;

use super::{millis, some};

/// One process.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    /// Null: it is none's.
    pub service: Option<String>,
    /// What the kernel calls it, up to 15 characters.
    pub name: String,
    /// Bytes that are not UTF-8 are replaced.
    pub command: Vec<String>,
    /// One letter, as `ps` has it.
    pub state: String,
    pub uid: u32,
    pub threads: u32,
    pub memory_bytes: u64,
    pub cpu_ms: f64,
    pub age_ms: f64,
    /// Null: the kernel did not tell.
    pub descriptors: Option<u32>,
    pub kernel: bool,
}

impl From<&v1::Process> for Process {
    fn from(process: &v1::Process) -> Process {
        Process {
            pid: process.pid,
            parent: process.parent,
            service: some(&process.service),
            name: process.name.clone(),
            command: process.command.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
            state: process.state.clone(),
            uid: process.uid,
            threads: process.threads,
            memory_bytes: process.resident,
            cpu_ms: millis(&process.cpu).unwrap_or_default(),
            age_ms: millis(&process.age).unwrap_or_default(),
            descriptors: process.descriptors,
            kernel: process.kernel,
        }
    }
}

/// One socket.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Socket {
    /// `tcp`, `tcp6`, `udp`, `udp6`, `unix`.
    pub protocol: String,
    pub local: String,
    /// Null: nobody.
    pub remote: Option<String>,
    pub state: String,
    pub uid: u32,
    pub receive_queue: u64,
    pub send_queue: u64,
    pub inode: u64,
    pub processes: Vec<SocketHolder>,
}

/// A process that has a descriptor of a socket.
#[derive(Debug, Clone, Serialize)]
pub struct SocketHolder {
    pub pid: i32,
    pub name: String,
    /// Null: it is none's.
    pub service: Option<String>,
}

impl From<&v1::Socket> for Socket {
    fn from(socket: &v1::Socket) -> Socket {
        let holder = |holder: &v1::SocketHolder| SocketHolder {
            pid: holder.pid,
            name: holder.name.clone(),
            service: some(&holder.service),
        };
        Socket {
            protocol: socket.protocol.clone(),
            local: socket.local.clone(),
            remote: some(&socket.remote),
            state: socket.state.clone(),
            uid: socket.uid,
            receive_queue: socket.receive_queue,
            send_queue: socket.send_queue,
            inode: socket.inode,
            processes: socket.holders.iter().map(holder).collect(),
        }
    }
}
