use std::process::Command;

use super::*;
use crate::known_partition::testing;
use crate::partition_plan::testing::part;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;

fn blank_file() -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(SIZE).unwrap();
    file
}

fn labels(table: &PartitionTable) -> Vec<String> {
    table.partitions().map(|(_, _, label)| label).collect()
}

fn contents(disk: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(disk.metadata().unwrap().len()).unwrap()];
    disk.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Why a disk gets no partitions. Nothing is written to it.
#[track_caller]
fn refused(disk: &File, wanted: &[PartitionSpec]) -> String {
    let before = contents(disk);
    let error = prepare(disk, 512, SIZE, wanted).unwrap_err();
    assert!(contents(disk) == before, "{error}");
    error
}

/// Performs a write in pieces of 512 bytes, and calls `look` before each and after the last.
fn cut(disk: &File, table: &PartitionTable, look: &mut dyn FnMut(&File)) {
    for (place, bytes) in table.steps() {
        for (number, piece) in bytes.chunks(512).enumerate() {
            look(disk);
            disk.write_all_at(piece, place + 512 * number as u64).unwrap();
        }
    }
    look(disk);
}

fn copy_of(disk: &File) -> File {
    let copy = tempfile::tempfile().unwrap();
    copy.write_all_at(&contents(disk), 0).unwrap();
    copy
}

#[test]
fn only_what_a_table_lacks_is_added() {
    let wanted = [part("part", 1), part("NEW", 2), part("REST", 0)];
    for sector in [512, 4096] {
        let disk = testing::disk(sector, 16, &[(1, 3)]);
        let before = PartitionTable::read(&disk, sector).unwrap();
        let Prepared { table, added, restored } = prepare(&disk, sector, SIZE, &wanted).unwrap().unwrap();
        assert_eq!((added, restored), (vec!["NEW", "REST"], false));
        assert_eq!(table.partition(1), before.partition(1), "it stays as it is");
        assert_eq!(PartitionTable::read(&disk, sector).unwrap(), before, "nothing is written yet");
        table.write(&disk).unwrap();
        let again = prepare(&disk, sector, SIZE, &wanted).unwrap().unwrap();
        assert_eq!((again.table, again.added.len(), again.restored), (table, 0, false));
        // The disk becomes larger, and another partition has room then.
        let more = [&wanted[..], &[part("MORE", 0)]].concat();
        assert!(
            prepare(&disk, sector, SIZE, &more).unwrap_err().contains("there is no room of 1Mi for MORE")
        );
        disk.set_len(2 * SIZE).unwrap();
        let grown = prepare(&disk, sector, 2 * SIZE, &more).unwrap().unwrap();
        assert_eq!(grown.table.partition(4).map(|place| place.start * sector / MIB), Some(15));
        disk.write_all_at(&[1], 2 * SIZE - 700).unwrap();
        let error = prepare(&disk, sector, 2 * SIZE, &more).unwrap_err();
        assert!(error.starts_with(&format!("byte {} is not zero", 2 * SIZE - 700)), "{error}");
    }
}

#[test]
fn a_power_cut_on_a_blank_disk_is_put_right_at_the_next_boot() {
    let wanted = [part("DATA", 2), part("REST", 0)];
    let disk = blank_file();
    assert!(prepare(&disk, 512, SIZE, &wanted).unwrap().is_none());
    let mut new = PartitionTable::new(512, SIZE, [9; 16]).unwrap();
    add_missing(&mut new, 512, &wanted).unwrap();
    let (mut none, mut restored, mut whole) = (0, 0, 0);
    cut(&disk, &new, &mut |disk| match prepare(disk, 512, SIZE, &wanted).unwrap() {
        // Blank, or its copy is not whole: no claim of a blank disk takes that.
        None => none += 1,
        Some(next) => {
            assert!(next.added.is_empty());
            restored += usize::from(next.restored);
            whole += usize::from(!next.restored);
            let repaired = copy_of(disk);
            next.table.write(&repaired).unwrap();
            assert_eq!(FirstSector::read(&repaired).unwrap(), FirstSector::Protective);
            let table = PartitionTable::read(&repaired, 512).unwrap();
            assert_eq!((labels(&table), table.partition(2)), (labels(&new), new.partition(2)));
        }
    });
    // 32 sectors of entries and the header are the copy; then it counts, and the first sector is last.
    assert_eq!((none, restored, whole), (33, 34, 1));
}

#[test]
fn a_power_cut_while_a_partition_is_added_is_put_right_at_the_next_boot() {
    let wanted = [part("NEW", 2)];
    for sector in [512, 4096] {
        let disk = testing::disk(sector, 16, &[(1, 3)]);
        let old = PartitionTable::read(&disk, sector).unwrap();
        let new = prepare(&disk, sector, SIZE, &wanted).unwrap().unwrap().table;
        let mut restored = 0;
        cut(&disk, &new, &mut |disk| {
            let next = prepare(disk, sector, SIZE, &wanted).unwrap().unwrap();
            restored += usize::from(next.restored);
            assert_eq!((next.table.partition(1), labels(&next.table)), (old.partition(1), labels(&new)));
        });
        assert!(restored > 0, "no cut damaged the table at the beginning");
    }
}

