//! Whole archives, honest and hostile.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::testing::{Collect, END, HOST, Layout, Random, demo, gzip, noise, raw, tar_of, zstd};
use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn reference(text: &str) -> Reference {
    Reference::parse(text).unwrap()
}

fn open(bytes: &[u8]) -> Result<(Folder, Archive), String> {
    let folder = Folder::new();
    let archive = Archive::open(&folder.file("box.tar", bytes)).map_err(|error| error.to_string())?;
    Ok((folder, archive))
}

fn names(archive: &Archive) -> Vec<String> {
    archive.images().iter().flat_map(|image| &image.references).map(Reference::to_string).collect()
}

fn blobs(image: &Image) -> Vec<Blob> {
    image.layers.iter().map(|layer| layer.blob.clone()).collect()
}

/// Reads all layers of an image.
fn read(archive: &Archive, image: &Image) -> Result<Collect, String> {
    let mut sink = Collect::default();
    match archive.read(&blobs(image), &mut sink) {
        Ok(()) => Ok(sink),
        Err(ReadError::Archive(error)) => Err(error.to_string()),
        Err(ReadError::Sink(never)) => match never {},
    }
}

/// The text of the error that the archive's `demo/app:1` has, whenever it comes.
fn trouble(bytes: &[u8]) -> String {
    let whole = || {
        let (_folder, archive) = open(bytes)?;
        let image = archive.image(&reference("demo/app:1"), &HOST()).map_err(|error| error.to_string())?;
        read(&archive, &image).map(|_| ())
    };
    whole().expect_err("an archive that is wrong")
}

#[test]
fn every_form_of_a_layout_gives_the_same_image() {
    let layout = demo();
    let (folder, tar) = (Folder::new(), layout.tar());
    for (name, bytes) in layout.all_files() {
        folder.file(&format!("layout/{name}"), &bytes);
    }
    let dotted: Vec<(String, Vec<u8>)> =
        layout.all_files().into_iter().map(|(name, bytes)| (format!("./{name}"), bytes)).collect();
    let mut dotted_tar = raw(b'5', b"./", b"", b"");
    for (name, bytes) in &dotted {
        dotted_tar.extend(raw(b'0', name.as_bytes(), b"", bytes));
    }
    dotted_tar.extend(END);
    let expected: Vec<Vec<u8>> = {
        let (_folder, archive) = open(&tar).unwrap();
        let image = archive.image(&reference("demo/app:1"), &HOST()).unwrap();
        image
            .layers
            .iter()
            .map(|layer| layout.files[&format!("blobs/sha256/{}", layer.blob.digest.hex())].clone())
            .collect()
    };
    for (path, side_by_side) in [
        (folder.file("plain.tar", &tar), true),
        // The name says nothing.
        (folder.file("zip.tar", &gzip(&tar)), false),
        (folder.file("zst", &zstd(&tar)), false),
        (folder.file("dotted.tar", &dotted_tar), true),
        (folder.0.path().join("layout"), true),
    ] {
        let archive = Archive::open(&path).unwrap();
        assert_eq!(archive.reads_side_by_side(), side_by_side);
        let image = archive.image(&reference("docker.io/demo/app:1"), &HOST()).unwrap();
        assert_eq!(image.settings.command, ["/run"]);
        let read = read(&archive, &image).unwrap();
        assert_eq!(read.blobs.len(), 2, "{}", path.display());
        for (layer, bytes) in image.layers.iter().zip(&expected) {
            assert!(read.blobs.contains(&(layer.blob.digest, bytes.clone())));
            let mut check = LayerCheck::new(1 << 20);
            check.update(bytes).unwrap();
            assert_eq!(check.finish().unwrap().diff_id, layer.diff_id);
        }
    }
}

#[test]
fn blobs_are_read_by_several_threads_at_once() {
    let mut layout = Layout::default();
    let layers: Vec<Vec<u8>> = (0..4).map(|n| tar_of(&[("x", &noise(n + 1, 600_000))])).collect();
    let image = layout.image("amd64", &layers, <[u8]>::to_vec);
    layout.list(image, Some("demo/app:1"));
    let (_folder, archive) = open(&layout.tar()).unwrap();
    let image = archive.image(&reference("demo/app:1"), &HOST()).unwrap();
    std::thread::scope(|scope| {
        for (layer, bytes) in image.layers.iter().zip(&layers) {
            let archive = &archive;
            scope.spawn(move || {
                let mut sink = Collect::default();
                assert!(archive.read(std::slice::from_ref(&layer.blob), &mut sink).is_ok());
                assert_eq!(sink.blobs, [(layer.blob.digest, bytes.clone())]);
                assert!(sink.largest <= 256 << 10, "pieces of {}", sink.largest);
            });
        }
    });
}

