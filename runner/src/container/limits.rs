//! The resource limits of a container's process: those of the service file, and how many files it may open.

use kelson_spec::LIMITS;
use kelson_spec::service::ResourceLimit;
use nix::sys::resource::{Resource, getrlimit};

use super::oci::Rlimit;

/// How many files a process of a container may open where its service says nothing, soft and hard: the usual numbers.
const FILES: (u64, u64) = (1024, 524_288);

/// The capability that lets a process raise its hard limits.
const SYS_RESOURCE: u32 = 24;

/// The kernel starts a machine's PID 1 with 4096, which it may raise; one without the privilege has what it was given.
pub(crate) fn most_files(capabilities: u64) -> u64 {
    match capabilities & (1 << SYS_RESOURCE) {
        0 => getrlimit(Resource::RLIMIT_NOFILE).map_or(FILES.0, |(_, hard)| hard),
        _ => FILES.1,
    }
}

/// Those of the service file. A container inherits the other limits from its shim, and that from containerd,
/// which has as many files as the host can bear; programs that walk through all numbers up to the limit would
/// take minutes.
pub(crate) fn rlimits(of_service: &[ResourceLimit], most_files: u64) -> Vec<Rlimit> {
    let own = of_service.iter().filter_map(|limit| rlimit(limit.resource, limit.soft, limit.hard));
    let files = of_service.iter().all(|limit| limit.resource != libc::RLIMIT_NOFILE);
    let (soft, hard) = (FILES.0.min(most_files), FILES.1.min(most_files));
    own.chain(files.then(|| rlimit(libc::RLIMIT_NOFILE, soft, hard)).flatten()).collect()
}

fn rlimit(resource: u32, soft: u64, hard: u64) -> Option<Rlimit> {
    let (name, _) = LIMITS.iter().find(|(_, number)| *number == resource)?;
    Some(Rlimit { kind: format!("RLIMIT_{}", name.to_ascii_uppercase()), hard, soft })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_files_may_be_open_is_not_left_to_containerd() {
        let files = |hard, soft| Rlimit { kind: "RLIMIT_NOFILE".into(), hard, soft };
        let core = Rlimit { kind: "RLIMIT_CORE".into(), hard: 0, soft: 0 };
        let made = |limits: &[ResourceLimit]| rlimits(limits, 1 << 20);
        assert_eq!(made(&[]), [files(524_288, 1024)]);
        let no_core = ResourceLimit { resource: 4, soft: 0, hard: 0 };
        assert_eq!(made(&[no_core]), [core.clone(), files(524_288, 1024)]);
        assert_eq!(
            made(&[no_core, ResourceLimit { resource: 7, soft: 10, hard: 20 }]),
            [core, files(20, 10)]
        );
    }

    #[test]
    fn no_container_is_promised_more_open_files_than_the_host_has() {
        for (host, expected) in [(1 << 20, (1024, 524_288)), (20_000, (1024, 20_000)), (512, (512, 512))] {
            let limits = rlimits(&[], host);
            let [Rlimit { soft, hard, .. }] = &limits[..] else { panic!("{limits:?}") };
            assert_eq!((*soft, *hard), expected, "{host}");
        }
    }

    #[test]
    fn who_may_raise_its_limits_is_not_bound_by_them() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!((most_files(u64::MAX), most_files(0)), (524_288, hard));
    }
}