#[test]
fn a_disk_of_somebody_else_gets_no_partitions() {
    let wanted = [part("DATA", 0)];
    let mbr = blank_file();
    mbr.write_all_at(&[0x55, 0xAA], 510).unwrap();
    assert_eq!(refused(&mbr, &wanted), "it has an MBR; Kelson makes partitions in a GPT alone");
    let used = tempfile::NamedTempFile::new().unwrap();
    used.as_file().set_len(SIZE).unwrap();
    let made =
        Command::new("/sbin/mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(used.path()).status().unwrap();
    assert!(made.success());
    assert_eq!(refused(used.as_file(), &wanted), "a ext4 is on it; Kelson makes no partitions there");
    // What else is on a disk, a claim of a blank one finds.
    let other = blank_file();
    other.write_all_at(b"x", 5).unwrap();
    assert!(prepare(&other, 512, SIZE, &wanted).unwrap().is_none());
    // A disk that was wiped at its beginning alone.
    let wiped = testing::disk(512, 16, &[(1, 3)]);
    wiped.write_all_at(&vec![0; 1 << 20], 0).unwrap();
    assert!(refused(&wiped, &wanted).contains("the copy of a table with the partition part is at its end"));
    let before = PartitionTable::restore(&wiped, 512, SIZE).unwrap();
    let own = [part("part", 0)];
    let own = prepare(&wiped, 512, SIZE, &own).unwrap().unwrap();
    assert_eq!((own.table, own.restored), (before, true));
    let short = tempfile::tempfile().unwrap();
    short.set_len(1000).unwrap();
    assert!(refused(&short, &wanted).starts_with("its table of partitions cannot be read: "));
}

#[test]
fn a_table_that_is_not_sound_is_left_alone() {
    let wanted = [part("DATA", 0)];
    let disk = || testing::disk(512, 16, &[(1, 3)]);
    let damaged = disk();
    damaged.write_all_at(&[1], 1024 + 60).unwrap();
    assert!(prepare(&damaged, 512, SIZE, &wanted).unwrap().unwrap().restored);
    damaged.write_all_at(&[1], SIZE - 33 * 512 + 60).unwrap();
    assert_eq!(refused(&damaged, &wanted), "at its end, its table of partitions is damaged");
    damaged.write_all_at(&[0; 512], SIZE - 512).unwrap();
    assert_eq!(refused(&damaged, &wanted), "its table of partitions is damaged, and has no copy");
    let foreign = disk();
    foreign.write_all_at(&[1; 512], SIZE - 512).unwrap();
    assert_eq!(refused(&foreign, &wanted), "its last sector has no copy of its table, but something else");
    let boot = disk();
    boot.write_all_at(&[0; 64], 446).unwrap();
    assert_eq!(refused(&boot, &wanted), "its first sector does not belong to its GPT; repair it with sgdisk");
    assert_eq!(
        prepare(&disk(), 512, SIZE - MIB, &wanted).unwrap_err(),
        "it is smaller than its table of partitions says"
    );
}

#[test]
fn the_kernel_must_know_what_the_table_has() {
    let table = testing::table(512, 16, &[(1, 3)]);
    let known = KnownPartition { number: 1, start: MIB, size: 2 * MIB };
    assert_eq!(check_known(&[], &table, 512), Ok(()));
    assert_eq!(check_known(&[known], &table, 512), Ok(()));
    for other in [KnownPartition { size: MIB, ..known }, KnownPartition { number: 2, ..known }] {
        assert!(
            check_known(&[other], &table, 512).unwrap_err().contains("the kernel knows another partition")
        );
    }
}

#[test]
fn what_is_no_disk_is_refused() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(make("/dev/null", &words(&["-:linux:DATA"])), Err("/dev/null: it is no disk".to_owned()));
    assert_eq!(make("/dev/null", &words(&["DATA"])), Err("a partition is not understood".to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("ext_range", "1\n");
    assert!(check_disk(folder.path()).unwrap_err().contains("no partitions on such a device"));
    write("ext_range", "256\n");
    std::fs::create_dir_all(folder.path().join("holders/dm-0")).unwrap();
    assert_eq!(check_disk(folder.path()), Err("it is a part of another device".to_owned()));
    std::fs::remove_dir(folder.path().join("holders/dm-0")).unwrap();
    assert_eq!(check_disk(folder.path()), Ok(()));
    write("partition", "1\n");
    assert_eq!(check_disk(folder.path()), Err("it is a partition; name the whole disk".to_owned()));
}
