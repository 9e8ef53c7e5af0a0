//! The user, the groups and the capabilities of the child. The rule of [`child`](super) holds here too.

use kelson_spec::features::{Feature, OWN};

use super::calls::{address, call, prctl, signed, wide};
use crate::command::Command;
use crate::spawn::Step;
use crate::spawn::control::Control;
use crate::spawn::plan::Plan;
use crate::spawn::sys::syscall;

/// More than any kernel knows.
const CAPABILITIES: u32 = 64;

/// From here on nothing needs root of the machine. Its supplementary groups, which the namespace does not know, stay.
pub fn enter_users(plan: &Plan) -> Result<(), i32> {
    if let Some(ids) = &plan.command.credentials {
        set_groups(plan, &ids.groups, ids.gid)?;
    }
    plan.control.enter(Step::Users);
    call(libc::SYS_setns, [signed(plan.users_fd), signed(libc::CLONE_NEWUSER), 0, 0, 0])?;
    Ok(())
}

fn set_groups(plan: &Plan, groups: &[u32], main: u32) -> Result<(), i32> {
    plan.control.enter(Step::Groups);
    match call(libc::SYS_setgroups, [groups.len(), groups.as_ptr().addr(), 0, 0, 0]) {
        // Not privileged: to set what one has needs no privilege, but for this call.
        Err(libc::EPERM) if has_groups(groups, main)? => Ok(()),
        set => set.map(|_| ()),
    }
}

/// User and capabilities. Calls on this process alone: libc's would change all threads of PID 1.
pub fn credentials(plan: &Plan) -> Result<(), i32> {
    let control: &Control = &plan.control;
    let Command { credentials, bounding, ambient, no_new_privileges, .. } = &plan.command;
    if let Some(bounding) = *bounding {
        control.enter(Step::Capabilities);
        control.set_detail(u32::MAX);
        match drop_bounding(control, bounding) {
            // CAP_SETPCAP is missing. With no_new_privs no program is given what is not permitted, whatever the bounding
            // set has, and what is permitted is set below.
            Err(libc::EPERM) if *no_new_privileges => {}
            dropped => dropped?,
        }
    }
    let keep = *ambient != 0 && credentials.as_ref().is_some_and(|ids| ids.uid != 0);
    if let Some(ids) = credentials {
        if const { !OWN.has(Feature::Units) } || plan.users_fd < 0 {
            set_groups(plan, &ids.groups, ids.gid)?;
        }
        control.enter(Step::Group);
        let gid = wide(ids.gid);
        call(libc::SYS_setresgid, [gid, gid, gid, 0, 0])?;
        control.enter(Step::User);
        if keep {
            prctl(libc::PR_SET_KEEPCAPS, 1, 0)?;
        }
        let uid = wide(ids.uid);
        call(libc::SYS_setresuid, [uid, uid, uid, 0, 0])?;
    }
    if keep {
        control.enter(Step::Capabilities);
        control.set_detail(u32::MAX);
        set_capabilities(*ambient, *ambient)?;
        for capability in each_capability(*ambient) {
            control.set_detail(capability);
            prctl(libc::PR_CAP_AMBIENT, signed(libc::PR_CAP_AMBIENT_RAISE), wide(capability))?;
        }
    } else if let Some(bounding) = *bounding {
        control.enter(Step::Capabilities);
        control.set_detail(u32::MAX);
        let held = permitted()?;
        set_capabilities(held & bounding, 0)?;
    }
    Ok(())
}

/// Whether the groups of this process are these; whether the main group is one of them makes no difference.
fn has_groups(wanted: &[u32], main: u32) -> Result<bool, i32> {
    /// More than a user has as a rule.
    const MOST: usize = 256;
    let mut groups = [0_u32; MOST];
    let count = match call(libc::SYS_getgroups, [MOST, std::ptr::from_mut(&mut groups).addr(), 0, 0, 0]) {
        Err(libc::EINVAL) => return Ok(false),
        count => count?,
    };
    // The kernel wrote behind the compiler's back.
    let groups = std::hint::black_box(groups);
    let within = |some: &[u32], all: &[u32]| some.iter().all(|group| *group == main || all.contains(group));
    Ok(groups.get(..count).is_some_and(|held| within(held, wanted) && within(wanted, held)))
}

fn each_capability(set: u64) -> impl Iterator<Item = u32> {
    (0..CAPABILITIES).filter(move |capability| set & 1u64.wrapping_shl(*capability) != 0)
}

fn drop_bounding(control: &Control, keep: u64) -> Result<(), i32> {
    for capability in each_capability(!keep) {
        control.set_detail(capability);
        match prctl(libc::PR_CAPBSET_READ, wide(capability), 0) {
            // Beyond the last that this kernel knows.
            Err(libc::EINVAL) => return Ok(()),
            Ok(0) => {}
            _ => {
                prctl(libc::PR_CAPBSET_DROP, wide(capability), 0)?;
            }
        }
    }
    Ok(())
}

/// `_LINUX_CAPABILITY_VERSION_3`, this process.
const CAPABILITY_HEADER: [u32; 2] = [0x2008_0522, 0];

/// The lower and the upper 32 capabilities.
#[allow(clippy::cast_possible_truncation, reason = "the two halves of the set")]
fn halves(set: u64) -> (u32, u32) {
    (set as u32, set.wrapping_shr(32) as u32)
}

fn permitted() -> Result<u64, i32> {
    let mut header = CAPABILITY_HEADER;
    // Effective, permitted, inheritable of the lower half, then of the upper.
    let mut data = [0u32; 6];
    let (header, out) = (std::ptr::from_mut(&mut header).addr(), std::ptr::from_mut(&mut data).addr());
    // SAFETY: header and data have the kernel's sizes for version 3 and live on this stack.
    unsafe { syscall(libc::SYS_capget, [header, out, 0, 0, 0]) }?;
    // The kernel wrote behind the compiler's back.
    let [_, low, _, _, high, _] = std::hint::black_box(data);
    Ok(u64::from(low) | u64::from(high).wrapping_shl(32))
}

fn set_capabilities(held: u64, inheritable: u64) -> Result<(), i32> {
    let mut header = CAPABILITY_HEADER;
    let ((low, high), (low_inherited, high_inherited)) = (halves(held), halves(inheritable));
    let data = [low, low, low_inherited, high, high, high_inherited];
    let header = std::ptr::from_mut(&mut header).addr();
    // SAFETY: as in `permitted`.
    unsafe { syscall(libc::SYS_capset, [header, address(&data), 0, 0, 0]) }?;
    Ok(())
}
