//! sd_notify: what a service tells of itself over `NOTIFY_SOCKET`, one socket a run.
//!
//! A socket of its own for each run says for certain which run speaks: no guess by PID or cgroup, which fails for a
//! sender that has exited by the time its message is read. Messages of an earlier run go to a socket that nobody
//! reads any more. Only the service's user (and root) may send. A program that root starts may have become any user by
//! then: its socket takes messages of all, and has a name that only its processes know.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_spec::names::is_given_hostname;
use kelson_sys::descriptor::Watched;
use kelson_sys::random;
use kelson_sys::text::harmless;
use nix::errno::Errno;
use nix::sys::socket::sockopt::PassCred;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, UnixCredentials, bind,
    connect, getsockname, recv, recvmsg, setsockopt, socket,
};
use nix::unistd::geteuid;

use crate::state_store::{Descriptor, KeptDescriptor, StateStore};

/// Longest datagram that is read; what is longer is not looked at.
const DATAGRAM: usize = 4096;
/// Longest status text that is kept.
const STATUS: usize = 256;

/// The key of an event, as programs of Kelson write it.
const EVENT: &[u8] = kelson_helper::notify::EVENT.as_bytes();
const HOST_NAME: &[u8] = kelson_helper::notify::HOST_NAME.as_bytes();

/// One assignment of a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Ready,
    Reloading,
    Stopping,
    Status(String),
    /// Something happened that is worth an event; of built-in services alone.
    Event(String),
    /// A server gives this name to the host; of the built-in service `net` alone.
    HostName(String),
    Watchdog,
    /// The service found itself broken.
    WatchdogTrigger,
    /// From now on it pings within this interval; zero switches it off.
    WatchdogInterval(Duration),
    ExtendTimeout(Duration),
    /// Refused: Kelson follows the process that it started.
    MainPid(String),
}

/// The assignments of a datagram that Kelson knows, in their order; others are not for it.
pub fn parse(datagram: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    for line in datagram.split(|byte| *byte == b'\n').take(32) {
        let Some(equals) = line.iter().position(|byte| *byte == b'=') else { continue };
        let (key, rest) = line.split_at(equals);
        let value = rest.get(1..).unwrap_or_default();
        let micros = || {
            std::str::from_utf8(value)
                .ok()
                .and_then(|v| v.trim().parse::<u64>().ok())
                .map(Duration::from_micros)
        };
        match key {
            b"READY" if value == b"1" => messages.push(Message::Ready),
            b"RELOADING" if value == b"1" => messages.push(Message::Reloading),
            b"STOPPING" if value == b"1" => messages.push(Message::Stopping),
            b"STATUS" => messages.push(Message::Status(printable(value, STATUS))),
            HOST_NAME => messages.extend(host_name(value).map(Message::HostName)),
            EVENT => messages.push(Message::Event(printable(value, STATUS))),
            b"WATCHDOG" if value == b"1" => messages.push(Message::Watchdog),
            b"WATCHDOG" if value == b"trigger" => messages.push(Message::WatchdogTrigger),
            b"WATCHDOG_USEC" => messages.extend(micros().map(Message::WatchdogInterval)),
            b"EXTEND_TIMEOUT_USEC" => messages.extend(micros().map(Message::ExtendTimeout)),
            b"MAINPID" => messages.push(Message::MainPid(printable(value, 16))),
            _ => {}
        }
    }
    messages
}

/// A name that tells this host from others; the program that sends it has it from strangers.
fn host_name(value: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(value).ok()?;
    is_given_hostname(name).then(|| name.to_owned())
}

/// Text of a service made safe to show: valid UTF-8, no control characters, at most `limit` bytes.
fn printable(bytes: &[u8], limit: usize) -> String {
    let mut text = String::new();
    for c in harmless(String::from_utf8_lossy(bytes).trim(), Some(' ')) {
        if text.len().saturating_add(c.len_utf8()) > limit {
            break;
        }
        text.push(c);
    }
    text
}

