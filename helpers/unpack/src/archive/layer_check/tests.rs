//! Whole layers, honest and hostile.

use super::*;
use crate::archive::Hasher;
use crate::archive::headers::{Headers, Step};
use crate::archive::testing::{END, Random, gzip, noise, raw, tar_of, zstd};

const SPACE: u64 = 64 << 20;

/// Feeds a layer in pieces of this many bytes.
fn check_in_pieces(layer: &[u8], piece: usize, space: u64) -> Result<Checked, LayerError> {
    let mut check = LayerCheck::new(space);
    for piece in layer.chunks(piece) {
        check.update(piece)?;
    }
    check.finish()
}

fn check(layer: &[u8]) -> Result<Checked, LayerError> {
    check_in_pieces(layer, 1 << 16, SPACE)
}

fn text(layer: &[u8]) -> String {
    check(layer).unwrap_err().to_string()
}

/// A record of pax.
fn pax(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let length = (rest..).find(|length| length.to_string().len() + rest == *length).unwrap();
    format!("{length} {key}={value}\n").into_bytes()
}

#[test]
fn a_layer_is_known_however_it_is_packed_and_comes() {
    let tar =
        tar_of(&[("bin/a", &noise(3, 70_000)), ("etc/b", b""), (&format!("{}x", "long/".repeat(40)), b"x")]);
    let (first, second) = tar.split_at(50_001);
    let members = [gzip(first), gzip(b""), gzip(second)].concat();
    let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd(&tar)].concat();
    let frames = [zstd(first), zstd(second)].concat();
    let expected = Checked { diff_id: Hasher::of(&tar), size: tar.len() as u64, entries: 3 };
    for (name, layer) in [
        ("plain", tar.clone()),
        ("gzip", gzip(&tar)),
        ("gzip of three members", members),
        ("zstd", zstd(&tar)),
        ("zstd of two frames", frames),
        ("zstd after a frame to skip", skippable),
    ] {
        for piece in [1, 3, 511, 512, 4096, 1 << 20] {
            assert_eq!(check_in_pieces(&layer, piece, SPACE), Ok(expected), "{name} in pieces of {piece}");
        }
    }
}

#[test]
fn layers_of_any_size_end_well() {
    for size in (0..300_000).step_by(32_768).flat_map(|size| [size, size + 1, size + 31_743]) {
        let tar = tar_of(&[("x", &vec![b'a'; size])]);
        for layer in [zstd(&tar), gzip(&tar), tar.clone()] {
            assert_eq!(check(&layer).map(|checked| checked.diff_id), Ok(Hasher::of(&tar)), "{size}");
        }
    }
}

#[test]
fn an_empty_layer_is_a_layer() {
    for layer in [END.to_vec(), gzip(&END), zstd(&END)] {
        assert_eq!(check(&layer).unwrap().entries, 0);
    }
}

