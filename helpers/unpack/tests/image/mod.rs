//! Archives of small images.

use std::fs::File;
use std::path::Path;

use kelson_unpack::archive::Hasher;
use serde_json::{Value, json};

/// The digests of an image that was written.
pub struct Written {
    pub manifest: String,
    pub config: String,
    pub layers: Vec<String>,
}

/// An archive of one image, whose layers hold a file with each of these contents.
pub fn write(path: &Path, name: &str, layers: &[&[u8]]) -> Written {
    make(path, name, layers, false)
}

/// The same, but for a byte of its last layer.
pub fn damage(path: &Path, name: &str, layers: &[&[u8]]) -> Written {
    make(path, name, layers, true)
}

fn make(path: &Path, name: &str, contents: &[&[u8]], damaged: bool) -> Written {
    let mut blobs: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |kind: &str, bytes: Vec<u8>| -> Value {
        let digest = Hasher::of(&bytes).to_string();
        let descriptor = json!({"mediaType": kind, "digest": digest, "size": bytes.len()});
        blobs.push((digest, bytes));
        descriptor
    };
    let mut layers = Vec::new();
    for (number, content) in contents.iter().enumerate() {
        let mut tar = tar::Builder::new(Vec::new());
        append(&mut tar, &format!("file-{number}"), content);
        layers.push(add("application/vnd.oci.image.layer.v1.tar", tar.into_inner().unwrap()));
    }
    let diff_ids: Vec<&Value> = layers.iter().map(|layer| &layer["digest"]).collect();
    let architecture = kelson_unpack::archive::Platform::host().architecture;
    let config = json!({"os": "linux", "architecture": architecture, "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "config": {"User": "33", "Cmd": ["/bin/web"], "StopSignal": "SIGQUIT"}});
    let config = add("application/vnd.oci.image.config.v1+json", serde_json::to_vec(&config).unwrap());
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers});
    let mut manifest = add(kind, serde_json::to_vec(&manifest).unwrap());
    let text = |value: &Value| value["digest"].as_str().unwrap().to_owned();
    let written = Written {
        manifest: text(&manifest),
        config: text(&config),
        layers: layers.iter().map(text).collect(),
    };
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    if damaged {
        let last = written.layers.last().unwrap();
        let blob = blobs.iter_mut().find(|(digest, _)| digest == last).unwrap();
        // In the content of its file, behind its header.
        blob.1[512] ^= 1;
    }
    // Whole at any time, and another file each time.
    let new = path.with_extension("new");
    let mut tar = tar::Builder::new(File::create(&new).unwrap());
    append(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    append(&mut tar, "index.json", &serde_json::to_vec(&index).unwrap());
    for (digest, bytes) in &blobs {
        append(&mut tar, &digest.replace("sha256:", "blobs/sha256/"), bytes);
    }
    tar.finish().unwrap();
    std::fs::rename(new, path).unwrap();
    written
}

fn append<W: std::io::Write>(tar: &mut tar::Builder<W>, name: &str, bytes: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len().try_into().unwrap());
    header.set_mode(0o644);
    tar.append_data(&mut header, name, bytes).unwrap();
}