#[test]
fn an_image_has_its_platforms_and_its_names() {
    let mut layout = Layout::default();
    let layers = [tar_of(&[("a", b"1")])];
    let (amd, arm) = (layout.image("amd64", &layers, gzip), layout.image("arm64", &layers, gzip));
    let mut amd = amd;
    amd["platform"] = json!({"os": "linux", "architecture": "amd64"});
    let attached = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": Hasher::of(b"gone"),
        "size": 4, "platform": {"os": "unknown", "architecture": "unknown"},
        "annotations": {"vnd.docker.reference.type": "attestation-manifest"}});
    let inner = json!({"schemaVersion": 2, "manifests": [arm, amd, attached]}).to_string();
    let inner = layout.blob("application/vnd.oci.image.index.v1+json", inner.as_bytes());
    let outer = json!({"schemaVersion": 2, "manifests": [inner]}).to_string();
    let outer = layout.blob("application/vnd.oci.image.index.v1+json", outer.as_bytes());
    let digest = outer["digest"].as_str().unwrap().to_owned();
    let mut named = outer.clone();
    named["annotations"] = json!({"io.containerd.image.name": "docker.io/library/both:2",
        "org.opencontainers.image.ref.name": "2"});
    layout.list(named, None);
    layout.list(outer, Some("localhost/again:3"));
    let only_arm = layout.image("arm64", &[tar_of(&[("b", b"2")])], gzip);
    layout.list(only_arm.clone(), Some("7"));
    let (_folder, archive) = open(&layout.tar()).unwrap();
    assert_eq!(names(&archive), ["both:2", "again:3", "box:7"]);
    for name in ["both:2", "docker.io/library/both:2", "again:3", &format!("both@{digest}")] {
        let image = archive.image(&reference(name), &HOST()).unwrap();
        assert_eq!(image.platform, HOST(), "{name}");
        assert_eq!(image.manifest.digest.to_string(), amd["digest"].as_str().unwrap());
    }
    let arm_host = Platform::new("linux", "arm64", "v8");
    assert_eq!(
        archive.image(&reference("both:2"), &arm_host).unwrap().manifest.digest.to_string(),
        arm["digest"]
    );
    let error = archive.image(&reference("box:7"), &HOST()).unwrap_err().to_string();
    assert!(error.ends_with("image box:7 is for linux/arm64 only, this host is linux/amd64"), "{error}");
    let error = archive.image(&reference("both:1"), &HOST()).unwrap_err().to_string();
    assert!(error.ends_with("holds no image both:1; it holds both:2, again:3, box:7"), "{error}");
}

type Pack = fn(&[u8]) -> Vec<u8>;
type Files = Vec<(String, Vec<u8>)>;

/// A `docker save` archive with its two layers as `first` and `second` are packed.
fn docker_files(pack: [Pack; 2]) -> (Vec<Vec<u8>>, Files) {
    let plain = [tar_of(&[("a", &noise(5, 2000))]), tar_of(&[("b", b"b")])];
    let diff_ids: Vec<Digest> = plain.iter().map(|layer| Hasher::of(layer)).collect();
    let config = json!({"os": "linux", "architecture": "amd64", "config": {"Entrypoint": ["/a"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids}})
    .to_string();
    let config_name = format!("{}.json", Hasher::of(config.as_bytes()).hex());
    let manifest = json!([{"Config": config_name, "RepoTags": ["docker.io/demo/app:1", "x:2"],
        "Layers": ["l0/layer.tar", "l1/layer.tar"]}]);
    let layers: Vec<Vec<u8>> = plain.iter().zip(pack).map(|(layer, pack)| pack(layer)).collect();
    let files = vec![
        ("l0/layer.tar".to_owned(), layers[0].clone()),
        ("l1/layer.tar".to_owned(), layers[1].clone()),
        (config_name, config.into_bytes()),
        ("manifest.json".to_owned(), manifest.to_string().into_bytes()),
    ];
    (layers, files)
}

fn as_tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    tar_of(&files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect::<Vec<_>>())
}

