//! Reports to PID 1 by the protocol of sd_notify, as every service may, that a helper is ready.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `state` (such as `READY=1`) to where `NOTIFY_SOCKET` says. Without the variable nothing is sent.
///
/// # Errors
/// When it is set and nobody listens there.
pub fn notify(state: &str) -> std::io::Result<()> {
    Notifier::connect()?.send(state)
}

/// The key of an assignment that becomes an event of a built-in service.
pub const EVENT: &str = "X_KELSON_EVENT";

/// The key of an assignment with the name that a server gives to this host; of the built-in service `net` alone.
pub const HOST_NAME: &str = "X_KELSON_HOST_NAME";

/// A connection to the notify socket, which stays when the process becomes another user.
#[derive(Debug, Default)]
pub struct Notifier(Option<UnixDatagram>);

impl Notifier {
    /// Connects to where `NOTIFY_SOCKET` says. Without the variable nothing will be sent.
    ///
    /// # Errors
    /// When it is set and nobody listens there.
    pub fn connect() -> std::io::Result<Notifier> {
        let address = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty());
        Ok(Notifier(address.map(|address| connected(&address)).transpose()?))
    }

    /// Sends `state`.
    ///
    /// # Errors
    /// When nobody listens any more.
    pub fn send(&self, state: &str) -> std::io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |socket| socket.send(state.as_bytes()).map(|_| ()))
    }
}

fn connected(address: &OsStr) -> std::io::Result<UnixDatagram> {
    let address = match address.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_arrives_at_a_path_and_at_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("kelson-test-{}", path.display());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        connected(path.as_os_str()).unwrap().send(b"READY=1").unwrap();
        connected(OsStr::new(&format!("@{name}"))).unwrap().send(b"STOPPING=1").unwrap();
        let mut buffer = [0; 32];
        let length = by_path.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1");
        let length = by_name.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"STOPPING=1");
        assert!(connected(folder.path().join("nobody").as_os_str()).is_err());
    }
}
