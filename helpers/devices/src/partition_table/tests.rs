use std::process::Command;

use super::*;
use crate::partition_names::partition_names;

const MIB: u64 = 1 << 20;
const SIZE_OF_DISK: u64 = 8 * MIB;

fn blank() -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(SIZE_OF_DISK).unwrap();
    file
}

/// A partition on these MiB, whose GUIDs are made of its name.
fn part(sector: u64, place: Range<u64>, name: &str) -> NewPartition<'_> {
    let byte = name.as_bytes()[0];
    let sectors = place.start * MIB / sector..place.end * MIB / sector;
    NewPartition { kind: [byte; 16], guid: [byte ^ 0x20; 16], sectors, name }
}

fn with(sector: u64, parts: &[(Range<u64>, &str)]) -> PartitionTable {
    let mut table = PartitionTable::new(sector, SIZE_OF_DISK, [9; 16]).unwrap();
    for (place, name) in parts {
        table.add(&part(sector, place.clone(), name)).unwrap();
    }
    table
}

/// As a table that was read.
fn read_back(table: &PartitionTable) -> PartitionTable {
    PartitionTable { first: None, ..table.clone() }
}

#[test]
fn a_new_table_is_read_from_both_of_its_places_and_other_programs_find_it_sound() {
    for sector in [512, 4096] {
        let disk = tempfile::NamedTempFile::new().unwrap();
        disk.as_file().set_len(SIZE_OF_DISK).unwrap();
        let table = with(sector, &[(1..3, "DATA"), (3..7, "a name of 36 letters, which is longest")]);
        table.write(disk.as_file()).unwrap();
        assert_eq!(FirstSector::read(disk.as_file()).unwrap(), FirstSector::Protective);
        assert_eq!(PartitionTable::read(disk.as_file(), sector).unwrap(), read_back(&table));
        let restored = PartitionTable::restore(disk.as_file(), sector, SIZE_OF_DISK).unwrap();
        assert_eq!(restored, read_back(&table));
        let names = |number| partition_names(disk.as_file(), sector, number).unwrap();
        assert_eq!(names(1).label.as_deref(), Some("DATA"));
        assert_eq!(names(1).uuid, "64646464-6464-6464-6464-646464646464");
        assert_eq!(names(2).label.as_deref(), Some("a name of 36 letters, which is longe"));
        if sector != 512 {
            // The others take a file for a disk with sectors of 512 bytes.
            continue;
        }
        for (program, option, sound) in
            [("sfdisk", "--verify", "No errors detected"), ("sgdisk", "--verify", "No problems found")]
        {
            match Command::new(program).arg(option).arg(disk.path()).env("LC_ALL", "C").output() {
                Ok(ended) => {
                    let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
                    assert!(ended.status.success() && said.contains(sound), "{program}: {said}");
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{program}"),
            }
        }
    }
}

/// The table that the kernel finds.
fn found(disk: &File, sector: u64) -> Option<PartitionTable> {
    let table = PartitionTable::read(disk, sector).ok()?;
    (FirstSector::read(disk).unwrap() == FirstSector::Protective).then_some(table)
}

/// Writes a table in pieces of `unit` bytes, and calls `look` before each of them and after the last. Within a step the pieces
/// come in their order, or the other way round.
fn cut(disk: &File, table: &PartitionTable, unit: u64, reversed: bool, look: &mut dyn FnMut(&File)) {
    for (place, bytes) in table.steps() {
        let mut pieces: Vec<Range<u64>> = Vec::new();
        let end = place + bytes.len() as u64;
        let mut start = place;
        while start < end {
            let piece = start..(start + 1).next_multiple_of(unit).min(end);
            start = piece.end;
            pieces.push(piece);
        }
        if reversed {
            pieces.reverse();
        }
        for piece in pieces {
            look(disk);
            let of = |at: u64| usize::try_from(at - place).unwrap();
            disk.write_all_at(&bytes[of(piece.start)..of(piece.end)], piece.start).unwrap();
        }
    }
    look(disk);
}

#[test]
fn a_power_cut_leaves_a_blank_disk_without_a_table_or_with_the_whole_new_one() {
    for (sector, reversed) in [(512, false), (512, true), (4096, false), (4096, true)] {
        let new = with(sector, &[(1..3, "DATA"), (3..7, "REST")]);
        let disk = blank();
        let (mut looks, mut news) = (0, 0);
        cut(&disk, &new, sector, reversed, &mut |disk| {
            looks += 1;
            if let Some(table) = found(disk, sector) {
                assert_eq!(table, read_back(&new));
                assert_eq!(PartitionTable::restore(disk, sector, SIZE_OF_DISK).unwrap(), read_back(&new));
                news += 1;
            }
        });
        assert!(looks > 10 && news == 1, "the last piece makes the table: {news} of {looks}");
    }
}

#[test]
fn a_power_cut_leaves_the_old_table_or_the_new_one() {
    let old = |sector| with(sector, &[(1..3, "DATA")]);
    // Blocks of 4 KiB on a disk with small sectors: the kernel finds one of both without a word on its command line.
    for (unit, reversed) in [(BLOCK, false), (BLOCK, true)] {
        let disk = blank();
        old(512).write(&disk).unwrap();
        let mut new = read_back(&old(512));
        new.add(&part(512, 3..7, "REST")).unwrap();
        let mut states = Vec::new();
        cut(&disk, &new, unit, reversed, &mut |disk| states.push(found(disk, 512).unwrap()));
        let (first, last) = (read_back(&old(512)), &new);
        assert!(states.len() > 8 && states[0] == first && states.last() == Some(last));
        let news = states.iter().filter(|state| *state == last).count();
        assert!(states.iter().all(|state| *state == first || state == last) && news == 1, "{news}");
    }
    // Single sectors: one of both tables is sound, and if that is the copy, it is the new one.
    for (sector, reversed) in [(512, false), (512, true), (4096, false), (4096, true)] {
        let disk = blank();
        old(sector).write(&disk).unwrap();
        let mut new = read_back(&old(sector));
        new.add(&part(sector, 3..7, "REST")).unwrap();
        let mut restored = 0;
        cut(&disk, &new, sector, reversed, &mut |disk| match PartitionTable::read(disk, sector) {
            Ok(table) => assert!(table == read_back(&old(sector)) || table == new),
            Err(TableError::Damaged) => {
                assert_eq!(PartitionTable::restore(disk, sector, SIZE_OF_DISK).unwrap(), new);
                restored += 1;
            }
            Err(error) => panic!("{error}"),
        });
        assert!(restored > 0, "no cut fell between the header and its entries");
    }
}

#[test]
fn free_sectors_lie_between_whole_alignments() {
    let mut table = with(512, &[(4..5, "B"), (2..3, "A")]);
    let mib = |place: Range<u64>| place.start * 2048..place.end * 2048;
    assert_eq!(table.gaps(2048), [mib(1..2), mib(3..4), mib(5..7)]);
    // One that begins and ends anywhere, and lies over another.
    table.add(&NewPartition { sectors: 2048 + 7..2 * 2048 + 9, ..part(512, 1..2, "odd") }).unwrap();
    assert_eq!(table.gaps(2048), [mib(3..4), mib(5..7)]);
    table.add(&part(512, 3..7, "REST")).unwrap();
    assert_eq!(table.gaps(2048), []);
}

#[test]
fn a_table_has_no_more_than_its_entries() {
    let mut table = with(512, &[(1..2, "A")]);
    for number in 2..=128 {
        assert_eq!(table.add(&part(512, 1..2, "B")), Some(number));
    }
    assert_eq!(table.add(&part(512, 1..2, "C")), None);
}

#[test]
fn a_disk_that_has_become_larger_gets_its_copy_at_the_new_end() {
    let mut table = with(512, &[(1..3, "DATA")]);
    let before = table.clone();
    assert_eq!(table.fit(SIZE_OF_DISK), Some(SIZE_OF_DISK / 512 - 33));
    assert_eq!(table.fit(SIZE_OF_DISK - 512), None);
    assert_eq!(table, before);
    assert_eq!(table.fit(2 * SIZE_OF_DISK), Some(2 * SIZE_OF_DISK / 512 - 33));
    assert_eq!(table.copy_place(), 2 * SIZE_OF_DISK - 33 * 512..2 * SIZE_OF_DISK);
}

#[test]
fn what_is_not_sound_is_no_table() {
    let disk = blank();
    let error = |disk: &File| PartitionTable::read(disk, 512).unwrap_err().to_string();
    assert_eq!(error(&disk), "it has no GPT");
    let sound = with(512, &[(1..3, "DATA")]);
    sound.write(&disk).unwrap();
    assert_eq!(PartitionTable::new(512, 60 * 512, [0; 16]), None, "too small for a table and its copy");
    for (place, why) in [(512 + 80, "unusual form"), (1024 + 60, "damaged"), (512 + 60, "damaged")] {
        let mut byte = [0];
        disk.read_exact_at(&mut byte, place).unwrap();
        disk.write_all_at(&[byte[0] ^ 0x10], place).unwrap();
        assert!(error(&disk).contains(why), "{place}: {}", error(&disk));
        disk.write_all_at(&byte, place).unwrap();
    }
    // With checksums that are right.
    for place in [0..7, 1..9, 3..3] {
        let mut table = with(512, &[]);
        table.add(&part(512, place.clone(), "WRONG")).unwrap();
        table.write(&disk).unwrap();
        assert!(error(&disk).contains("unusual form"), "{place:?}");
    }
    for (field, value) in [(FIRST_USABLE, 33), (LAST_USABLE, SIZE_OF_DISK / 512 - 33), (LAST_USABLE, 40)] {
        let mut table = sound.clone();
        put(&mut table.header, field, &u64::to_le_bytes(value));
        table.seal();
        table.write(&disk).unwrap();
        assert!(error(&disk).contains("unusual form"), "{field} {value}");
    }
    let short = tempfile::tempfile().unwrap();
    short.set_len(4096).unwrap();
    assert!(error(&short).starts_with("its table of partitions cannot be read: "));
}

#[test]
fn the_first_sector_says_who_takes_the_disk_for_theirs() {
    let disk = blank();
    let first = || FirstSector::read(&disk).unwrap();
    assert_eq!(first(), FirstSector::Blank);
    disk.write_all_at(&[1], 100).unwrap();
    assert_eq!(first(), FirstSector::Other);
    disk.write_all_at(&MARK, 510).unwrap();
    assert_eq!(first(), FirstSector::Marked);
    disk.write_all_at(&[PROTECTIVE], 446 + 16 + 4).unwrap();
    assert_eq!(first(), FirstSector::Protective, "in whichever record");
}
