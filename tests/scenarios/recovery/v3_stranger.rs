//! V3: a PID that is written down and belongs to a stranger by now: that is never signalled, the service's run counts as
//! ended unseen, and its policy decides.

use std::fs;
use std::os::unix::fs::FileExt as _;

use kelson_tests::{Host, PATIENCE, eventually, until};

use super::{Fault, each_fault};

const HEADER: usize = 4096;
const SLOT: usize = 1024;

/// CRC-32 as the state has it.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// A number as protobuf writes it.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push(u8::try_from(number & 127).expect("seven bits") | 128);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).expect("seven bits"));
    bytes
}

/// A number, and what follows it.
fn of_varint(bytes: &[u8]) -> (u64, &[u8]) {
    let end = bytes.iter().position(|byte| byte & 128 == 0).expect("it ends") + 1;
    let number = bytes[..end].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 127));
    (number, &bytes[end..])
}

/// Where in a record a field with a number begins and ends, and what it says.
fn field_in(record: &[u8], wanted: u64) -> Option<(std::ops::Range<usize>, u64)> {
    let mut rest = record;
    while !rest.is_empty() {
        let begin = record.len() - rest.len();
        let (key, value) = of_varint(rest);
        let (number, behind) = match key & 7 {
            0 => of_varint(value),
            1 => (0, &value[8..]),
            2 => {
                let (length, bytes) = of_varint(value);
                (0, &bytes[usize::try_from(length).expect("short")..])
            }
            other => panic!("a field of kind {other}"),
        };
        if key >> 3 == wanted {
            return Some((begin..record.len() - behind.len(), number));
        }
        rest = behind;
    }
    None
}

/// Field 6 of a record.
const PID: u64 = 6;

/// Another PID in the record of a service, as if the kernel had given its own to somebody else. All else stays.
#[track_caller]
fn give_away(host: &Host, name: &str, pid: i32, stranger: i32) {
    let new = [vec![6 << 3], varint(u64::from(stranger.unsigned_abs()))].concat();
    rewrite(host, name, pid, PID, &new);
}

/// Other bytes in place of a field, in each record of a service that tells of this PID. All else stays.
#[track_caller]
pub(super) fn rewrite(host: &Host, name: &str, pid: i32, number: u64, new: &[u8]) {
    let path = host.path("run/state/services");
    let bytes = fs::read(&path).expect("the state");
    let file = fs::File::options().write(true).open(path).expect("the state");
    // The name is field 1 of a record.
    let begin = [&[0x0a, u8::try_from(name.len()).expect("short")], name.as_bytes()].concat();
    let mut found = 0;
    for (place, slot) in bytes[HEADER..].chunks(SLOT).enumerate() {
        if !slot[16..].starts_with(&begin) {
            continue;
        }
        let length = u32::from_le_bytes(slot[4..8].try_into().expect("four bytes")) as usize;
        let payload = &slot[16..16 + length];
        let of_run = field_in(payload, PID).is_some_and(|(_, known)| known == u64::from(pid.unsigned_abs()));
        let Some((at, _)) = field_in(payload, number).filter(|_| of_run) else {
            // An older record, of the time before it ran.
            continue;
        };
        found += 1;
        let payload = [&payload[..at.start], new, &payload[at.end..]].concat();
        let length = u32::try_from(payload.len()).expect("short").to_le_bytes();
        let sealed = [&length[..], &slot[8..16], &payload].concat();
        let sealed = [&checksum(&sealed).to_le_bytes()[..], &sealed].concat();
        file.write_all_at(&sealed, (HEADER + place * SLOT) as u64).expect("it is a file");
    }
    assert!(found > 0, "no record of {name} with PID {pid}");
}

/// Field 22 of `/proc/PID/stat`.
fn started(outer: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{outer}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19).map(str::to_owned)
}

fn a_stranger_is_never_signalled(fault: Fault) {
    // Strangers of two kinds: a child of a service, which is none of PID 1's, and an orphan, which is. Each
    // ends with the first signal that it is sent, and nobody starts it again. They come some ticks of the
    // clock after the others, as a process does that gets a PID a second time.
    let mut host = Host::builder()
        .runs_with("first", "serve", "restart: {delay: 10ms}")
        .runs_with("second", "serve", "restart: {policy: once}")
        .runs("owner", "sleep=50ms, 'spawn=print=a-child,hang', 'orphan=print=an-orphan,hang', serve")
        .crash_limit("1000/1m")
        .start();
    host.wait_all_up(&["first", "second", "owner"]);
    for text in ["a-child", "an-orphan"] {
        host.wait_log("owner", text);
    }
    // All of them have the same words, and differ in their parents.
    let owner = host.pid_of("owner");
    let stranger = |parent: i32| {
        until("a stranger", PATIENCE, || {
            let mut all = host.processes_with("print=an-orphan").into_iter();
            Some(all.find(|process| process.parent == parent && process.pid != owner)?.pid)
        })
    };
    let (child, orphan) = (stranger(owner), stranger(1));
    let outer = [child, orphan].map(|pid| host.outer_pid(pid));
    let before = outer.map(started);
    assert!(before.iter().all(Option::is_some), "{before:?}");
    let newest = host.newest_event();
    let (first, second) = (host.pid_of("first"), host.pid_of("second"));
    give_away(&host, "first", first, child);
    give_away(&host, "second", second, orphan);
    fault.strike(&host);

    // The one has to run, and runs again, counted; the other is not to run again, and says why it failed.
    let again = host
        .wait_for("first", "to run again", |now| now.up && now.pid != Some(first) && now.pid != Some(child));
    assert_eq!((again.restarts, again.stopped), (1, false), "{again:?}");
    let failed = host.wait_state("second", "failed");
    assert_eq!((failed.pid, failed.restarts), (None, 0), "{failed:?}");
    for name in ["first", "second"] {
        host.wait_event(newest, "what became of it", |event| {
            event.service == name && event.message.contains("its exit status was lost")
        });
    }
    // Never two of one service: what runs of it, and nobody knows any more, has ended.
    let left = |pid: i32| host.processes().iter().any(|process| process.pid == pid && process.state != 'Z');
    eventually("the old ones to be gone", || !left(first) && !left(second));
    assert_eq!(outer.map(started), before, "a stranger was hurt");
    assert!(host.service("owner").up);
    host.poweroff();
}

#[test]
fn v3_a_stranger_that_has_the_pid_is_never_signalled() {
    each_fault(a_stranger_is_never_signalled);
}
