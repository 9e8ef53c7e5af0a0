//! Images of services and the archives that hold them, sound ones and such as an attacker or a bad disk makes.
//!
//! Written here byte by byte, by nothing that Kelson reads them with.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::paths;

/// The kind of an entry of a tar file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    HardLink,
    Symlink,
    Folder,
}

/// A tar file as it grows.
#[derive(Debug, Clone, Default)]
pub struct Tar(Vec<u8>);

impl Tar {
    pub fn new() -> Tar {
        Tar::default()
    }

    pub fn folder(self, name: &str) -> Tar {
        self.entry(Kind::Folder, name, "", 0o755, &[])
    }

    pub fn file(self, name: &str, mode: u32, bytes: &[u8]) -> Tar {
        self.entry(Kind::File, name, "", mode, bytes)
    }

    pub fn symlink(self, name: &str, target: &str) -> Tar {
        self.entry(Kind::Symlink, name, target, 0o777, &[])
    }

    pub fn hard_link(self, name: &str, target: &str) -> Tar {
        self.entry(Kind::HardLink, name, target, 0o644, &[])
    }

    /// Adds an entry with any name and any target.
    fn entry(mut self, kind: Kind, name: &str, target: &str, mode: u32, bytes: &[u8]) -> Tar {
        assert!(
            name.len() <= 100 && target.len() <= 100,
            "a longer name needs another format: {name} {target}"
        );
        let mut head = [0_u8; 512];
        let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}\0{:07o}\0{:07o}\0{:011o}\0{:011o}\0        ", 0, 0, bytes.len(), 0));
        put(
            156,
            match kind {
                Kind::File => "0",
                Kind::HardLink => "1",
                Kind::Symlink => "2",
                Kind::Folder => "5",
            },
        );
        put(157, target);
        put(257, "ustar\x0000");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&head);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// The whole file, with the end that tar asks for.
    pub fn bytes(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// An image for the services of a test: `/program` is `kelson-test-program`.
#[derive(Debug, Clone)]
pub struct Image {
    pub reference: String,
    /// Each a tar file.
    pub layers: Vec<Vec<u8>>,
    pub gzip: bool,
    /// The `config` of its config.
    pub config: Value,
    pub architecture: String,
    /// The names of the layers that are files of an artifact. `None`: it is an image.
    pub titles: Option<BTreeMap<usize, String>>,
}

impl Image {
    /// One that runs these steps when a service says nothing else.
    pub fn new(reference: &str, steps: &[&str]) -> Image {
        Image { layers: vec![base()], ..Image::without_layers(reference, steps) }
    }

    pub fn without_layers(reference: &str, steps: &[&str]) -> Image {
        Image {
            reference: reference.to_owned(),
            layers: Vec::new(),
            gzip: false,
            config: json!({"Entrypoint": ["/program"], "Cmd": steps, "Env": ["PATH=/", "OF_IMAGE=yes"]}),
            architecture: match std::env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                other => other,
            }
            .to_owned(),
            titles: None,
        }
    }

    /// No image: an artifact without layers.
    pub fn artifact(reference: &str) -> Image {
        Image { titles: Some(BTreeMap::new()), ..Image::without_layers(reference, &[]) }
    }

    /// One more layer of an artifact: a file, as ORAS writes it.
    pub fn titled(mut self, name: &str, bytes: &[u8]) -> Image {
        self.titles.get_or_insert_default().insert(self.layers.len(), name.to_owned());
        self.layers.push(bytes.to_vec());
        self
    }

    /// One more layer.
    pub fn layer(mut self, layer: Tar) -> Image {
        self.layers.push(layer.bytes());
        self
    }

    /// Layers are compressed.
    pub fn gzip(mut self) -> Image {
        self.gzip = true;
        self
    }

    /// Sets a key of the `config` of its config.
    pub fn set(mut self, key: &str, value: Value) -> Image {
        self.config[key] = value;
        self
    }

    pub fn architecture(mut self, name: &str) -> Image {
        self.architecture = name.to_owned();
        self
    }
}

