//! The files of volumes, as the helper `kelson-volumes` reads them, and as a part of the configuration folder.

use std::fs;
use std::path::Path;

use kelson_load::volumes::read;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_file_has_a_default_for_all_but_its_plugin() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "volumes/data.yaml", "plugin: nfs\n");
    let volume = read("data", dir.path(), None).unwrap();
    assert_eq!((&*volume.name, &*volume.plugin, &*volume.id), ("data", "nfs", "data"));
    assert_eq!((&*volume.fs_type, volume.mount_flags.len(), volume.context.0.len()), ("", 0, 0));
    let full = "name: data\nplugin: nfs\nid: vol-17\nfsType: ext4\nmountFlags: [noatime, discard]\n\
                context: {server: 192.0.2.7, share: '', number: 7}\n\
                secrets: {user: {secret: nas-user}, password: {secret: nas}}\n";
    write(dir.path(), "volumes/data.yaml", full);
    let volume = read("data", dir.path(), None).unwrap();
    assert_eq!((&*volume.id, &*volume.fs_type), ("vol-17", "ext4"));
    assert_eq!(volume.mount_flags, ["noatime", "discard"]);
    let entries: Vec<(&str, &str)> = volume.context.0.iter().map(|(key, text)| (&**key, &**text)).collect();
    assert_eq!(entries, [("number", "7"), ("server", "192.0.2.7"), ("share", "")]);
    let secrets: Vec<(&str, &str)> = volume.secrets.iter().map(|(key, name)| (&**key, &**name)).collect();
    assert_eq!(secrets, [("password", "nas"), ("user", "nas-user")]);
}

#[test]
fn a_file_that_is_missing_or_faulty_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let error = |name: &str| read(name, dir.path(), None).unwrap_err();
    let text = format!(
        "there is no volume data: {}/volumes/data.yaml does not exist; write that file",
        dir.path().display()
    );
    assert_eq!(error("data"), text);
    assert_eq!(error("../data"), "\"../data\" is not the name of a volume; use a-z, 0-9 and -");
    write(dir.path(), "volumes/data.yaml", "plugin: NFS\nsize: 3\n");
    let found = error("data");
    assert!(found.contains("/volumes/data.yaml:1:9: plugin: \"NFS\" is not a name;"), "{found}");
    assert!(found.contains("; ") && found.contains("volumes/data.yaml:2:1: size: "), "{found}");
}

#[test]
fn no_message_has_a_text_of_the_context() {
    let dir = tempfile::tempdir().unwrap();
    let faults = [
        "context: hunter2\n",
        "context: [hunter2]\n",
        "context: {password: [hunter2]}\n",
        "context: {password: {text: hunter2}}\n",
        "context: {password: hunter2, password: hunter2}\n",
        "context: {password: \"hunter2\\0\"}\n",
        "context: {password: hunter2, user: }\n",
        "context:\n  password: hunter2\n user: hunter2\n",
        "context: {password: \"hunter2}\n",
        "context: {password: *hunter2x}\n",
        "contxt: {password: hunter2}\n",
        "secrets: {password: hunter2}\n",
        "secrets: [hunter2]\n",
        "secrets: {password: [hunter2]}\n",
        "secrets: {password: {}, other: {value: hunter2}}\n",
    ];
    for fault in faults {
        write(dir.path(), "volumes/data.yaml", &format!("plugin: nfs\n{fault}"));
        let error = read("data", dir.path(), None).unwrap_err();
        assert!(!error.contains("hunter2"), "{fault}: {error}");
    }
    let long = format!("plugin: nfs\ncontext: {{password: {}}}\n", "hunter2".repeat(600));
    write(dir.path(), "volumes/data.yaml", &long);
    let error = read("data", dir.path(), None).unwrap_err();
    assert!(error.ends_with("context: these texts have 4208 bytes; they may have 4096"), "{error}");
}

#[test]
fn the_last_sound_source_that_has_the_file_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (config, layers) = (dir.path().join("config"), dir.path().join("sources"));
    let plugin = || read("data", &config, Some(&layers)).map(|volume| volume.plugin);
    write(&config, "volumes/data.yaml", "plugin: image\n");
    write(&layers, "disk/volumes/data.yaml", "plugin: disk\n");
    assert_eq!(plugin().unwrap(), "image", "the machine file names no source");
    write(&config, "machine.yaml", "sources: {from: [disk, noCloud]}\n");
    assert_eq!(plugin().unwrap(), "disk");
    assert_eq!(read("data", &config, None).unwrap().plugin, "image");
    write(&layers, "noCloud/volumes/other.yaml", "plugin: seed\n");
    assert_eq!(plugin().unwrap(), "disk");
    write(&layers, "noCloud/volumes/data.yaml", "plugin: seed\n");
    assert_eq!(plugin().unwrap(), "seed");
    write(&layers, "noCloud/services/web.yaml", "proces: {}\n");
    assert_eq!(plugin().unwrap(), "disk", "a layer with a mistake is left out as a whole");
    fs::remove_file(config.join("volumes/data.yaml")).unwrap();
    assert_eq!(plugin().unwrap(), "disk");
}