/// Makes the folder of the sockets: users of services pass through it to their own, and see no other.
///
/// # Errors
/// When it cannot be made.
pub fn make_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().mode(0o711).create(path)
}

/// Removes the sockets that nobody holds: an incarnation of PID 1 died between two runs, with that of the first.
pub fn remove_abandoned(directory: &Path) {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let Ok(asking) = socket(AddressFamily::Unix, SockType::Datagram, flags, None) else { return };
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let connected = UnixAddr::new(&path).and_then(|address| connect(asking.as_raw_fd(), &address));
        if connected == Err(Errno::ECONNREFUSED) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The socket of one run.
pub struct NotifySocket {
    socket: Watched<KeptDescriptor>,
    address: Address,
}

enum Address {
    /// A file, whose owner and mode say who may send. It is removed with the socket.
    File(PathBuf),
    /// An abstract name, which any process of the network namespace reaches: messages of users other than this one
    /// and root are ignored.
    Abstract { name: String, user: u32 },
}

impl NotifySocket {
    /// Binds the socket of a service, for its user: a file in `directory`, or an abstract name where that fails and no
    /// state is kept.
    ///
    /// # Errors
    /// When the path is too long for a socket or the directory cannot be written.
    pub fn bind(
        directory: &Path,
        service: &str,
        uid: Option<u32>,
        store: Option<&StateStore>,
        run: u64,
    ) -> io::Result<NotifySocket> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Datagram, flags, None)?;
        let address = match bind_file(&socket, directory, service, uid) {
            Ok(path) => Address::File(path),
            // A host that keeps no state may have no folder that it can write, either.
            Err(_) if store.is_none() => bind_abstract(&socket, uid)?,
            Err(error) => return Err(error),
        };
        let kept =
            KeptDescriptor::new(socket, store, || Descriptor::Notify { service: service.to_owned(), run });
        NotifySocket::watched(kept, address)
    }

    /// The socket that an earlier incarnation of PID 1 has bound.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub fn inherited(socket: KeptDescriptor) -> io::Result<NotifySocket> {
        let bound: UnixAddr = getsockname(socket.as_raw_fd())?;
        let path = bound.path().map(Path::to_owned).ok_or(Errno::EADDRNOTAVAIL)?;
        NotifySocket::watched(socket, Address::File(path))
    }

    fn watched(socket: KeptDescriptor, address: Address) -> io::Result<NotifySocket> {
        Ok(NotifySocket { socket: Watched::reading(socket)?, address })
    }

    /// The value of `NOTIFY_SOCKET`: a path, or `@` and an abstract name.
    pub fn address(&self) -> String {
        match &self.address {
            Address::File(path) => path.display().to_string(),
            Address::Abstract { name, .. } => format!("@{name}"),
        }
    }

    fn receive(&self, socket: &KeptDescriptor) -> io::Result<Vec<Message>> {
        match self.address {
            Address::File(_) => receive(socket, None),
            Address::Abstract { user, .. } => receive(socket, Some(user)),
        }
    }

    /// The messages of the next datagram, which stays there until it is [taken](NotifySocket::take). Cancelled by
    /// dropping; loses nothing then.
    ///
    /// # Errors
    /// When the socket is broken permanently.
    pub async fn next(&self) -> io::Result<Vec<Message>> {
        loop {
            let mut ready = self.socket.readable().await?;
            if let Ok(result) = ready.try_io(|socket| self.receive(socket.get_ref())) {
                return result;
            }
        }
    }

    /// The messages of a datagram that is there already.
    pub fn next_now(&self) -> Option<Vec<Message>> {
        self.receive(self.socket.get_ref()).ok()
    }

    /// Removes the datagram whose messages were read, once what they say is written down: an incarnation of PID 1 that
    /// crashes before leaves it to the next one.
    pub fn take(&self) {
        // The part of it that does not fit is gone with it. Nobody else reads here, so it is there.
        let _ = recv(self.socket.as_raw_fd(), &mut [], MsgFlags::MSG_DONTWAIT);
    }
}

