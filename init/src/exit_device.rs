//! Where the exit status of the run leaves a machine, if `kelson.exit` names a place: a device of the hypervisor.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use kelson_sys::io_port;

/// One folder for each virtio-serial port, with the name that the hypervisor gave it.
const VIRTIO_PORTS: &str = "/sys/class/virtio-ports";
/// The port of isa-debug-exit where QEMU is given none.
const USUAL_PORT: u16 = 0x501;

/// The device that takes the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitDevice {
    /// QEMU's isa-debug-exit at this I/O port: a write ends QEMU, with a status made from it.
    IsaDebugExit(u16),
    /// The virtio-serial port with this name: the status is a line.
    VirtioPort(String),
}

/// The device, ready to take the status also when `/dev` is no longer there.
#[derive(Debug)]
pub struct ExitWriter {
    device: ExitDevice,
    way: Way,
}

#[derive(Debug)]
enum Way {
    IoPort(u16),
    File(File),
}

impl ExitDevice {
    /// Reads the word of the kernel's command line. `None`: it is wrong.
    pub fn parse(text: &str) -> Option<ExitDevice> {
        let (kind, place) = match text.split_once(':') {
            Some((kind, place)) => (kind, Some(place)),
            None => (text, None),
        };
        match (kind, place) {
            ("isa-debug-exit", None) => Some(ExitDevice::IsaDebugExit(USUAL_PORT)),
            ("isa-debug-exit", Some(port)) => {
                let digits = port.strip_prefix("0x")?;
                let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                Some(ExitDevice::IsaDebugExit(u16::from_str_radix(digits, 16).ok().filter(|_| plain)?))
            }
            ("virtio-port", Some(name)) if !name.is_empty() => Some(ExitDevice::VirtioPort(name.to_owned())),
            _ => None,
        }
    }

    /// Opens it, or logs why that is not possible. Touches memory and sysfs alone.
    pub fn open_or_log(self) -> Option<ExitWriter> {
        let opened = self.open();
        opened
            .inspect_err(|error| tracing::error!("kelson.exit: the status does not leave: {self}: {error}"))
            .ok()
    }

    fn open(&self) -> io::Result<ExitWriter> {
        let way = match self {
            ExitDevice::IsaDebugExit(port) => Way::IoPort(*port),
            ExitDevice::VirtioPort(name) => {
                let path = virtio_port(Path::new(VIRTIO_PORTS), name)?;
                // A hypervisor that does not read must not hold up the end.
                let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
                Way::File(OpenOptions::new().write(true).custom_flags(flags).open(path)?)
            }
        };
        Ok(ExitWriter { device: self.clone(), way })
    }
}

impl fmt::Display for ExitDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitDevice::IsaDebugExit(port) => write!(f, "isa-debug-exit:{port:#x}"),
            ExitDevice::VirtioPort(name) => write!(f, "virtio-port:{name}"),
        }
    }
}

impl fmt::Display for ExitWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(f)
    }
}

impl ExitWriter {
    /// Writes the status, or logs why that was not possible. With isa-debug-exit it ends the machine and does not return.
    pub fn write_or_log(mut self, status: u8) {
        if let Err(error) = self.write(status) {
            tracing::error!("kelson.exit: the status {status} has not left: {self}: {error}");
        }
    }

    fn write(&mut self, status: u8) -> io::Result<()> {
        match &mut self.way {
            Way::IoPort(port) => {
                io_port::write(*port, status)?;
                Err(io::Error::other("the machine has no such device at this I/O port"))
            }
            Way::File(file) => file.write_all(format!("{status}\n").as_bytes()),
        }
    }
}

/// The device of the virtio-serial port of this name. Nobody makes `/dev/virtio-ports` without udev.
fn virtio_port(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let ports = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_named = |port: &fs::DirEntry| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|text| text.trim_end() == name)
    };
    let port = ports.into_iter().find(is_named);
    let port = port.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "no virtio-serial port has this name; is virtio_console loaded?",
        )
    })?;
    Ok(Path::new("/dev").join(port.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_a_device() {
        for (text, device) in [
            ("isa-debug-exit", Some(ExitDevice::IsaDebugExit(0x501))),
            ("isa-debug-exit:0xf4", Some(ExitDevice::IsaDebugExit(0xf4))),
            ("isa-debug-exit:0xFFFF", Some(ExitDevice::IsaDebugExit(0xffff))),
            ("virtio-port:org.example.exit", Some(ExitDevice::VirtioPort("org.example.exit".to_owned()))),
            ("", None),
            ("isa-debug-exit:", None),
            ("isa-debug-exit:f4", None),
            ("isa-debug-exit:0x", None),
            ("isa-debug-exit:0x+4", None),
            ("isa-debug-exit:0x10000", None),
            ("virtio-port", None),
            ("virtio-port:", None),
            ("/dev/vda", None),
        ] {
            assert_eq!(ExitDevice::parse(text), device, "{text}");
        }
    }

    #[test]
    fn a_virtio_port_is_found_by_its_name() {
        let folder = std::env::temp_dir().join(format!("kelson-virtio-ports-{}", std::process::id()));
        assert_eq!(virtio_port(&folder, "exit").unwrap_err().kind(), io::ErrorKind::NotFound);
        for (device, name) in [("vport2p1", "agent\n"), ("vport2p2", "exit\n")] {
            fs::create_dir_all(folder.join(device)).unwrap();
            fs::write(folder.join(device).join("name"), name).unwrap();
        }
        assert_eq!(virtio_port(&folder, "exit").unwrap(), Path::new("/dev/vport2p2"));
        assert_eq!(virtio_port(&folder, "exi").unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(folder).unwrap();
    }
}
