//! Archives made by hand, for the tests of this folder.

use std::collections::BTreeMap;
use std::io::Write;

use kelson_image::Digest;
use serde_json::{Value, json};

use super::{Blob, BlobSink, Hasher, Platform};

pub const HOST: fn() -> Platform = || Platform::new("linux", "amd64", "");

/// A tar of files in this order.
pub fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, *bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

/// One entry, its name and target as they are; nothing is checked.
pub fn raw(letter: u8, name: &[u8], target: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::new(letter));
    {
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name);
        old.linkname[..target.len()].copy_from_slice(target);
    }
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

pub const END: [u8; 1024] = [0; 1024];

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// Bytes that do not compress away.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..length).map(|_| random.next() as u8).collect()
}

/// The same numbers every time (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 |= 1;
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// An OCI layout in the making.
#[derive(Default, Clone)]
pub struct Layout {
    pub files: BTreeMap<String, Vec<u8>>,
    pub manifests: Vec<Value>,
}

impl Layout {
    /// Adds a blob and describes it.
    pub fn blob(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Hasher::of(bytes);
        self.files.insert(format!("blobs/sha256/{}", digest.hex()), bytes.to_vec());
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    /// Adds an image of these uncompressed layers, each compressed by `pack`; returns its descriptor.
    pub fn image(&mut self, architecture: &str, layers: &[Vec<u8>], pack: fn(&[u8]) -> Vec<u8>) -> Value {
        let diff_ids: Vec<Digest> = layers.iter().map(|layer| Hasher::of(layer)).collect();
        let config = json!({"os": "linux", "architecture": architecture, "config": {"Cmd": ["/run"]},
            "rootfs": {"type": "layers", "diff_ids": diff_ids}});
        let config = self.blob("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes());
        let layers: Vec<Value> = layers
            .iter()
            .map(|l| self.blob("application/vnd.oci.image.layer.v1.tar+gzip", &pack(l)))
            .collect();
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        self.blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes())
    }

    /// Adds an artifact of these layers; returns its descriptor.
    pub fn artifact(&mut self, layers: &[Value]) -> Value {
        let config = self.blob("application/vnd.oci.empty.v1+json", b"{}");
        let manifest =
            json!({"schemaVersion": 2, "artifactType": "text/x", "config": config, "layers": layers});
        self.blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes())
    }

    /// Adds a file as a layer of an artifact.
    pub fn titled(&mut self, title: &str, bytes: &[u8]) -> Value {
        let mut layer = self.blob("application/vnd.oci.image.layer.v1.tar", bytes);
        layer["annotations"] = json!({"org.opencontainers.image.title": title});
        layer
    }

    /// Lists a descriptor in index.json, under this `org.opencontainers.image.ref.name`.
    pub fn list(&mut self, mut descriptor: Value, name: Option<&str>) {
        if let Some(name) = name {
            descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        }
        self.manifests.push(descriptor);
    }

    pub fn all_files(&self) -> Vec<(String, Vec<u8>)> {
        let index = json!({"schemaVersion": 2, "manifests": self.manifests}).to_string();
        let mut files: Vec<(String, Vec<u8>)> = self.files.clone().into_iter().collect();
        files.push(("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
        files.push(("index.json".to_owned(), index.into_bytes()));
        files
    }

    pub fn tar(&self) -> Vec<u8> {
        let files = self.all_files();
        tar_of(&files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect::<Vec<_>>())
    }
}

/// `demo/app:1` for amd64 with these two layers.
pub fn demo() -> Layout {
    let mut layout = Layout::default();
    let layers = [tar_of(&[("bin/app", &noise(1, 3000))]), tar_of(&[("etc/app", b"x")])];
    let image = layout.image("amd64", &layers, gzip);
    layout.list(image, Some("demo/app:1"));
    layout
}

/// Keeps every blob that ended.
#[derive(Default)]
pub struct Collect {
    current: Vec<u8>,
    pub blobs: Vec<(Digest, Vec<u8>)>,
    pub largest: usize,
}

impl BlobSink for Collect {
    type Error = std::convert::Infallible;

    fn begin(&mut self, _: &Blob) -> Result<bool, Self::Error> {
        self.current.clear();
        Ok(true)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.largest = self.largest.max(bytes.len());
        self.current.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self, blob: &Blob) -> Result<(), Self::Error> {
        self.blobs.push((blob.digest, std::mem::take(&mut self.current)));
        Ok(())
    }
}
