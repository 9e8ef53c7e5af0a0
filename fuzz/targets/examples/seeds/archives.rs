//! Seeds of archives: an OCI layout, what `docker save` makes, layers in each compression, a catalog.

use std::io::Write as _;

use super::Seeds;

const DOCUMENTS: &str = r#"=== oci-layout
{"imageLayoutVersion":"1.0.0"}
=== blob l
layer
=== blob c
{"os":"linux","architecture":"amd64","config":{"Entrypoint":["/a"],"Cmd":null,"Env":["A=1"],"User":"www:1","WorkingDir":"/srv","StopSignal":"SIGQUIT"},"rootfs":{"type":"layers","diff_ids":["@l@"]}}
=== blob m
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"@c@","size":#c#},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"@l@","size":#l#}]}
=== blob i
{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"@m@","size":#m#,"platform":{"os":"linux","architecture":"amd64"}}]}
=== index.json
{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"@i@","size":#i#,"annotations":{"org.opencontainers.image.ref.name":"demo/app:1"}}]}
"#;

const DOCKER: &str = r#"=== blob l
layer
=== blob c
{"os":"linux","architecture":"amd64","config":{"Cmd":["/run"]},"rootfs":{"type":"layers","diff_ids":["@l@"]}}
=== layer.tar
layer
=== config.json
{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":["@l@"]}}
=== repositories
{"demo/app":{"1":"x"}}
=== manifest.json
[{"Config":"config.json","RepoTags":["demo/app:1"],"Layers":["layer.tar"]},{"Config":"blobs/sha256/x","RepoTags":null,"Layers":[]}]
"#;

const CATALOG: &str = r#"{"version":1,"host":{"os":"linux","architecture":"amd64","variant":"v3"},"archives":[{"path":"/images/app.tar","stamp":{"size":0,"modified_seconds":1,"modified_nanoseconds":2,"inode":3},"images":[{"references":["demo/app:1"],"platform":{"os":"linux","architecture":"amd64"},"manifest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","index":null,"size":7,"trouble":null}],"notes":["odd"]}]}"#;

/// A layer with an entry of each kind.
fn layer() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let entries: [(&str, tar::EntryType, &str, &[u8]); 6] = [
        ("etc/", tar::EntryType::Directory, "", b""),
        ("etc/app", tar::EntryType::Regular, "", b"x"),
        ("etc/link", tar::EntryType::Symlink, "../etc/app", b""),
        ("etc/hard", tar::EntryType::Link, "etc/app", b""),
        ("dev/null", tar::EntryType::Char, "", b""),
        ("etc/.wh.gone", tar::EntryType::Regular, "", b""),
    ];
    for (name, kind, target, data) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(kind);
        if target.is_empty() {
            tar.append_data(&mut header, name, data).expect("an entry");
        } else {
            tar.append_link(&mut header, name, target).expect("a link");
        }
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    tar.append_data(&mut header, "long/".repeat(40) + "name", &b"y"[..]).expect("a long name");
    tar.append_pax_extensions([("path", &b"pax/name"[..]), ("size", b"1")]).expect("attributes");
    let mut header = tar::Header::new_ustar();
    header.set_size(1);
    header.set_mode(0o644);
    tar.append_data(&mut header, "short", &b"z"[..]).expect("a name");
    tar.into_inner().expect("memory")
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, *bytes).expect("an entry");
    }
    tar.into_inner().expect("memory")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory")
}

pub fn seeds() -> Seeds {
    let layer = layer();
    let save = archive(&[
        ("layer.tar", b"layer"),
        ("config.json", br#"{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]}}"#),
        ("manifest.json", br#"[{"Config":"config.json","RepoTags":["demo/app:1"],"Layers":["layer.tar"]}]"#),
    ]);
    vec![
        ("archive_documents", "oci".into(), DOCUMENTS.into()),
        ("archive_documents", "docker".into(), DOCKER.into()),
        ("catalog", "one".into(), CATALOG.into()),
        ("layer", "plain".into(), layer.clone()),
        ("layer", "gzip".into(), gzip(&layer)),
        ("layer", "zstd".into(), zstd(&layer)),
        ("archive", "plain".into(), save.clone()),
        ("archive", "gzip".into(), gzip(&save)),
        ("archive", "zstd".into(), zstd(&save)),
        ("archive", "layer".into(), layer),
    ]
}
