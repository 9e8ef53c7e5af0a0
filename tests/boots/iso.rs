//! A disk with an ISO 9660 (ECMA-119) of a few small files, as those who make virtual machines give it to them.

use std::fs;
use std::path::Path;

const SECTOR: usize = 2048;
/// Behind the system area: the volume descriptor, the end of descriptors, the tables of paths, the root.
const DESCRIPTOR: usize = 16;
const PATHS: u32 = 18;
const ROOT: u32 = 20;

fn both32(value: u32) -> Vec<u8> {
    [value.to_le_bytes(), value.to_be_bytes()].concat()
}

fn both16(value: u16) -> Vec<u8> {
    [value.to_le_bytes(), value.to_be_bytes()].concat()
}

/// An entry of a folder.
fn record(sector: u32, size: u32, flags: u8, name: &[u8]) -> Vec<u8> {
    let mut record = vec![0, 0];
    record.extend([both32(sector), both32(size)].concat());
    record.extend([126, 1, 1, 0, 0, 0, 0, flags, 0, 0]);
    record.extend(both16(1));
    record.push(u8::try_from(name.len()).expect("a short name"));
    record.extend(name);
    record.resize(record.len().next_multiple_of(2), 0);
    record[0] = u8::try_from(record.len()).expect("a short name");
    record
}

/// Writes a disk with this label and these files in its root, each smaller than a sector.
pub fn write(path: &Path, label: &str, files: &[(&str, &str)]) {
    let size = u32::try_from(SECTOR).expect("a small number");
    let mut disk = vec![0; (ROOT as usize + 1) * SECTOR];
    let mut root = [record(ROOT, size, 2, &[0]), record(ROOT, size, 2, &[1])].concat();
    for (number, (name, text)) in (ROOT + 1..).zip(files) {
        // The kernel shows such a name in lower case and without its version.
        let name = format!("{};1", name.to_uppercase());
        let length = u32::try_from(text.len()).expect("a short text");
        root.extend(record(number, length, 0, name.as_bytes()));
        disk.extend(text.bytes());
        disk.resize((number as usize + 1) * SECTOR, 0);
    }
    let mut put = |at: usize, bytes: &[u8]| disk[at..at + bytes.len()].copy_from_slice(bytes);
    put(ROOT as usize * SECTOR, &root);
    let descriptor = DESCRIPTOR * SECTOR;
    put(descriptor, b"\x01CD001\x01");
    put(descriptor + 8, &[b' '; 32]);
    put(descriptor + 40, format!("{label:32}").as_bytes());
    put(descriptor + 80, &both32(ROOT + 1 + u32::try_from(files.len()).expect("a few files")));
    for at in [120, 124] {
        put(descriptor + at, &both16(1));
    }
    put(descriptor + 128, &both16(u16::try_from(SECTOR).expect("a small number")));
    put(descriptor + 132, &both32(10));
    put(descriptor + 140, &PATHS.to_le_bytes());
    put(descriptor + 148, &(PATHS + 1).to_be_bytes());
    put(descriptor + 156, &record(ROOT, size, 2, &[0]));
    put(descriptor + 881, &[1]);
    put(descriptor + SECTOR, b"\xFFCD001\x01");
    put(PATHS as usize * SECTOR, &[&[1, 0][..], &ROOT.to_le_bytes(), &[1, 0, 0, 0]].concat());
    put((PATHS as usize + 1) * SECTOR, &[&[1, 0][..], &ROOT.to_be_bytes(), &[0, 1, 0, 0]].concat());
    fs::write(path, disk).expect("the folder of the logs is writable");
}
