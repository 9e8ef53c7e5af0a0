//! The harness of Kelson's whole-system tests: it runs the binaries from outside and looks at what they do.
//!
//! - [`Host`]: the whole supervisor as PID 1 of a PID namespace of its own, in a cgroup of its own. Milliseconds to
//!   start; this is where nearly all scenarios run.
//!   With [`HostBuilder::containers`] it has a containerd of its own and runs images that tests make ([`image`]).
//! - [`Vm`]: a real boot in QEMU of what `make image` built, through `hack/vm`.
//! - [`chaos`]: faults in PID 1 again and again under load, on either, and what became of the services.
//!
//! Services run `kelson-test-program`, whose arguments are steps (`src/bin/kelson-test-program/main.rs` lists them), so
//! that a test says exactly which processes there are and depends on no shell. In service files `$PROGRAM` stands for
//! it and `$DIR` for the test's own folder.
//!
//! `tests/scenarios/basics` is a short example.
//!
//! Nothing sleeps and hopes: what a test waits for is an event of the host, the answer of `kelsonctl wait`, or a
//! level that is looked at until a deadline ([`deadline::until`]). A test that fails prints what the host said on its
//! console and its last events, and keeps its folder.
//!
//! `init` and `kelsonctl` are those of `KELSON_BIN_DIR`, else the ones beside the running test (`cargo build` puts them
//! there), where the programs of the tests are.

pub mod alone;
pub mod authority;
pub mod cgroup;
pub mod chaos;
pub mod checksum;
pub mod child;
pub mod consul;
pub mod containers;
pub mod ctl;
pub mod deadline;
pub mod dice;
pub mod disk;
pub mod drive;
pub mod etcd;
pub mod hanging_disk;
pub mod host;
pub mod image;
pub mod loop_disk;
pub mod namespace;
pub mod paths;
mod port;
pub mod process;
pub mod registry;
pub mod remote;
pub mod signer;
pub mod skip;
pub mod stream;
mod terminal;
pub mod vm;

pub use alone::alone;
pub use authority::Authority;
pub use ctl::{Action, Ctl, Event, Output, Reason, Service, time_of};
pub use deadline::{PATIENCE, eventually, until};
pub use dice::Dice;
pub use disk::Disk;
pub use drive::{Cache, Drive, Loss};
pub use etcd::Etcd;
pub use hanging_disk::HangingDisk;
pub use host::{Host, HostBuilder, Without, process};
pub use image::{Image, Tar, archive};
pub use loop_disk::LoopDisk;
pub use port::free_port;
pub use process::Process;
pub use registry::Registry;
pub use signer::Signer;
pub use skip::skip;
pub use stream::Lines;
pub use terminal::{Line, on_terminal};
pub use vm::{Vm, VmBuilder};
