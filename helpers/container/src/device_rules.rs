//! Which devices the processes of a container may open.

use std::os::fd::{AsFd as _, OwnedFd};

use kelson_runner::oci::DeviceRule;
use kelson_sys::device_program::{BLOCK, CHARACTER, Rule, USUAL, access, attach, load_program};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use crate::error::{At as _, ContainerError};

const WHAT: &str = "cannot keep the container from the devices of the host";

/// The folder of a cgroup.
pub fn open(cgroup: &str) -> Result<OwnedFd, ContainerError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    nix::fcntl::open(cgroup, flags, Mode::empty()).at(|| WHAT.to_owned())
}

/// Allows all processes below a cgroup what every container has, and what its file lists; nothing else.
pub fn guard(cgroup: &OwnedFd, listed: &[DeviceRule]) -> Result<(), ContainerError> {
    let number = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok());
    let listed = listed.iter().filter(|rule| rule.allow).map(|rule| {
        let kind = if rule.kind.as_deref() == Some("b") { BLOCK } else { CHARACTER };
        (kind, number(rule.major), number(rule.minor), access(&rule.access))
    });
    let rules: Vec<Rule> = USUAL.into_iter().chain(listed).collect();
    let guarded = || {
        let program = load_program(&rules)?;
        attach(program.as_fd(), cgroup.as_fd())
    };
    guarded().at(|| WHAT.to_owned())
}
