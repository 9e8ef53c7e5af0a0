//! The memory that archives may cost, whatever they hold: `kelson-unpack` must work with 16 MB.

#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use kelson_unpack::archive::{Archive, Catalog, LayerCheck, Platform};

/// Counts what is allocated, and the most that ever was at once.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
/// One measurement at a time.
static TURN: Mutex<()> = Mutex::new(());

// SAFETY: every call is the system allocator's own; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), SeqCst) + layout.size(), SeqCst);
        // SAFETY: the caller keeps alloc's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller keeps dealloc's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Megabytes that `work` takes at its worst, beyond what is there before.
fn megabytes(work: impl FnOnce()) -> usize {
    let before = NOW.load(SeqCst);
    MOST.store(before, SeqCst);
    work();
    (MOST.load(SeqCst) - before) >> 20
}

fn header(letter: u8, name: &[u8], target: &[u8], size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_size(size);
    header.set_entry_type(tar::EntryType::new(letter));
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
    header.set_cksum();
    header.as_bytes().to_vec()
}

fn file(name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = header(b'0', name.as_bytes(), b"", data.len() as u64);
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn long_name(name: &[u8]) -> Vec<u8> {
    let mut bytes = header(b'L', b"long", b"", name.len() as u64);
    bytes.extend_from_slice(name);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_hostile_archive_takes_little_memory() {
    let _turn = TURN.lock().unwrap();
    let layout = file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    let list =
        |item: &str, size: usize| format!("[{}{item}]", format!("{item},").repeat(size / (item.len() + 1)));
    let tiny = list("{}", 4_000_000);
    let descriptor = format!(r#"{{"digest":"sha256:{}","size":1}}"#, "0".repeat(64));
    let descriptors = format!(r#"{{"manifests":{}}}"#, list(&descriptor, 4_000_000));
    let strings = format!(r#"[{{"Config":"c","RepoTags":{0},"Layers":{0}}}]"#, list(r#""""#, 2_000_000));
    let json_bomb: Vec<u8> = (0..4).flat_map(|n| file(&format!("x{n}"), tiny.as_bytes())).collect();
    let many: Vec<u8> = (0..33_000).flat_map(|n| header(b'0', n.to_string().as_bytes(), b"", 0)).collect();
    let long: Vec<u8> = (0..1_200)
        .flat_map(|n| {
            [long_name(format!("{n}{}", "n".repeat(4000)).as_bytes()), header(b'0', b"x", b"", 0)].concat()
        })
        .collect();
    let pax = vec![b'x'; (1 << 20) + 1];
    let archives = [
        ("many entries", many),
        ("long names", long),
        ("a list of nothing", [layout.clone(), file("index.json", tiny.as_bytes())].concat()),
        ("a list of descriptors", [layout, file("index.json", descriptors.as_bytes())].concat()),
        ("a list of strings", file("manifest.json", strings.as_bytes())),
        ("much JSON", [json_bomb, file("manifest.json", b"[]")].concat()),
        ("a long attribute", [header(b'x', b"p", b"", pax.len() as u64), pax].concat()),
        ("a size that is a lie", header(b'0', b"index.json", b"", 8_000_000_000)),
        ("names that are a lie", header(b'L', b"index.json", b"", 8_000_000_000)),
        ("zeros", vec![0; 1 << 20]),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in archives {
        let packed = (name == "much JSON").then(|| ("gzip", gzip(&bytes)));
        for (form, bytes) in [("plain", bytes)].into_iter().chain(packed) {
            let path = folder.path().join("x.tar");
            std::fs::write(&path, &bytes).unwrap();
            drop(bytes);
            let taken = megabytes(|| drop(Archive::open(&path)));
            assert!(taken <= 13, "{name}, {form}: {taken} MB");
        }
    }
}

#[test]
fn a_hostile_layer_takes_little_memory() {
    let _turn = TURN.lock().unwrap();
    let feed = |piece: &[u8], times: usize| {
        megabytes(|| {
            let mut check = LayerCheck::new(u64::MAX);
            let _ = (0..times).try_for_each(|_| check.update(piece));
        })
    };
    let zeros = feed(&gzip(&vec![0; 2 << 20]), 4);
    assert!(zeros <= 1, "a bomb: {zeros} MB");
    let mut names = Vec::new();
    for n in 0..1_000_u32 {
        names.extend(header(b'2', n.to_string().as_bytes(), &[b't'; 99], 0));
    }
    let links = feed(&names, 10);
    assert!(links <= 8, "the same links again and again: {links} MB");
    let links = megabytes(|| {
        let mut check = LayerCheck::new(u64::MAX);
        let link = |n: u32| header(b'2', format!("{n:098}").as_bytes(), &[b't'; 99], 0);
        assert!((0..70_000).try_for_each(|n| check.update(&link(n))).is_err());
    });
    assert!(links <= 24, "links without end: {links} MB");
    let pax = feed(&[header(b'x', b"p", b"", 1 << 20), vec![b'x'; 1 << 20]].concat(), 1);
    assert!(pax <= 4, "long attributes: {pax} MB");
}

#[test]
fn a_large_honest_archive_takes_less() {
    let _turn = TURN.lock().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut tar = Vec::new();
    for n in 0..4 {
        tar.extend(file(&format!("blobs/sha256/{n}"), &vec![n; 2 << 20]));
    }
    std::fs::create_dir(folder.path().join("images")).unwrap();
    std::fs::write(folder.path().join("images/x.tar.gz"), gzip(&tar)).unwrap();
    drop(tar);
    let scan = |path: &Path| {
        Catalog::open(&path.join("state")).scan(&[path.join("images")], &Platform::new("linux", "amd64", ""))
    };
    let taken = megabytes(|| drop(scan(folder.path())));
    assert!(taken <= 1, "{taken} MB");
}
