//! The kernel's messages about devices.

use kelson_devices::uevent::Uevent;

/// One datagram.
pub fn message(data: &[u8]) {
    if let Some(uevent) = Uevent::parse(data) {
        let inside = |path: &str| !path.split('/').any(|part| part == "..");
        assert!(uevent.device.path.starts_with("/devices/") && inside(&uevent.device.path));
        assert!(uevent.device.node().is_none_or(|node| !node.starts_with('/') && inside(node)));
    }
}
