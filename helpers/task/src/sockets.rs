//! Sockets of a service: made and sent to PID 1, which holds them; and their files removed.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use kelson_helper::task::SocketRequest;
use kelson_spec::service::{Address, Listen, SocketSpec, UnixKind, UnixPlace};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl};
use nix::sys::socket::sockopt::{IpFreebind, Ipv6V6Only, KeepAlive, PassCred, ReuseAddr, ReusePort};
use nix::sys::socket::{
    AddressFamily, Backlog, SetSockOpt, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr,
    VsockAddr, bind, connect, listen, setsockopt, socket,
};
use nix::sys::stat::{Mode, fchmod, umask};
use nix::unistd::{Gid, Uid, fchown, fchownat, mkfifo};

use crate::failure::at;
use crate::hand_over;

/// Of folders that are made for the file of a socket.
const FOLDER: u32 = 0o755;
/// The kernel takes no more than its own limit, which is below this.
const BACKLOG_MOST: u32 = 65_535;

/// Makes the call of a [`SocketRequest`].
///
/// # Errors
/// A sentence that says what failed and why.
pub fn perform(words: &[OsString], control: impl FnOnce() -> OwnedFd) -> Result<String, String> {
    match SocketRequest::from_arguments(words)? {
        SocketRequest::Make { sockets } => make_all(&sockets, &control())?,
        SocketRequest::Remove { sockets } => remove_all(&sockets)?,
    }
    Ok(String::new())
}

/// All of them, or none.
fn make_all(sockets: &[SocketSpec], control: &OwnedFd) -> Result<(), String> {
    let mut made: Vec<OwnedFd> = Vec::with_capacity(sockets.len());
    let all = sockets.iter().try_for_each(|socket| {
        let one = make(socket).map_err(|why| {
            format!("cannot listen on socket \"{}\" ({}): {why}", socket.name, socket.listen)
        })?;
        made.push(one);
        Ok(())
    });
    let sent = all.and_then(|()| hand_over::send(control, &made, "sockets"));
    if sent.is_err() {
        // That they could not be made is worth more than a file that stays.
        let _ = remove_all(sockets.get(..made.len()).unwrap_or_default());
    }
    sent
}

fn remove_all(sockets: &[SocketSpec]) -> Result<(), String> {
    for path in sockets.iter().filter_map(SocketSpec::path).map(Path::new) {
        let is_ours = fs::symlink_metadata(path)
            .is_ok_and(|found| found.file_type().is_socket() || found.file_type().is_fifo());
        if is_ours {
            fs::remove_file(path).map_err(|error| at(path, error))?;
        }
    }
    Ok(())
}

fn make(spec: &SocketSpec) -> Result<OwnedFd, String> {
    let wanted = Listen::read(&spec.listen).map_err(|wrong| format!("it {wrong}"))?;
    match wanted {
        Listen::Tcp(address) => inet(spec, address, SockType::Stream).map_err(why),
        Listen::Udp(address) => inet(spec, address, SockType::Datagram).map_err(why),
        Listen::Unix(kind, UnixPlace::Abstract(name)) => UnixAddr::new_abstract(name.as_bytes())
            .and_then(|address| unix(spec, kind, &address))
            .map_err(why),
        Listen::Unix(kind, UnixPlace::Path(path)) => unix_file(spec, kind, Path::new(&path)),
        Listen::Vsock(cid, port) => {
            let address = VsockAddr::new(cid.unwrap_or(libc::VMADDR_CID_ANY), port);
            bound(spec, AddressFamily::Vsock, SockType::Stream, &address, &|_| Ok(())).map_err(why)
        }
        Listen::Fifo(path) => fifo(spec, Path::new(&path)),
    }
}

fn why(errno: Errno) -> String {
    match errno {
        Errno::EADDRINUSE => "another program has this address".to_owned(),
        Errno::EADDRNOTAVAIL => {
            "the host does not have this address; wait for it with depends, or write freeBind: true"
                .to_owned()
        }
        errno => errno.desc().to_owned(),
    }
}

fn bound(
    spec: &SocketSpec,
    family: AddressFamily,
    kind: SockType,
    address: &dyn SockaddrLike,
    prepare: &dyn Fn(&OwnedFd) -> nix::Result<()>,
) -> nix::Result<OwnedFd> {
    let mut flags = SockFlag::SOCK_CLOEXEC;
    // Otherwise the service may make it so.
    flags.set(SockFlag::SOCK_NONBLOCK, spec.options.non_blocking);
    let made = socket(family, kind, flags, None)?;
    prepare(&made)?;
    bind(made.as_raw_fd(), address)?;
    if kind != SockType::Datagram {
        let backlog = i32::try_from(spec.backlog.min(BACKLOG_MOST)).unwrap_or(i32::MAX);
        listen(&made, Backlog::new(backlog).unwrap_or(Backlog::MAXCONN))?;
    }
    Ok(made)
}

