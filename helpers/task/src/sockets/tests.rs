use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

use kelson_spec::service::SocketOptions;
use kelson_sys::rights;
use nix::sys::socket::{SockaddrIn, getsockname, getsockopt, socketpair};

use super::*;

fn spec(listen: &str) -> SocketSpec {
    SocketSpec { name: "a".into(), listen: listen.into(), ..SocketSpec::default() }
}

/// The sockets as PID 1 gets them.
fn made(specs: &[SocketSpec]) -> Result<Vec<OwnedFd>, String> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap();
    let request = SocketRequest::Make { sockets: specs.to_vec() };
    perform(&request.to_arguments(), || theirs)?;
    let one = |_| rights::receive(ours.as_fd(), &mut [0; 1]).unwrap().descriptors.pop().unwrap();
    Ok(specs.iter().map(one).collect())
}

fn removed(specs: &[SocketSpec]) {
    let request = SocketRequest::Remove { sockets: specs.to_vec() };
    perform(&request.to_arguments(), || panic!("a removal sends no descriptor")).unwrap();
}

#[test]
fn a_file_has_its_permissions_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/ctl");
    let specs = [SocketSpec { mode: 0o620, ..spec(path.to_str().unwrap()) }];
    let sockets = made(&specs).unwrap();
    assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o620);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o755);
    UnixStream::connect(&path).unwrap();
    let busy = made(&specs).unwrap_err();
    let expected =
        format!("cannot listen on socket \"a\" ({}): another program has this address", path.display());
    assert_eq!(busy, expected);
    drop(sockets);
    made(&specs).expect("what nobody holds any more is in nobody's way");
    removed(&specs);
    assert!(!path.exists());
    removed(&specs);
    fs::write(&path, "mine").unwrap();
    assert!(made(&specs).unwrap_err().contains("something that is no socket is at this path"));
    removed(&specs);
    assert!(path.exists(), "it is not ours");
}

#[test]
fn each_kind_takes_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (datagram, fifo) = (at("datagram"), at("fifo"));
    let specs = [
        spec("udp:127.0.0.1:47231"),
        spec(&format!("datagram:{}", datagram.display())),
        SocketSpec { mode: 0o600, ..spec(&format!("fifo:{}", fifo.display())) },
        spec("seqpacket:@kelson-task-test"),
    ];
    let mut sockets = made(&specs).unwrap().into_iter();
    let udp = UdpSocket::from(sockets.next().unwrap());
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"hello", udp.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 16];
    assert_eq!(udp.recv(&mut buffer).unwrap(), 5);
    let unix = UnixDatagram::from(sockets.next().unwrap());
    UnixDatagram::unbound().unwrap().send_to(b"hi", &datagram).unwrap();
    assert_eq!(unix.recv(&mut buffer).unwrap(), 2);
    let mut pipe = File::from(sockets.next().unwrap());
    assert_eq!(fs::metadata(&fifo).unwrap().mode() & 0o777, 0o600);
    OpenOptions::new().write(true).open(&fifo).unwrap().write_all(b"line\n").unwrap();
    assert_eq!(pipe.read(&mut buffer).unwrap(), 5);
    removed(&specs);
    assert!(!fifo.exists() && !datagram.exists());
}

#[test]
fn of_several_that_cannot_all_be_made_none_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
    let held = UnixListener::bind(&bad).unwrap();
    let both = [&good, &bad].map(|path| spec(path.to_str().unwrap()));
    assert!(made(&both).unwrap_err().contains("another program has this address"));
    assert!(!good.exists());
    drop(held);
}

#[test]
fn an_address_is_bound_as_its_options_say() {
    let one = |options, listen| made(&[SocketSpec { options, ..spec(listen) }]);
    let shared = SocketOptions { reuse_port: true, ..SocketOptions::default() };
    let first = one(shared, "127.0.0.1:47232").unwrap();
    let address: SockaddrIn = getsockname(first[0].as_raw_fd()).unwrap();
    assert_eq!(address.port(), 47232);
    TcpStream::connect("127.0.0.1:47232").unwrap();
    one(shared, "127.0.0.1:47232").expect("two share the port");
    let none = SocketOptions::default();
    assert!(one(none, "127.0.0.1:47232").unwrap_err().contains("another program has this address"));
    assert!(one(none, "192.0.2.7:47232").unwrap_err().contains("the host does not have this address"));
    one(SocketOptions { free_bind: true, ..none }, "192.0.2.7:47232").unwrap();
    let kept =
        one(SocketOptions { keep_alive: true, non_blocking: true, ..none }, "127.0.0.1:47234").unwrap();
    assert!(getsockopt(&kept[0], KeepAlive).unwrap());
    assert_eq!(
        TcpListener::from(kept[0].try_clone().unwrap()).accept().unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    let any = one(none, "*:47233").unwrap();
    TcpStream::connect("127.0.0.1:47233").unwrap();
    drop(any);
}
