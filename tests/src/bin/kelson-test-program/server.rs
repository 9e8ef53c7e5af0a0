//! Small servers to be checked: as little of TCP, HTTP and gRPC as answers a health check.
//!
//! Their answer stands in a file, which a test may write at any time.

use std::io::{BufRead as _, BufReader, Error, Read, Result, Write, copy};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket,
};
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers each connection to `PORT` of the loopback, for ever.
pub fn serve(value: &str, answer: fn(&mut TcpStream, &str) -> Result<()>) -> ! {
    serve_at(Ipv4Addr::LOCALHOST.into(), value, answer)
}

/// Tells all who connect to `PORT` where they come from, and then gives back what they send.
pub fn mirror(value: &str) -> ! {
    serve_at(Ipv6Addr::UNSPECIFIED.into(), value, |stream, _| {
        writeln!(stream, "{}", stream.peer_addr()?.ip().to_canonical())?;
        stream.set_read_timeout(None)?;
        copy(&mut stream.try_clone()?, stream).map(drop)
    })
}

/// The first line of what `ADDRESS:PORT` answers, or why it does not.
///
/// A name in place of the address is one of `/etc/hosts`.
pub fn ask(value: &str) -> String {
    let found = value.to_socket_addrs().and_then(|mut found| found.next().ok_or(Error::other("no address")));
    let address = super::or_die(value, found);
    let asked = TcpStream::connect_timeout(&address, PATIENCE).and_then(|stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    });
    asked.unwrap_or_else(|error| format!("{error}\n"))
}

/// Gives each datagram back to its sender, behind the address that it came from.
pub fn mirror_udp(value: &str) -> ! {
    let socket = super::or_die(value, UdpSocket::bind((Ipv6Addr::UNSPECIFIED, super::number::<u16>(value))));
    let mut buffer = [0; 1500];
    loop {
        let (length, sender) = super::or_die(value, socket.recv_from(&mut buffer));
        let text = String::from_utf8_lossy(&buffer[..length]);
        let answer = format!("{} {text}", sender.ip().to_canonical());
        // It may be gone.
        let _ = socket.send_to(answer.as_bytes(), sender);
    }
}

/// What `ADDRESS:PORT` answers to the datagram `ping`, or why it does not.
pub fn ask_udp(value: &str) -> String {
    let address = super::or_die(value, value.parse::<SocketAddr>().map_err(Error::other));
    let any =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { IpAddr::from(Ipv6Addr::UNSPECIFIED) };
    let asked = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send(b"ping")?;
        let mut buffer = [0; 1500];
        let length = socket.recv(&mut buffer)?;
        Ok(format!("{}\n", String::from_utf8_lossy(&buffer[..length])))
    });
    asked.unwrap_or_else(|error| format!("{error}\n"))
}

fn serve_at(address: IpAddr, value: &str, answer: fn(&mut TcpStream, &str) -> Result<()>) -> ! {
    let (port, file) = value.split_once(':').unwrap_or((value, ""));
    let listener = super::or_die(value, TcpListener::bind((address, super::number::<u16>(port))));
    for connection in listener.incoming() {
        let Ok(mut stream) = connection else { continue };
        let file = file.to_owned();
        std::thread::spawn(move || {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            // A client may hang up when it likes.
            let _ = answer(&mut stream, &file);
        });
    }
    super::die("the listener has ended")
}

/// The connection is all.
pub fn tcp(_: &mut TcpStream, _: &str) -> Result<()> {
    Ok(())
}

/// `STATUS BODY` of the file; without it `200 ok`.
pub fn http(stream: &mut TcpStream, file: &str) -> Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    let answer = std::fs::read_to_string(file).unwrap_or_else(|_| "200 ok".to_owned());
    let (status, body) = answer.trim().split_once(' ').unwrap_or((&answer, ""));
    write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// `grpc.health.v1.Health/Check`: the number of a serving status in the file; without it 1, which is SERVING.
pub fn grpc(stream: &mut TcpStream, file: &str) -> Result<()> {
    answer_calls(stream, || {
        let status = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        Ok(vec![0x08, status.unwrap_or(1)])
    })
}

/// A storage plugin, `csi.v1.Identity/Probe`, at the Unix socket `SOCKET:FILE`. FILE has `yes`, `no`, or the number of a
/// gRPC status and its message; without it the plugin says nothing of whether it is ready.
pub fn csi(value: &str) -> ! {
    let (socket, file) = value.split_once(':').unwrap_or((value, ""));
    let _ = std::fs::remove_file(socket);
    let listener = super::or_die(value, UnixListener::bind(socket));
    for connection in listener.incoming() {
        let Ok(mut stream) = connection else { continue };
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = answer_calls(&mut stream, || {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            match text.trim().split_once(' ').unwrap_or((text.trim(), "")) {
                ("", _) => Ok(Vec::new()),
                ("yes", _) => Ok(vec![0x0a, 2, 0x08, 1]),
                ("no", _) => Ok(vec![0x0a, 0]),
                (code, message) => Err((code.to_owned(), message.to_owned())),
            }
        });
    }
    super::die("the listener has ended")
}

/// Answers each call of gRPC with a message, or with the code and the message of an error.
fn answer_calls(
    stream: &mut (impl Read + Write),
    answer: impl Fn() -> std::result::Result<Vec<u8>, (String, String)>,
) -> Result<()> {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let (kind, flags) = (head[3], head[4]);
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        if kind == SETTINGS && flags & 1 == 0 {
            stream.write_all(&frame(SETTINGS, 1, 0, &[]))?;
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            // `:status: 200` of the static table, then `content-type`, whose name is its 31st.
            let mut headers = vec![0x88, 0x0f, 0x10, 16];
            headers.extend_from_slice(b"application/grpc");
            let mut frames = frame(HEADERS, END_HEADERS, id, &headers);
            let trailers = match answer() {
                Ok(message) => {
                    let length = (message.len() as u32).to_be_bytes();
                    frames.extend(frame(DATA, 0, id, &[&[0], &length[..], &message].concat()));
                    header("grpc-status", "0")
                }
                Err((code, message)) => {
                    [header("grpc-status", &code), header("grpc-message", &message)].concat()
                }
            };
            frames.extend(frame(HEADERS, END_HEADERS | END_STREAM, id, &trailers));
            stream.write_all(&frames)?;
        }
    }
}

/// A field of HPACK whose name and value, of at most 126 bytes, stand in it as they are.
fn header(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&id.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}
