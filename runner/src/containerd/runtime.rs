//! The options of the runtime (the shim and runc) besides the container itself.

use std::path::Path;

use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use prost::Message;
use prost_types::Any;

use crate::container::mounts::for_runc;
use crate::container::spec::{self, Host, Run};
use crate::images::ImageConfig;
use crate::runner::RunnerError;

/// The runtime by which containers run.
pub(super) const RUNTIME: &str = "io.containerd.runc.v2";

/// Type of [`Options`] in an `Any`.
const OPTIONS: &str = "containerd.runc.v1.Options";
/// Type of the container's specification.
const SPEC: &str = "types.containerd.io/opencontainers/runtime-spec/1/Spec";
/// Type of the specification of a further process.
pub(super) const PROCESS: &str = "types.containerd.io/opencontainers/runtime-spec/1/Process";

/// `containerd.runc.v1.Options`: what of it Kelson sets. Its numbers are the shim's contract.
#[derive(Clone, PartialEq, Message)]
struct Options {
    #[prost(string, tag = "3")]
    shim_cgroup: String,
    /// Owner of the pipes that the shim makes for the container: opening `/dev/stdout` opens them again.
    #[prost(uint32, tag = "4")]
    io_uid: u32,
    #[prost(uint32, tag = "5")]
    io_gid: u32,
    #[prost(string, tag = "7")]
    root: String,
}

/// `shim_cgroup` counts from the mount of cgroup2; empty: the shim stays where containerd is.
pub(super) fn options(runtime_dir: &Path, shim_cgroup: String, uid: u32, gid: u32) -> Any {
    let root = runtime_dir.join("containerd/runc").to_string_lossy().into_owned();
    let options = Options { shim_cgroup, io_uid: uid, io_gid: gid, root };
    Any { type_url: OPTIONS.to_owned(), value: options.encode_to_vec() }
}

/// The specification of one run, packed for containerd.
///
/// # Errors
/// When neither the service file nor the image says what to run, or a device is not there.
pub(super) fn packed(
    service: &ServiceSpec,
    image: &ImageConfig,
    host: &Host,
    run: &Run,
) -> Result<Any, RunnerError> {
    let mut made = spec::spec(service, image, host, run)?;
    if const { OWN.has(Feature::Volumes) } && !run.found.is_empty() {
        made.mounts = for_runc(made.mounts);
    }
    let value = serde_json::to_vec(&made)
        .map_err(|error| RunnerError::new(format!("cannot write the container's specification: {error}")))?;
    Ok(Any { type_url: SPEC.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_numbers_of_the_shim() {
        let any = options(Path::new("/r"), String::from("/s"), 5, 6);
        let expected = b"\x1a\x02/s\x20\x05\x28\x06\x3a\x12/r/containerd/runc";
        assert_eq!(any.value, expected);
    }
}
