//! The network namespace of a container, which a file of `/run` holds.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::thread;

use kelson_spec::container_network::ContainerNetworkSpec;
use kelson_sys::netlink::{self, NewRoute};
use kelson_sys::removed;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use crate::failure::at;

/// The container's end of the cable.
pub const INTERFACE: &str = "eth0";
/// The first port on which a user without privileges may listen: as with Docker, none of the container's own needs one.
const FIRST_PORT: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
/// Of the thread that looks.
const OWN: &str = "/proc/thread-self/ns/net";

/// Makes a namespace that the file holds.
pub fn make(path: &Path) -> Result<File, String> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| at(folder, error))?;
    }
    File::create(path).map_err(|error| at(path, error))?;
    elsewhere(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let none: Option<&str> = None;
        mount(Some(OWN), path, none, MsFlags::MS_BIND, none)?;
        File::open(path)
    })
    .map_err(|error| format!("cannot make its namespace: {error}"))
}

/// Switches its interfaces on, with the addresses of a place.
pub fn set_up(namespace: File, network: &ContainerNetworkSpec, place: u32) -> Result<(), String> {
    let set = elsewhere(|| {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
        fs::write(FIRST_PORT, "0")?;
        let index = |name| netlink::index_of(name).ok_or(io::Error::from(Errno::ENODEV));
        netlink::set_up(index("lo")?)?;
        let own = index(INTERFACE)?;
        netlink::set_up(own)?;
        for (address, gateway) in network.addresses(place).into_iter().zip(network.gateways()) {
            netlink::add_sure_address(own, address.0, address.1)?;
            netlink::set_route(own, &NewRoute::default_by(gateway.0))?;
        }
        Ok(())
    });
    set.map_err(|error| format!("cannot set up its {INTERFACE}: {error}"))
}

/// Removes the file; one that is not there is no error.
pub fn remove(path: &Path) -> Result<(), String> {
    // A crash may have left it mounted twice.
    loop {
        match umount2(path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => {}
            // It is no mount, or not there.
            Err(Errno::EINVAL | Errno::ENOENT) => break,
            Err(errno) => return Err(at(path, errno.desc())),
        }
    }
    removed(fs::remove_file(path)).map_err(|error| at(path, error))
}

/// Does work on a thread of its own, whose namespaces are no others'.
fn elsewhere<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(io::Error::other("its thread has failed")))
}