#[test]
fn docker_save_becomes_an_image_with_a_manifest() {
    for pack in [[<[u8]>::to_vec as Pack; 2], [gzip, <[u8]>::to_vec], [zstd, gzip]] {
        let (layers, files) = docker_files(pack);
        let tar = as_tar(&files);
        let mut manifests = Vec::new();
        for bytes in [tar.clone(), gzip(&tar), zstd(&tar)] {
            let (_folder, archive) = open(&bytes).unwrap();
            assert_eq!(names(&archive), ["demo/app:1", "x:2"]);
            let image = archive.image(&reference("x:2"), &HOST()).unwrap();
            assert_eq!(image.settings.entrypoint, ["/a"]);
            let read = read(&archive, &image).unwrap();
            for (layer, bytes) in image.layers.iter().zip(&layers) {
                assert_eq!((layer.blob.digest, layer.blob.size), (Hasher::of(bytes), bytes.len() as u64));
                assert!(read.blobs.iter().any(|blob| blob.1 == *bytes));
            }
            assert_eq!(Hasher::of(&image.manifest.bytes), image.manifest.digest);
            manifests.push(image.manifest);
        }
        assert!(manifests.windows(2).all(|pair| pair[0] == pair[1]), "always the same bytes");
    }
}

#[test]
fn docker_layers_may_be_links_to_each_other() {
    let (layers, mut files) = docker_files([<[u8]>::to_vec; 2]);
    let second = files.remove(1);
    let mut bytes = as_tar(&files);
    bytes.truncate(bytes.len() - END.len());
    bytes.extend(raw(b'0', b"deep/real.tar", b"", &second.1));
    bytes.extend(raw(b'1', b"hard/layer.tar", b"deep/real.tar", b""));
    bytes.extend(raw(b'2', b"l1/layer.tar", b"../hard/./layer.tar", b""));
    bytes.extend(raw(b'2', b"out", b"../../etc/shadow", b""));
    bytes.extend(raw(b'2', b"circle", b"circle", b""));
    bytes.extend(END);
    let (_folder, archive) = open(&bytes).unwrap();
    let image = archive.image(&reference("x:2"), &HOST()).unwrap();
    assert_eq!(read(&archive, &image).unwrap().blobs.len(), 2);
    assert_eq!(image.layers[1].blob.digest, Hasher::of(&layers[1]));
    let circle = String::from_utf8(files.pop().unwrap().1).unwrap().replace("l1/layer.tar", "circle");
    files.push(("manifest.json".to_owned(), circle.into_bytes()));
    let mut bytes = as_tar(&files);
    bytes.truncate(bytes.len() - END.len());
    bytes.extend(raw(b'2', b"circle", b"circle", b""));
    let text = trouble(&bytes);
    assert!(text.contains("circle is missing"), "{text}");
}

#[test]
fn a_modern_docker_save_is_both() {
    let mut layout = demo();
    let image = layout.manifests[0].clone();
    layout.manifests[0]["annotations"] = json!({"org.opencontainers.image.ref.name": "1"});
    let manifest_file = format!("blobs/sha256/{}", &image["digest"].as_str().unwrap()[7..]);
    let manifest: serde_json::Value = serde_json::from_slice(&layout.files[&manifest_file]).unwrap();
    let path =
        |value: &serde_json::Value| format!("blobs/sha256/{}", &value["digest"].as_str().unwrap()[7..]);
    let layers: Vec<String> = manifest["layers"].as_array().unwrap().iter().map(path).collect();
    let docker = json!([{"Config": path(&manifest["config"]), "RepoTags": ["demo/app:1"], "Layers": layers}]);
    layout.files.insert("manifest.json".to_owned(), docker.to_string().into_bytes());
    let (_folder, archive) = open(&layout.tar()).unwrap();
    assert_eq!(names(&archive), ["demo/app:1"], "the names of manifest.json");
    let found = archive.image(&reference("demo/app:1"), &HOST()).unwrap();
    assert_eq!(found.manifest.digest.to_string(), image["digest"], "the manifest of index.json");
    // An index that is not whole gives way.
    layout.files.remove(&manifest_file);
    let (_folder, archive) = open(&layout.tar()).unwrap();
    let found = archive.image(&reference("demo/app:1"), &HOST()).unwrap();
    assert_ne!(found.manifest.digest.to_string(), image["digest"]);
    assert_eq!(read(&archive, &found).unwrap().blobs.len(), 2);
}