fn inet(spec: &SocketSpec, address: Address, kind: SockType) -> nix::Result<OwnedFd> {
    let first = bind_inet(spec, address.first(), kind);
    match (first, address) {
        // There is no IPv6.
        (Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL), Address::Any(port)) => {
            bind_inet(spec, SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port), kind)
        }
        (first, _) => first,
    }
}

fn bind_inet(spec: &SocketSpec, address: SocketAddr, kind: SockType) -> nix::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    bound(spec, family, kind, &SockaddrStorage::from(address), &|made| {
        // As systemd: connections of the past keep no address busy.
        set(made, ReuseAddr, true)?;
        if address.is_ipv6() {
            setsockopt(made, Ipv6V6Only, &spec.options.ipv6_only)?;
        }
        set(made, KeepAlive, spec.options.keep_alive)?;
        set(made, ReusePort, spec.options.reuse_port)?;
        set(made, IpFreebind, spec.options.free_bind)
    })
}

fn set(socket: &OwnedFd, option: impl SetSockOpt<Val = bool>, is_set: bool) -> nix::Result<()> {
    if is_set { setsockopt(socket, option, &true) } else { Ok(()) }
}

fn unix(spec: &SocketSpec, kind: UnixKind, address: &UnixAddr) -> nix::Result<OwnedFd> {
    bound(spec, AddressFamily::Unix, sock_type(kind), address, &|made| {
        set(made, PassCred, spec.options.pass_credentials)
    })
}

fn sock_type(kind: UnixKind) -> SockType {
    match kind {
        UnixKind::Stream => SockType::Stream,
        UnixKind::Datagram => SockType::Datagram,
        UnixKind::Seqpacket => SockType::SeqPacket,
    }
}

fn unix_file(spec: &SocketSpec, kind: UnixKind, path: &Path) -> Result<OwnedFd, String> {
    make_parents(path)?;
    let address = UnixAddr::new(path).map_err(why)?;
    // The permissions are there before anyone can connect.
    let before = umask(Mode::from_bits_truncate(!spec.mode & 0o777));
    let made = match unix(spec, kind, &address) {
        Err(Errno::EADDRINUSE) => {
            remove_stale(kind, path).and_then(|()| unix(spec, kind, &address).map_err(why))
        }
        made => made.map_err(why),
    };
    umask(before);
    let made = made?;
    if let Some((uid, gid)) = spec.owner {
        give(path, uid, gid).inspect_err(|_| drop(fs::remove_file(path)))?;
    }
    Ok(made)
}

/// What was bound, and no link in its place.
fn give(path: &Path, uid: u32, gid: u32) -> Result<(), String> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let file =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| error.to_string())?;
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    fchownat(&file, c"", uid, gid, AtFlags::AT_EMPTY_PATH)
        .map_err(|errno| format!("it cannot be given to its user: {}", errno.desc()))
}

/// Removes the file of a socket that nobody holds any more.
pub(crate) fn remove_stale(kind: UnixKind, path: &Path) -> Result<(), String> {
    let address = UnixAddr::new(path).map_err(why)?;
    let found = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !found.file_type().is_socket() {
        return Err("something that is no socket is at this path".to_owned());
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, sock_type(kind), flags, None).map_err(why)?;
    match connect(probe.as_raw_fd(), &address) {
        Err(Errno::ECONNREFUSED) => fs::remove_file(path).map_err(|error| error.to_string()),
        _ => Err(why(Errno::EADDRINUSE)),
    }
}

fn make_parents(path: &Path) -> Result<(), String> {
    let Some(parent) = path.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(FOLDER).create(parent).map_err(|error| at(parent, error))
}

/// Open for both directions: it has a reader and a writer, whoever else comes and goes.
fn fifo(spec: &SocketSpec, path: &Path) -> Result<OwnedFd, String> {
    make_parents(path)?;
    let mode = Mode::from_bits_truncate(spec.mode & 0o777);
    match mkfifo(path, mode) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(why(errno)),
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file: File = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)
        .map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
        return Err("something that is no FIFO is at this path".to_owned());
    }
    let mut status = OFlag::O_RDWR;
    status.set(OFlag::O_NONBLOCK, spec.options.non_blocking);
    let (uid, gid) = spec.owner.unwrap_or((Uid::effective().as_raw(), Gid::effective().as_raw()));
    fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
        .and_then(|()| fchmod(&file, mode))
        .and_then(|()| fcntl(&file, FcntlArg::F_SETFL(status)).map(drop))
        .map_err(why)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests;
