//! Firmware that a driver has asked for and the kernel has not found.
//!
//! The kernel reads firmware by itself, and nothing but its log reports a file that is missing: no file of sysfs does, and a
//! uevent only where the kernel was built with its old helper (`CONFIG_FW_LOADER_USER_HELPER`). Source of the messages:
//! `drivers/base/firmware_loader/main.c` of the kernel, and Debian's changes of it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd, BorrowedFd};

use kelson_sys::text::start_of;
use nix::errno::Errno;

/// The longest record, in bytes.
const RECORD: usize = 8192;
/// The most files that are reported. A driver may ask for a file in many versions.
const MOST: usize = 200;
/// The longest name that is reported, in bytes.
const LONGEST: usize = 200;

/// A file that a driver did not get.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// The driver and the device, as the kernel names them.
    device: String,
    file: String,
    error: i32,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { device, file, error } = self;
        match Errno::from_raw(*error) {
            Errno::ENOENT => write!(f, "{device}: its firmware {file} is missing; put it into /lib/firmware"),
            errno => write!(f, "{device}: its firmware {file} cannot be loaded: {}", errno.desc()),
        }
    }
}

/// What a record of the log reports. `None`: of something else, or it is not of the kernel.
pub fn parse(record: &[u8]) -> Option<Missing> {
    let record = std::str::from_utf8(record).ok()?;
    let (head, text) = record.split_once(';')?;
    // The facility stands above the level; that of the kernel is 0, and a process cannot write with it.
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    if priority >= 8 {
        return None;
    }
    let text = text.lines().next()?;
    let (device, file, error) = match text.split_once(": Direct firmware load for ") {
        Some((device, rest)) => {
            let (file, error) = rest.rsplit_once(" failed with error -")?;
            (device, file, error)
        }
        None => {
            let (device, rest) = text.split_once(": firmware: failed to load ")?;
            let (file, error) = rest.rsplit_once(" (-")?;
            (device, file, error.strip_suffix(')')?)
        }
    };
    let short = |text: &str| start_of(text, LONGEST).to_owned();
    Some(Missing { device: short(device), file: short(file), error: error.parse().ok()? })
}

/// A place in the log of the kernel, and what it has reported so far.
pub struct FirmwareLog {
    file: File,
    reported: BTreeSet<Missing>,
}

impl FirmwareLog {
    /// Of a log that was opened. `None`: it cannot be read here, as in most containers.
    pub fn of(opened: io::Result<File>) -> Option<FirmwareLog> {
        Some(FirmwareLog { file: opened.ok()?, reported: BTreeSet::new() })
    }

    /// What is new in it, each file of a device once.
    pub fn new_ones(&mut self) -> Vec<Missing> {
        let (mut record, mut new) = ([0; RECORD], Vec::new());
        loop {
            let length = match self.file.read(&mut record) {
                Ok(0) => return new,
                Ok(length) => length,
                // The kernel has overwritten what was next, or a signal has come.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {
                    continue;
                }
                Err(_) => return new,
            };
            let found = record.get(..length).and_then(parse);
            let is_new = |found: &Missing| self.reported.len() < MOST && self.reported.insert(found.clone());
            new.extend(found.filter(is_new));
        }
    }
}

impl AsFd for FirmwareLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    const DIRECT: &str = "4,901,5140900,-;e100 0000:00:04.0: Direct firmware load for e100/d101m_ucode.bin failed with error -2\n \
         SUBSYSTEM=pci\n DEVICE=+pci:0000:00:04.0\n";

    fn text(record: &str) -> Option<String> {
        parse(record.as_bytes()).map(|missing| missing.to_string())
    }

    #[test]
    fn both_forms_of_the_message_name_the_device_and_the_file() {
        let missing =
            "e100 0000:00:04.0: its firmware e100/d101m_ucode.bin is missing; put it into /lib/firmware";
        assert_eq!(text(DIRECT).as_deref(), Some(missing));
        let debian =
            "3,902,5140901,-;e100 0000:00:04.0: firmware: failed to load e100/d101m_ucode.bin (-2)\n";
        assert_eq!(text(debian).as_deref(), Some(missing));
        let other = DIRECT.replace("error -2", "error -12");
        let refused = "e100 0000:00:04.0: its firmware e100/d101m_ucode.bin cannot be loaded: Out of memory";
        assert_eq!(text(&other).as_deref(), Some(refused));
        let wordy = "4,1,0,-;a b: Direct firmware load for x failed with error -3 failed with error -2";
        assert!(text(wordy).unwrap().contains("its firmware x failed with error -3 is missing"));
    }

    #[test]
    fn other_messages_report_nothing() {
        for record in [
            "",
            "4",
            "4,1,0,-;",
            "x,1,0,-;a: Direct firmware load for b failed with error -2",
            // Written by a process: its facility is 1 or more.
            "12,1,0,-;a: Direct firmware load for b failed with error -2",
            "4,1,0,-;a: Direct firmware load for b failed",
            "4,1,0,-;a: Direct firmware load for b failed with error -x",
            "6,1,0,-;a: firmware: direct-loading firmware b",
            "4,1,0,-;a: firmware: failed to load b (-2",
            "6,1,0,-;a\n b: firmware: failed to load c (-2)",
        ] {
            assert_eq!(text(record), None, "{record}");
        }
        assert_eq!(parse(b"4,1,0,-;\xff: Direct firmware load for b failed with error -2"), None);
    }

    /// Gives a record for each read, as the kernel does.
    fn log() -> (UnixDatagram, FirmwareLog) {
        let (kernel, ours) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(ours));
        (kernel, FirmwareLog { file, reported: BTreeSet::new() })
    }

    #[test]
    fn each_file_of_a_device_is_reported_once() {
        let (kernel, mut log) = log();
        assert_eq!(log.new_ones(), []);
        for record in [DIRECT, "6,1,0,-;something else", DIRECT, &DIRECT.replace("00:04.0", "00:05.0")] {
            kernel.send(record.as_bytes()).unwrap();
        }
        let devices: Vec<String> = log.new_ones().into_iter().map(|missing| missing.device).collect();
        assert_eq!(devices, ["e100 0000:00:04.0", "e100 0000:00:05.0"]);
        kernel.send(DIRECT.as_bytes()).unwrap();
        assert_eq!(log.new_ones(), []);
    }

    #[test]
    fn a_driver_that_asks_for_very_many_files_fills_nothing() {
        let (kernel, mut log) = log();
        let mut reported = 0;
        for number in 0..MOST + 20 {
            kernel.send(DIRECT.replace("d101m", &number.to_string()).as_bytes()).unwrap();
            reported += log.new_ones().len();
        }
        assert_eq!(reported, MOST);
        assert!(FirmwareLog::of(File::open("/nonexistent")).is_none());
    }
}