/// The layer that all images share: the program, who may run it, and folders for mounts.
pub fn base() -> Vec<u8> {
    let program = std::fs::read(paths::binary("kelson-test-program")).expect("the test's program");
    let mut tar = Tar::new();
    for folder in ["dev", "proc", "sys", "etc", "tmp", "run"] {
        tar = tar.folder(&format!("{folder}/"));
    }
    tar.file("program", 0o755, &program)
        .file("etc/passwd", 0o644, b"root:x:0:0::/root:/program\nweb:x:1000:1001::/home/web:/program\n")
        .file("etc/group", 0o644, b"root:x:0:\nweb:x:1001:\nlog:x:1002:web\n")
        .bytes()
}

/// An archive in the layout of OCI with these images in it.
pub fn archive(images: &[Image]) -> Vec<u8> {
    archive_with(images, |_, _| {})
}

/// The same; `change` sees each blob after its digest was taken: `config`, `manifest` or `layer`.
pub fn archive_with(images: &[Image], mut change: impl FnMut(&str, &mut Vec<u8>)) -> Vec<u8> {
    let mut blobs: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut keep = |kind: &str, mut bytes: Vec<u8>| {
        let (digest, size) = (hex_digest(&bytes), bytes.len());
        change(kind, &mut bytes);
        blobs.insert(digest.clone(), bytes);
        (format!("sha256:{digest}"), size)
    };
    let mut manifests = Vec::new();
    for image in images {
        let manifest = manifest(image, &mut keep);
        let (digest, size) = keep("manifest", manifest);
        manifests.push(json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": size,
            "annotations": {"org.opencontainers.image.ref.name": image.reference},
        }));
    }
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    let mut tar = Tar::new().file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#).file(
        "index.json",
        0o644,
        index.to_string().as_bytes(),
    );
    for (digest, bytes) in &blobs {
        tar = tar.file(&format!("blobs/sha256/{digest}"), 0o644, bytes);
    }
    tar.bytes()
}

/// The manifest of an image; `keep` takes each of its other blobs, and tells its digest and size.
fn manifest(image: &Image, keep: &mut impl FnMut(&str, Vec<u8>) -> (String, usize)) -> Vec<u8> {
    let diff_ids: Vec<String> =
        image.layers.iter().map(|layer| format!("sha256:{}", hex_digest(layer))).collect();
    let (config, config_type) = match image.titles {
        Some(_) => (json!({}), "application/vnd.oci.empty.v1+json"),
        None => (
            json!({
                "architecture": image.architecture, "os": "linux", "config": image.config,
                "rootfs": {"type": "layers", "diff_ids": diff_ids},
            }),
            "application/vnd.oci.image.config.v1+json",
        ),
    };
    let (config, config_size) = keep("config", config.to_string().into_bytes());
    let layers: Vec<Value> = image
        .layers
        .iter()
        .enumerate()
        .map(|(number, layer)| {
            let title = image.titles.as_ref().and_then(|titles| titles.get(&number));
            let is_compressed = image.gzip && title.is_none();
            let (bytes, end) = if is_compressed { (gzipped(layer), "+gzip") } else { (layer.clone(), "") };
            let (digest, size) = keep("layer", bytes);
            let mut layer = json!({
                "mediaType": format!("application/vnd.oci.image.layer.v1.tar{end}"), "digest": digest, "size": size,
            });
            if let Some(title) = title {
                layer["annotations"] = json!({"org.opencontainers.image.title": title});
            }
            layer
        })
        .collect();
    let mut manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": config_type, "digest": config, "size": config_size},
        "layers": layers,
    });
    if image.titles.is_some() {
        manifest["artifactType"] = "application/vnd.example.assets".into();
    }
    manifest.to_string().into_bytes()
}

/// The manifest of an image, and its other blobs by their digests.
pub fn parts(image: &Image) -> (Vec<u8>, BTreeMap<String, Vec<u8>>) {
    let mut blobs = BTreeMap::new();
    let mut keep = |_: &str, bytes: Vec<u8>| {
        let (digest, size) = (format!("sha256:{}", hex_digest(&bytes)), bytes.len());
        blobs.insert(digest.clone(), bytes);
        (digest, size)
    };
    let manifest = manifest(image, &mut keep);
    (manifest, blobs)
}

/// The sha256 of these bytes.
pub fn hex_digest(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

/// Bytes that no compression makes smaller, always the same.
pub fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}
