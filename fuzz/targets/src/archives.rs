//! Archives of images, and what is remembered of them, as `kelson-unpack` reads them.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path};

use kelson_image::{Digest, Reference};
use kelson_unpack::archive::{Archive, Blob, BlobSink, Catalog, Hasher, LayerCheck, Platform};

use crate::input;
use crate::place::{self, Place};

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// More than this no target makes of its few bytes without growing.
const SPACE: u64 = 64 << 20;
const BLOCK: usize = 512;

fn host() -> Platform {
    Platform::new("linux", "amd64", "v3")
}

/// Looks into every layer that is read, whatever else it may be.
#[derive(Default)]
struct Looking {
    check: Option<LayerCheck>,
    bytes: u64,
}

impl BlobSink for Looking {
    type Error = std::convert::Infallible;

    fn begin(&mut self, _: &Blob) -> Result<bool, Self::Error> {
        (self.check, self.bytes) = (Some(LayerCheck::new(SPACE)), 0);
        Ok(true)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        assert!(bytes.len() <= 256 << 10);
        self.bytes += bytes.len() as u64;
        if let Some(check) = &mut self.check {
            let _ = check.update(bytes);
        }
        Ok(())
    }

    fn end(&mut self, blob: &Blob) -> Result<(), Self::Error> {
        assert_eq!(self.bytes, blob.size, "it was said to be whole");
        let _ = self.check.take().map(LayerCheck::finish);
        Ok(())
    }
}

/// Whether a path names something below where it begins.
pub(crate) fn is_relative(path: &Path) -> bool {
    path.file_name().is_some()
        && path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn open(path: &Path) {
    let archive = match Archive::open(path) {
        Ok(archive) => archive,
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 16 << 10 && !text.chars().any(char::is_control), "{text:?}");
            return;
        }
    };
    for listed in archive.images() {
        let Ok(image) = archive.choose(listed, &host()) else { continue };
        for file in image.layers.iter().filter_map(|layer| layer.blob.file.as_deref()) {
            assert!(!image.platform.is_some() && is_relative(Path::new(file)), "it becomes a path: {file:?}");
        }
        let blobs: Vec<Blob> = image.layers.iter().map(|layer| layer.blob.clone()).collect();
        let _ = archive.read(&blobs, &mut Looking::default());
        for name in &listed.references {
            assert_eq!(Reference::parse(&name.to_string()).as_ref(), Ok(name));
            let _ = archive.image(name, &host());
        }
    }
}

/// Checksums would keep a fuzzer from ever being read: wherever a header stands they are made right.
fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut tar = data.to_vec();
    for block in tar.chunks_exact_mut(BLOCK) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    tar
}

/// The bytes of an archive.
pub fn archive(data: &[u8]) {
    place::with(&FOLDER, |place| open(&place.write("app.tar", &with_checksums(data))));
}

/// The bytes of a layer, in pieces of several sizes.
pub fn layer(data: &[u8]) {
    let data = with_checksums(data);
    let mut whole = LayerCheck::new(SPACE);
    let at_once = whole.update(&data).and_then(|()| whole.finish());
    let mut pieces = LayerCheck::new(SPACE);
    let in_pieces = data
        .chunks(1 + data.len() / 7)
        .try_for_each(|piece| pieces.update(piece))
        .and_then(|()| pieces.finish());
    // The first error may depend on it: the tar, or the compression around it.
    assert_eq!(at_once.as_ref().ok(), in_pieces.as_ref().ok(), "how it is cut is nothing to a layer");
    if let Ok(checked) = at_once {
        assert!(checked.entries <= 1 + checked.size / BLOCK as u64);
    }
}

/// The files of an archive as a text, each after a line `=== NAME`. One that is called `blob LABEL` becomes a blob; in files
/// that come later `@LABEL@` is its digest and `#LABEL#` its size: so that digests do not keep a fuzzer from being read.
pub fn documents(data: &[u8]) {
    let mut blobs: Vec<(String, Digest, usize)> = Vec::new();
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in input::files(data, "index.json").into_iter().take(16) {
        let content = resolved(content, &blobs);
        let path = match name.strip_prefix("blob ") {
            Some(label) => {
                let digest = Hasher::of(&content);
                blobs.push((label.to_owned(), digest, content.len()));
                format!("blobs/sha256/{}", digest.hex())
            }
            None => name.to_owned(),
        };
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // A name that no tar can hold is left out.
        let _ = tar.append_data(&mut header, path, &content[..]);
    }
    let tar = tar.into_inner().expect("it is written to memory");
    place::with(&FOLDER, |place| open(&place.write("app.tar", &tar)));
}

fn resolved(content: &[u8], blobs: &[(String, Digest, usize)]) -> Vec<u8> {
    const LONGEST: usize = 64 << 10;
    let mut content = content.to_vec();
    for (label, digest, size) in blobs {
        content = replaced(&content, format!("@{label}@").as_bytes(), digest.to_string().as_bytes());
        content = replaced(&content, format!("#{label}#").as_bytes(), size.to_string().as_bytes());
        content.truncate(LONGEST);
    }
    content
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// The record of archives that is kept between boots.
pub fn catalog(data: &[u8]) {
    place::with(&FOLDER, |place| {
        let path = place.path();
        place.write("state/catalog.json", data);
        place.write("images/app.tar", b"");
        let scan = Catalog::open(&path.join("state")).scan(&[path.join("images")], &host());
        let mut told = String::new();
        for image in &scan.images {
            let _ = write!(told, "{:?}", image.references);
            for name in &image.references {
                let _ = scan.find(name);
            }
        }
        for note in &scan.notes {
            assert!(note.len() < 16 << 10);
        }
        // It reads its own file.
        let again = Catalog::open(&path.join("state")).scan(&[path.join("images")], &host());
        assert_eq!(again, scan);
        let _ = fs::remove_dir_all(path.join("state"));
    });
}