#[test]
fn c3_a_corrupt_archive_says_what_is_wrong() {
    let layout = demo();
    let (layer, manifest) = {
        let (_folder, archive) = open(&layout.tar()).unwrap();
        let image = archive.image(&reference("demo/app:1"), &HOST()).unwrap();
        let name = |digest: Digest| format!("blobs/sha256/{}", digest.hex());
        (name(image.layers[0].blob.digest), name(image.manifest.digest))
    };
    let changed = |name: &str, change: fn(&mut Vec<u8>)| {
        let mut layout = layout.clone();
        change(layout.files.get_mut(name).unwrap());
        trouble(&layout.tar())
    };
    let digest = &layer["blobs/sha256/".len()..];
    let text = changed(&layer, |bytes| bytes[100] ^= 1);
    assert!(text.contains("box.tar") && text.contains("is damaged") && text.contains(digest), "{text}");
    let text = changed(&layer, |bytes| bytes.truncate(bytes.len() - 1));
    assert!(text.contains("bytes") && text.contains("would be right"), "{text}");
    let text = changed(&manifest, |bytes| bytes[20] ^= 1);
    assert!(text.contains("is damaged"), "{text}");
    let mut missing = layout.clone();
    missing.files.remove(&layer);
    let text = trouble(&missing.tar());
    assert!(text.contains(&format!("{layer} is missing")), "{text}");
    for (bytes, expected) in [
        (Vec::new(), "no archive of images"),
        (b"hello".to_vec(), "cut short"),
        (vec![b'x'; 4096], "checksum"),
        (tar_of(&[("README", b"hello")]), "no archive of images"),
        (tar_of(&[("oci-layout", br#"{"imageLayoutVersion":"2.0"}"#), ("index.json", b"{}")]), "version"),
        (tar_of(&[("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#), ("index.json", b"[")]), "index.json"),
        (tar_of(&[("manifest.json", &vec![b' '; 5 << 20])]), "at most 4194304"),
        ([raw(b'0', b"../x", b"", b""), END.to_vec()].concat(), "holds a .. part"),
        ([raw(b'0', b"/x", b"", b""), END.to_vec()].concat(), "absolute"),
        ([raw(b'S', b"x", b"", b""), END.to_vec()].concat(), "sparse"),
        (gzip(&layout.tar())[..700].to_vec(), "compression is broken"),
        (zstd(&layout.tar())[..700].to_vec(), "compression is broken"),
    ] {
        let text = trouble(&bytes);
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn one_broken_image_does_not_hide_another() {
    let mut layout = demo();
    let other = layout.image("amd64", &[tar_of(&[("o", b"other")])], gzip);
    let manifest = format!("blobs/sha256/{}", &other["digest"].as_str().unwrap()[7..]);
    layout.list(other, Some("demo/other:1"));
    layout.files.get_mut(&manifest).unwrap()[3] ^= 1;
    let (_folder, archive) = open(&layout.tar()).unwrap();
    archive.image(&reference("demo/app:1"), &HOST()).unwrap();
    let error = archive.image(&reference("demo/other:1"), &HOST()).unwrap_err().to_string();
    assert!(error.contains("demo/other:1 cannot be used") && error.contains("is damaged"), "{error}");
}

#[test]
fn a_config_has_as_many_diff_ids_as_there_are_layers() {
    let mut layout = Layout::default();
    let config = json!({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": []}}).to_string();
    let config = layout.blob("application/vnd.oci.image.config.v1+json", config.as_bytes());
    let layer = layout.blob("application/vnd.oci.image.layer.v1.tar", &tar_of(&[]));
    let manifest = json!({"config": config, "layers": [layer]}).to_string();
    let manifest = layout.blob("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    layout.list(manifest, Some("demo/app:1"));
    let text = trouble(&layout.tar());
    assert!(text.contains("has 1 layers, but its config has 0 diff_ids"), "{text}");
}

#[test]
fn indexes_without_end_are_refused() {
    let mut layout = demo();
    let mut inner = layout.manifests.pop().unwrap();
    inner["annotations"] = json!(null);
    for _ in 0..6 {
        let index = json!({"schemaVersion": 2, "manifests": [inner]}).to_string();
        inner = layout.blob("application/vnd.oci.image.index.v1+json", index.as_bytes());
    }
    layout.list(inner, Some("demo/app:1"));
    let text = trouble(&layout.tar());
    assert!(text.contains("deeper than 4"), "{text}");
    // Wide instead of deep: 1,000 images of 1,000 each.
    let mut layout = Layout::default();
    let leaf = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": Hasher::of(b""), "size": 0});
    let wide = json!({"schemaVersion": 2, "manifests": vec![leaf; 1000]}).to_string();
    let wide = layout.blob("application/vnd.oci.image.index.v1+json", wide.as_bytes());
    layout.manifests = vec![wide; 1000];
    let text = trouble(&layout.tar());
    assert!(text.contains("more than 4096 images"), "{text}");
}

#[test]
fn a_directory_does_not_lead_out_of_itself() {
    let (folder, layout) = (Folder::new(), demo());
    for (name, bytes) in layout.all_files() {
        folder.file(&format!("layout/{name}"), &bytes);
    }
    let (path, outside) = (folder.0.path().join("layout"), folder.file("outside", b"{}"));
    fs::remove_file(path.join("index.json")).unwrap();
    std::os::unix::fs::symlink(outside, path.join("index.json")).unwrap();
    let error = Archive::open(&path).err().unwrap().to_string();
    assert!(error.contains("symbolic link"), "{error}");
}

#[test]
fn a_named_pipe_makes_nobody_wait() {
    let folder = Folder::new();
    let path = folder.0.path().join("pipe.tar");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(Archive::open(&path).is_err());
}

#[test]
fn an_archive_cut_anywhere_is_refused_or_whole() {
    let tar = demo().tar();
    let mut whole = 0;
    for length in (0..tar.len()).step_by(512) {
        let Ok((_folder, archive)) = open(&tar[..length]) else { continue };
        let image = archive.image(&reference("demo/app:1"), &HOST()).unwrap();
        assert_eq!(read(&archive, &image).unwrap().blobs.len(), 2);
        whole += 1;
    }
    // Without its end mark, and with half of it, it holds everything.
    assert_eq!(whole, 2);
}

#[test]
fn no_mutation_of_an_archive_does_harm() {
    let plain = demo().tar();
    let docker = as_tar(&docker_files([gzip, <[u8]>::to_vec]).1);
    let folder = Folder::new();
    let mut random = Random(7);
    for (round, original) in
        [&plain, &docker, &gzip(&plain), &zstd(&plain)].into_iter().cycle().take(2000).enumerate()
    {
        let mut bytes = original.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.next() as u8,
                2 => bytes.truncate(at.max(1)),
                _ => {
                    let from = random.below(bytes.len());
                    let length = random.below(600).min(bytes.len() - at.max(from));
                    bytes.copy_within(from..from + length, at);
                }
            }
        }
        let path = folder.file("box.tar", &bytes);
        let Ok(archive) = Archive::open(&path) else { continue };
        for image in archive.images() {
            let Ok(image) = archive.choose(image, &HOST()) else { continue };
            let Ok(read) = read(&archive, &image) else { continue };
            for (digest, bytes) in read.blobs {
                assert_eq!(Hasher::of(&bytes), digest, "round {round}");
            }
        }
    }
}

#[test]
fn an_artifact_is_for_each_host_and_no_program() {
    let mut layout = demo();
    let layers = [layout.titled("sub/a", b"a"), layout.titled("b", b"b")];
    let artifact = layout.artifact(&layers);
    layout.list(artifact, Some("demo/files:1"));
    // What has no name of its own does not get that of the archive.
    let other = layout.titled("signature", b"c");
    let attached = layout.artifact(&[other]);
    layout.list(attached, None);
    let (_folder, archive) = open(&layout.tar()).unwrap();
    assert_eq!(names(&archive), ["demo/app:1", "demo/files:1"]);
    let wanted = reference("demo/files:1");
    let image = archive.image(&wanted, &HOST()).unwrap();
    let files: Vec<Option<&str>> = image.layers.iter().map(|layer| layer.blob.file.as_deref()).collect();
    assert_eq!(files, [Some("sub/a"), Some("b")]);
    assert_eq!((image.platform.to_string().as_str(), image.config.bytes.len()), ("artifact", 0));
    assert_eq!(read(&archive, &image).unwrap().blobs.len(), 2);
    let refused = archive.program(&wanted, &HOST()).unwrap_err();
    assert!(
        refused
            .to_string()
            .ends_with("image demo/files:1 is an artifact, which has no program; use it as a volume")
    );
    assert!(refused.trouble.lasts());
    assert!(archive.program(&reference("demo/app:1"), &HOST()).is_ok());
}

#[test]
fn an_artifact_that_is_alone_has_the_name_of_its_archive() {
    let mut layout = Layout::default();
    let layer = layout.titled("a", b"a");
    let artifact = layout.artifact(&[layer]);
    layout.list(artifact, None);
    let (_folder, archive) = open(&layout.tar()).unwrap();
    assert_eq!(names(&archive), ["box:latest"]);
}

#[test]
fn a_layer_of_an_artifact_that_is_nothing_is_named() {
    let mut layout = Layout::default();
    let layer = layout.blob("text/x-strange", b"a");
    let artifact = layout.artifact(&[layer]);
    layout.list(artifact, Some("demo/app:1"));
    let trouble = trouble(&layout.tar());
    assert!(
        trouble.contains("asks for a layer of the type \"text/x-strange\", which is not supported"),
        "{trouble}"
    );
}
