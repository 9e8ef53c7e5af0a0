//! The capabilities of a container: what its file says, or the usual ones, and never more than PID 1 has itself.

use kelson_spec::service::Security;
use kelson_spec::{CAPABILITIES, CONTAINER_CAPABILITIES};
use kelson_sys::process::Status;

use super::oci::Capabilities;

/// The capabilities that a program of the container can ever hold (bit n: capability n): the seccomp profile
/// permits the calls that they allow.
pub(crate) fn held(security: &Security, uid: u32, own: u64) -> u64 {
    let all = bounding(security, own);
    if uid == 0 { all } else { all & security.ambient }
}

fn bounding(security: &Security, own: u64) -> u64 {
    security.capabilities.unwrap_or(CONTAINER_CAPABILITIES) & own
}

/// Root holds all of them; another user those that the file adds, the ambient ones.
pub(crate) fn capabilities(security: &Security, uid: u32, own: u64) -> Capabilities {
    let held = names(held(security, uid, own));
    let ambient = if uid == 0 { Vec::new() } else { held.clone() };
    Capabilities {
        bounding: names(bounding(security, own)),
        effective: held.clone(),
        permitted: held,
        inheritable: ambient.clone(),
        ambient,
    }
}

/// The capabilities of PID 1: a container in a container has less than all, and runc cannot give one that it
/// lacks.
pub(crate) fn own() -> u64 {
    Status::read("self").ok().and_then(|status| status.mask("CapPrm")).unwrap_or(u64::MAX)
}

fn names(mask: u64) -> Vec<String> {
    let bit = |number: usize| u32::try_from(number).ok().and_then(|number| 1u64.checked_shl(number));
    CAPABILITIES
        .iter()
        .enumerate()
        .filter(|(number, _)| bit(*number).is_some_and(|bit| mask & bit != 0))
        .map(|(_, name)| format!("CAP_{}", name.to_ascii_uppercase()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_holds_all_and_others_what_is_added() {
        let usual = capabilities(&Security::default(), 0, u64::MAX);
        assert_eq!(usual.bounding.len(), 14);
        assert_eq!((usual.effective.len(), usual.permitted.len(), usual.ambient.len()), (14, 14, 0));
        let user = capabilities(&Security::default(), 1000, u64::MAX);
        assert_eq!((user.bounding.len(), user.effective.len()), (14, 0));
        let added = Security {
            capabilities: Some(CONTAINER_CAPABILITIES | 1 << 12),
            ambient: 1 << 12,
            ..Security::default()
        };
        let user = capabilities(&added, 1000, u64::MAX);
        assert_eq!(user.ambient, ["CAP_NET_ADMIN"]);
        assert_eq!((&user.effective, &user.inheritable), (&user.ambient, &user.ambient));
        assert_eq!(held(&added, 1000, u64::MAX), 1 << 12);
        assert_eq!(held(&added, 0, 1 << 12 | 1), 1 << 12 | 1);
        assert_eq!(capabilities(&added, 0, 1).bounding, ["CAP_CHOWN"]);
    }
}
