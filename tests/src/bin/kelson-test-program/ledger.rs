//! A database of one table: what it has called kept outlives a power cut, or the disk lied.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{checksum, die, duration, or_die, pair, put};

/// Bytes of a record: its number, and a checksum of that.
const RECORD: usize = 32;

fn record(number: u64) -> String {
    let number = format!("{number:014}");
    format!("{number} {:016x}\n", checksum::of(number.as_bytes()))
}

/// Looks whether all records are there, says how many, and adds one after the other, each synced before it is called
/// kept.
pub fn keep(value: &str) -> ! {
    let (path, every) = pair(value);
    let path = Path::new(path);
    let name = path.to_str().unwrap_or_default();
    let mut options = OpenOptions::new();
    let file = or_die(name, options.read(true).write(true).create(true).truncate(false).open(path));
    let folder = path.parent().unwrap_or(Path::new("/"));
    or_die(name, File::open(folder).and_then(|folder| folder.sync_all()));
    let mut number = sound(&file, name);
    put(1, &format!("ledger holds {number}\n"));
    let every = duration(every);
    loop {
        let at = number * RECORD as u64;
        number += 1;
        or_die(name, file.write_all_at(record(number).as_bytes(), at));
        or_die(name, file.sync_data());
        put(1, &format!("kept {number}\n"));
        std::thread::sleep(every);
    }
}

/// How many records there are. The last may be torn, as it was not called kept; no other may be.
fn sound(file: &File, name: &str) -> u64 {
    let length = or_die(name, file.metadata()).len();
    let mut bytes = [0; RECORD];
    let mut number = 0;
    while (number + 1) * RECORD as u64 <= length {
        or_die(name, file.read_exact_at(&mut bytes, number * RECORD as u64));
        if bytes != record(number + 1).as_bytes() {
            if (number + 2) * RECORD as u64 <= length {
                die(&format!("{name}: record {} of {} is damaged", number + 1, length / RECORD as u64));
            }
            break;
        }
        number += 1;
    }
    number
}

/// Adds a line with its number every so often, synced or not, without end: it hangs with its disk.
pub fn scribble(value: &str) -> ! {
    let (path, every) = pair(value);
    let mut file = or_die(path, OpenOptions::new().create(true).append(true).open(path));
    let every = duration(every);
    for number in 1_u64.. {
        or_die(path, writeln!(file, "{number}"));
        or_die(path, file.sync_data());
        std::thread::sleep(every);
    }
    std::process::exit(0)
}
