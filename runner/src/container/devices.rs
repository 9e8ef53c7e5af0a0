//! The devices of the host that a container is given: only those that its file lists.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use kelson_spec::service::ContainerDevice;

use super::oci::{Device, DeviceRule};
use crate::runner::{ErrorKind, RunnerError};

/// Nothing is allowed but what follows; runc itself adds the harmless ones that every container has (`null`, `zero`,
/// `full`, `random`, `urandom`, `tty`, `ptmx` and pseudoterminals).
pub(crate) fn deny_all() -> DeviceRule {
    DeviceRule { allow: false, kind: None, major: None, minor: None, access: String::from("rwm") }
}

/// The node that a container gets for a device of the host, and the rule that lets it in.
///
/// # Errors
/// When it is not there, is no device, or is not below `/dev` (elsewhere the look at it may wait for a disk).
pub(crate) fn device(listed: &ContainerDevice) -> Result<(Device, DeviceRule), RunnerError> {
    let source = listed.source.display();
    if !listed.source.starts_with("/dev") || listed.source.components().any(|part| part.as_os_str() == "..") {
        let text = format!("device {source} is not below /dev");
        return Err(RunnerError::of_kind(ErrorKind::Permanent, text));
    }
    let metadata = fs::metadata(&listed.source)
        .map_err(|error| RunnerError::system(format_args!("cannot find device {source}"), &error))?;
    let kind = if metadata.file_type().is_char_device() {
        "c"
    } else if metadata.file_type().is_block_device() {
        "b"
    } else {
        return Err(RunnerError::new(format!("{source} is no device")));
    };
    let (major, minor) = (i64::from(libc::major(metadata.rdev())), i64::from(libc::minor(metadata.rdev())));
    let device = Device {
        path: text(&listed.target),
        kind: kind.into(),
        major,
        minor,
        file_mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
    };
    let rule = DeviceRule {
        allow: true,
        kind: Some(kind.into()),
        major: Some(major),
        minor: Some(minor),
        access: listed.permissions.clone(),
    };
    Ok((device, rule))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(source: &str) -> ContainerDevice {
        ContainerDevice { source: source.into(), target: "/dev/x".into(), permissions: "rw".into() }
    }

    #[test]
    fn a_listed_device_is_made_and_allowed() {
        let (device, rule) = device(&listed("/dev/null")).unwrap();
        assert_eq!((device.path.as_str(), &*device.kind, device.major, device.minor), ("/dev/x", "c", 1, 3));
        assert_eq!(
            (rule.allow, rule.major, rule.minor, rule.access.as_str()),
            (true, Some(1), Some(3), "rw")
        );
    }

    #[test]
    fn what_is_no_device_is_refused_with_its_name() {
        let refused = |source| device(&listed(source)).unwrap_err().message;
        assert!(refused("/dev/nope").contains("/dev/nope"), "{}", refused("/dev/nope"));
        assert_eq!(refused("/dev"), "/dev is no device");
        assert_eq!(refused("/etc/passwd"), "device /etc/passwd is not below /dev");
        assert_eq!(refused("/dev/../etc/passwd"), "device /dev/../etc/passwd is not below /dev");
    }
}
