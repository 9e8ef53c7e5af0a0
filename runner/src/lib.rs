//! Running one thing once: the [`Runner`] trait, processes, the restart policy, spawn and reap, cgroups.
//!
//! - [`Processes`] makes every child of PID 1 and reaps every one: the only place that does either.
//! - [`Command`] says what a child is; the folder `spawn` makes it, step by step, between clone and exec.
//! - [`ProcessRunner`] is the [`Runner`] of services that are plain processes, in a [`cgroup`] of their own.
//! - [`ContainerRunner`] is the one of services from images, which containerd runs ([`containerd`]).
//! - [`NativeRunner`] is the one of services from images that PID 1 runs itself ([`native`]).
//! - A target runs nothing; its [`Runner`] is in `target`.
//! - [`Executor`] runs a further command where a service runs, [`Images`] is where containers get theirs from.
//! - [`Runner::attach`] continues what an earlier incarnation of PID 1 began; [`Processes::adopt`] does so for a child.
//! - [`restart`] decides, from how a run ended, whether there is another. It knows no process.

#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::unreachable,
        clippy::indexing_slicing,
        reason = "a test that panics has failed, as it should"
    )
)]

pub mod cgroup;
mod command;
mod container;
pub mod containerd;
mod deaf;
mod exec;
mod expand;
mod facts;
mod images;
mod local;
mod namespace;
pub mod native;
pub mod peer;
pub mod places;
mod process;
mod process_exec;
mod processes;
pub mod restart;
mod runner;
pub mod seccomp;
mod service_command;
mod spawn;
mod stop;
mod strays;
mod target;

pub use cgroup::{Cgroup, CgroupRoot, Usage};
pub use command::{Command, Program, Stdio};
pub use container::{listed_mount, oci};
pub use containerd::{ContainerExecutor, ContainerRunner, DetachedContainer};
pub use deaf::Deaf;
pub use exec::{ExecControl, ExecRequest, Executing, Executor, Leash, Outputs, WindowSize};
pub use images::{ImageConfig, Images};
pub use kelson_containerd::Containerd;
pub use local::{local_executor, local_runner};
pub use namespace::open_network;
pub use native::{NativeExecutor, NativeRunner};
pub use process::{ProcessRunner, service_id};
pub use process_exec::ProcessExecutor;
pub use process_exec::terminal::Terminal;
pub use processes::{Child, ExitReceiver, Leftover, Options, Processes, ReapReport, signal_process};
pub use runner::{
    Attachment, BoxFuture, ErrorKind, Exit, Namespaces, Origin, RunContext, Runner, RunnerError, Running,
    StopPlan, StopReport,
};
pub use spawn::{SET_IO_FLUSHER, SpawnError, Step, errno_text, search_path};