#[test]
fn c3_what_leaves_the_root_is_refused_however_it_is_written() {
    let long_name = |letter: u8, name: &[u8]| {
        [raw(letter, b"././@LongLink", b"", &[name, b"\0"].concat()), raw(b'0', b"short", b"", b"")].concat()
    };
    let with_pax = |records: &[u8], entry: Vec<u8>| [raw(b'x', b"pax", b"", records), entry].concat();
    let mut prefixed = raw(b'0', b"passwd", b"", b"");
    prefixed[345..347].copy_from_slice(b"..");
    let prefixed = summed(prefixed);
    let mut buggy = raw(b'0', b"passwd", b"", b"");
    buggy[257..265].copy_from_slice(b"ustar  \0");
    buggy[345..356].copy_from_slice(b"../../../..");
    let buggy = summed(buggy);
    for (layer, expected) in [
        (raw(b'0', b"/etc/passwd", b"", b"x"), "is absolute"),
        (raw(b'0', b"../etc/passwd", b"", b"x"), "holds a .. part"),
        (raw(b'5', b"a/../..", b"", b""), "holds a .. part"),
        (raw(b'1', b"a", b"/etc/shadow", b""), "is absolute"),
        (raw(b'1', b"a", b"../../etc/shadow", b""), "holds a .. part"),
        ([raw(b'2', b"a", b"../../tmp", b""), raw(b'0', b"a/x", b"", b"")].concat(), "leads above the root"),
        (long_name(b'L', b"../long"), "holds a .. part"),
        (with_pax(&pax("path", "../pax"), raw(b'0', b"x", b"", b"")), "holds a .. part"),
        (with_pax(&pax("linkpath", "/pax"), raw(b'1', b"x", b"y", b"")), "is absolute"),
        // GNU's name goes before pax's.
        (
            [
                raw(b'x', b"p", b"", &pax("path", "good")),
                raw(b'L', b"l", b"", b"../bad\0"),
                raw(b'0', b"s", b"", b""),
            ]
            .concat(),
            "holds a .. part",
        ),
        // An empty name of GNU's says nothing: the header's or pax's counts, as with Go.
        (long_name_then(b'L', raw(b'0', b"../short", b"", b"")), "holds a .. part"),
        (long_name_then(b'K', raw(b'1', b"a", b"/etc/shadow", b"")), "is absolute"),
        (
            with_pax(&pax("path", "../pax"), long_name_then(b'L', raw(b'0', b"x", b"", b""))),
            "holds a .. part",
        ),
        (prefixed, "holds a .. part"),
        (buggy, "holds a .. part"),
        (raw(b'Z', b"x", b"", b""), "type 'Z'"),
        (raw(b'S', b"x", b"", b""), "sparse"),
        (with_pax(&pax("GNU.sparse.major", "1"), raw(b'0', b"x", b"", b"")), "sparse"),
        (with_pax(b"garbage", raw(b'0', b"x", b"", b"")), "attributes that are broken"),
        (with_pax(b"99 path=x\n", raw(b'0', b"x", b"", b"")), "attributes that are broken"),
        (with_pax(&pax("path", "a\0b"), raw(b'0', b"x", b"", b"")), "attributes that are broken"),
        (with_pax(&pax("size", "-1"), raw(b'0', b"x", b"", b"")), "attributes that are broken"),
        (
            with_pax(&pax("size", "18446744073709551615"), raw(b'0', b"x", b"", b"")),
            "attributes that are broken",
        ),
        (with_pax(&pax("path", &"n".repeat(5000)), raw(b'0', b"x", b"", b"")), "of 5000 bytes"),
        (raw(b'2', b"./", b"/etc", b""), "replace the root"),
    ] {
        let layer = [layer, END.to_vec()].concat();
        for layer in [gzip(&layer), zstd(&layer), layer] {
            let text = text(&layer);
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}

/// An entry behind a long name that is empty.
fn long_name_then(letter: u8, entry: Vec<u8>) -> Vec<u8> {
    [raw(letter, b"././@LongLink", b"", b"\0"), entry].concat()
}

#[test]
fn what_go_reads_as_times_is_no_prefix() {
    // GNU's times of access and of change, and whether Go reads both.
    let minus_one = [0xff; 12];
    let mut early = [0xff; 12];
    early[4] = 0x7f;
    let mut huge = [0; 12];
    (huge[0], huge[4]) = (0x80, 0x80);
    let mut late = huge;
    late[4] = 0x7f;
    for (changed, are_times) in [
        (*b"00000000000\0", true),
        (*b" 0000000000 ", true),
        (minus_one, true),
        (late, true),
        (early, false),
        (huge, false),
        (*b"\n0000000000\0", false),
        (*b"000000000 \x000", false),
        (*b"00000000009\0", false),
    ] {
        let mut entry = raw(b'0', b"../x", b"", b"");
        entry[257..265].copy_from_slice(b"ustar  \0");
        entry[345..357].copy_from_slice(b"00000000000\0");
        entry[357..369].copy_from_slice(&changed);
        let block: [u8; 512] = summed(entry).try_into().unwrap();
        let name = match Headers::default().block(0, &block) {
            Ok(Step::Entry(entry)) => String::from_utf8(entry.name).unwrap(),
            other => panic!("{other:?}"),
        };
        let expected = if are_times { "../x" } else { "00000000000/../x" };
        assert_eq!(name, expected, "{changed:?}");
    }
}

#[test]
fn a_tar_that_nobody_closed_is_whole() {
    // As `umoci insert` leaves it: neither blocks of zeros nor the last file's padding.
    let entry = raw(b'0', b"x", b"", b"data");
    let tar = [raw(b'0', b"a", b"", b"first"), entry].concat();
    for length in [tar.len(), tar.len() - 7, tar.len() - 508] {
        let tar = &tar[..length];
        for layer in [tar.to_vec(), gzip(tar), zstd(tar)] {
            assert_eq!(check(&layer).map(|checked| checked.diff_id), Ok(Hasher::of(tar)), "{length}");
        }
    }
    let cut = text(&tar[..tar.len() - 509]);
    assert!(cut.contains("cut short"), "{cut}");
}

/// The header with its checksum made right.
fn summed(mut block: Vec<u8>) -> Vec<u8> {
    block[148..156].fill(b' ');
    let sum: u32 = block[..512].iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[test]
fn what_is_legal_passes() {
    let layer = [
        raw(b'5', b"./", b"", b""),
        raw(b'g', b"comment", b"", &pax("comment", "x")),
        raw(b'2', b"run", b"/var/run", b""),
        raw(b'0', b"run/x", b"", b"x"),
        raw(b'3', b"dev/null", b"", b""),
        raw(b'6', b"pipe", b"", b""),
        raw(b'0', b"x/.wh..wh..opq", b"", b""),
        raw(b'0', b"x/.wh.gone", b"", b""),
        // An old writer's file with no type, and a folder told by its slash alone.
        raw(0, b"old", b"", b"data"),
        raw(0, b"folder/", b"", b""),
        // A pax size goes before the header's.
        raw(
            b'x',
            b"pax",
            b"",
            &[pax("size", "600"), pax("path", "big"), pax("SCHILY.xattr.user.a", "..")].concat(),
        ),
        summed_with_size(raw(b'0', b"small", b"", &[7; 600]), 3),
        raw(b'0', b"end", b"", b"x"),
        END.to_vec(),
        b"what follows the end means nothing".to_vec(),
    ]
    .concat();
    let checked = check(&layer).unwrap();
    assert_eq!((checked.entries, checked.diff_id), (11, Hasher::of(&layer)));
}

fn summed_with_size(mut block: Vec<u8>, size: u64) -> Vec<u8> {
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    summed(block)
}

#[test]
fn c3_a_layer_larger_than_the_disk_is_refused_before_it_comes() {
    // A header alone, which promises a terabyte, by digits and as a number of 256.
    let promised = summed_with_size(raw(b'0', b"big", b"", b""), 1 << 30);
    let text = check_in_pieces(&promised, 512, 1 << 20).unwrap_err().to_string();
    assert_eq!(text, "it unpacks to 1073742336 bytes or more, the disk has 1048576");
    let mut wide = raw(b'0', b"big", b"", b"");
    wide[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    assert!(matches!(check(&summed(wide)), Err(LayerError::Space { .. })));
    for size in [
        [0xff_u8; 12],
        [0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        *b"9x8         ",
    ] {
        let mut absurd = raw(b'0', b"big", b"", b"");
        absurd[124..136].copy_from_slice(&size);
        let text = check(&summed(absurd)).unwrap_err().to_string();
        assert!(text.contains("size that is no number"), "{text}");
    }
    // A bomb: what follows the end of the tar counts too.
    let bomb = vec![0; 8 << 20];
    for layer in [gzip(&bomb), zstd(&bomb)] {
        assert!(layer.len() < 100_000);
        let refused = check_in_pieces(&layer, 4096, 1 << 20);
        assert!(
            matches!(refused, Err(LayerError::Space { space: 1_048_576, needed }) if needed < 2 << 20),
            "{refused:?}"
        );
    }
}

#[test]
fn a_window_that_takes_too_much_memory_is_refused() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.long_distance_matching(true).unwrap();
    std::io::Write::write_all(&mut encoder, &tar_of(&[("x", &noise(1, 100_000))])).unwrap();
    let text = text(&encoder.finish().unwrap());
    assert!(text.contains("a window of more than 16 MiB"), "{text}");
}

#[test]
fn a_layer_cut_anywhere_is_refused() {
    let tar = tar_of(&[("a", &noise(9, 3000)), ("b", b"b")]);
    for layer in [gzip(&tar), zstd(&tar)] {
        for length in 1..layer.len() {
            assert!(check(&layer[..length]).is_err(), "{length} of {}", layer.len());
        }
    }
    for length in 1..tar.len() - END.len() {
        // A tar without an end and the last padding is read by everybody: its digest tells.
        let between = (512 + 3000..=512 + 3072).contains(&length) || length > 512 + 3072 + 512;
        assert_eq!(check(&tar[..length]).is_ok(), between, "{length}");
    }
    let text = text(&tar[..700]);
    assert_eq!(text, r#"its tar is cut short at byte 700, in "a""#);
}

#[test]
fn garbage_behind_gzip_is_refused() {
    let layer = [gzip(&tar_of(&[("a", b"a")])), b"garbage".to_vec()].concat();
    assert!(text(&layer).contains("compression is broken"));
}

#[test]
fn an_error_stays() {
    let mut check = LayerCheck::new(SPACE);
    let first = check.update(&gzip(&raw(b'0', b"/x", b"", b""))).and_then(|()| check.update(&[0; 100]));
    let again = check.update(&gzip(&END));
    assert!(matches!(first, Err(LayerError::Name { .. })), "{first:?}");
    assert_eq!(again, first);
    assert_eq!(check.finish().map(|_| ()), first);
}

#[test]
fn no_mutation_of_a_layer_does_harm() {
    let tar = [
        raw(b'2', b"a", b"b/../c", b""),
        raw(b'x', b"p", b"", &[pax("path", "some/name"), pax("size", "5")].concat()),
        raw(b'0', b"a/x", b"", b"hello"),
        raw(b'L', b"l", b"", b"a/long/name\0"),
        raw(b'1', b"y", b"a/x", b""),
        END.to_vec(),
    ]
    .concat();
    let mut random = Random(11);
    for original in [&tar, &gzip(&tar), &zstd(&tar)].into_iter().cycle().take(4000) {
        let mut layer = original.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(layer.len());
            match random.below(3) {
                0 => layer[at] ^= 1 << random.below(8),
                1 => layer[at] = random.next() as u8,
                _ => layer.truncate(at.max(1)),
            }
        }
        // Headers that are wrong by their sum alone would hide all that lies behind it.
        if original.len() == tar.len() {
            let whole = layer.len() / 512 * 512;
            for block in layer[..whole].chunks_mut(512).filter(|block| block.iter().any(|byte| *byte != 0)) {
                let fixed = summed(block.to_vec());
                block.copy_from_slice(&fixed);
            }
        }
        let piece = 1 + random.below(2000);
        if let Ok(checked) = check_in_pieces(&layer, piece, 1 << 20) {
            assert!(checked.size <= 1 << 20);
        }
    }
}