impl Drop for NotifySocket {
    fn drop(&mut self) {
        if let Address::File(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind_file(socket: &OwnedFd, directory: &Path, service: &str, uid: Option<u32>) -> io::Result<PathBuf> {
    let secret = if uid.is_none_or(|uid| uid == 0) { random::number() } else { None };
    let path = match &secret {
        Some(secret) => directory.join(format!("{service}.{secret:016x}")),
        None => directory.join(service),
    };
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let address = UnixAddr::new(&path).map_err(|error| {
        io::Error::new(
            io::Error::from(error).kind(),
            format!("{}: path too long for a socket", path.display()),
        )
    })?;
    match bind(socket.as_raw_fd(), &address) {
        // Somebody has removed the folder.
        Err(Errno::ENOENT) => {
            make_folder(directory)?;
            bind(socket.as_raw_fd(), &address)?;
        }
        bound => bound?,
    }
    let mode = if secret.is_some() { 0o666 } else { 0o600 };
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    if uid.is_some() {
        std::os::unix::fs::chown(&path, uid, None)?;
    }
    Ok(path)
}

/// Binds to a name that the kernel chooses.
fn bind_abstract(socket: &OwnedFd, uid: Option<u32>) -> io::Result<Address> {
    setsockopt(socket, PassCred, &true)?;
    bind(socket.as_raw_fd(), &UnixAddr::new_unnamed())?;
    let bound: UnixAddr = getsockname(socket.as_raw_fd())?;
    let name = String::from_utf8_lossy(bound.as_abstract().unwrap_or_default()).into_owned();
    Ok(Address::Abstract { name, user: uid.unwrap_or_else(|| geteuid().as_raw()) })
}

/// The messages of the next datagram; none if it comes from neither root nor `user`.
fn receive(socket: &KeptDescriptor, user: Option<u32>) -> io::Result<Vec<Message>> {
    let mut buffer = [0_u8; DATAGRAM];
    let mut slices = [io::IoSliceMut::new(&mut buffer)];
    // No room for descriptors that come along (FDSTORE, BARRIER): the kernel drops them, which answers a barrier. PID 1
    // must not close them itself: the last close of a file on a dead disk waits for that disk. Credentials come first
    // and fill their room.
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
    let mut room = nix::cmsg_space!(UnixCredentials);
    let control = user.map(|_| room.as_mut_slice());
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, control, flags)?;
    let allowed = user.is_none_or(|user| {
        message.cmsgs().into_iter().flatten().any(|control| {
            matches!(control, ControlMessageOwned::ScmCredentials(sender) if [0, user].contains(&sender.uid()))
        })
    });
    let truncated = message.flags.contains(MsgFlags::MSG_TRUNC);
    let length = message.bytes;
    let usable = allowed && !truncated;
    Ok(if usable { parse(buffer.get(..length).unwrap_or_default()) } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_in_order_and_foreign_ones_left_alone() {
        let text = b"READY=1\nSTATUS=all \x1b[31mwell\nFDNAME=x\nnonsense\nWATCHDOG_USEC=2000000\nMAINPID=12\nREADY=0\nEXTEND_TIMEOUT_USEC=-1";
        assert_eq!(
            parse(text),
            [
                Message::Ready,
                Message::Status("all  [31mwell".into()),
                Message::WatchdogInterval(Duration::from_secs(2)),
                Message::MainPid("12".into()),
            ]
        );
    }

    #[test]
    fn any_bytes_are_taken() {
        for length in 0..64_u8 {
            let bytes: Vec<u8> = (0..length).map(|n| n.wrapping_mul(37) ^ length).collect();
            let _ = parse(&bytes);
        }
        assert_eq!(parse(b"X_KELSON_HOST_NAME=edge-1.lan"), [Message::HostName("edge-1.lan".into())]);
        let long = [b"X_KELSON_HOST_NAME=".as_slice(), &[b'a'; 65]].concat();
        let hostile = ["", "-a", "a b", "a/b", "a..b", "\u{fc}", "a\0", "localhost", "(none)", "$(x)"];
        for name in hostile {
            assert_eq!(parse(format!("X_KELSON_HOST_NAME={name}").as_bytes()), [], "{name}");
        }
        assert_eq!(parse(&long), []);
        assert_eq!(parse(b"X_KELSON_EVENT=a\x1bb"), [Message::Event("a b".into())]);
        assert_eq!(parse(b"STATUS=\xff\xfe"), [Message::Status("\u{fffd}\u{fffd}".into())]);
        assert_eq!(
            parse(&[b"STATUS=".as_slice(), &[b'x'; 4000]].concat()),
            [Message::Status("x".repeat(256))]
        );
    }

    #[tokio::test]
    async fn a_folder_that_was_removed_is_made_again() {
        let dir = std::env::temp_dir().join(format!("kelson-notify-gone-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let socket = NotifySocket::bind(&dir, "web", None, None, 1).unwrap();
        assert!(Path::new(&socket.address()).exists());
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&dir).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o711);
        drop(socket);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[tokio::test]
    async fn a_datagram_arrives_and_the_file_goes_with_the_socket() {
        let dir = std::env::temp_dir().join(format!("kelson-notify-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mode = |socket: &NotifySocket| {
            let file = std::fs::metadata(socket.address()).unwrap();
            std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777
        };
        let own = NotifySocket::bind(&dir, "own", Some(4242), None, 1).unwrap();
        assert_eq!(
            (mode(&own), PathBuf::from(own.address())),
            (0o600, dir.join("own")),
            "its owner and root"
        );
        drop(own);
        let socket = NotifySocket::bind(&dir, "web", Some(0), None, 1).unwrap();
        let path = PathBuf::from(socket.address());
        assert_eq!(mode(&socket), 0o666, "who knows its name");
        assert_eq!(path.to_str().unwrap().len(), dir.join("web").to_str().unwrap().len() + 17, "{path:?}");
        let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
        sender.send_to(b"READY=1", &path).unwrap();
        for _ in 0..2 {
            assert_eq!(socket.next().await.unwrap(), [Message::Ready], "it was not taken");
        }
        socket.take();
        sender.send_to(&[b'x'; 5000], &path).unwrap();
        assert_eq!(socket.next().await.unwrap(), []);
        socket.take();
        assert_eq!(socket.next_now(), None);
        drop(socket);
        assert!(!path.exists());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[tokio::test]
    async fn where_no_file_can_be_made_an_abstract_name_takes_messages_of_its_user_and_of_root() {
        use nix::sys::socket::{ControlMessage, sendmsg};
        let socket = NotifySocket::bind(Path::new("/proc/self/notify"), "web", Some(4242), None, 1).unwrap();
        let address = socket.address();
        let target = UnixAddr::new_abstract(address.strip_prefix('@').unwrap().as_bytes()).unwrap();
        let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let mut users = vec![geteuid().as_raw()];
        if geteuid().is_root() {
            users.extend([4242, 4243]);
        }
        for user in users {
            let pid = i32::try_from(std::process::id()).unwrap();
            let credentials = libc::ucred { pid, uid: user, gid: nix::unistd::getegid().as_raw() }.into();
            let control = [ControlMessage::ScmCredentials(&credentials)];
            let text = [io::IoSlice::new(b"READY=1")];
            sendmsg(sender.as_raw_fd(), &text, &control, MsgFlags::empty(), Some(&target)).unwrap();
            let allowed = [0, 4242].contains(&user);
            let expected = if allowed { vec![Message::Ready] } else { Vec::new() };
            assert_eq!(socket.next().await.unwrap(), expected, "{user}");
            socket.take();
        }
    }
}
