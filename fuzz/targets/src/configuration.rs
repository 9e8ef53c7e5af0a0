//! The files that `kelson-load` reads, and the message that it hands to PID 1.

use std::cell::OnceCell;
use std::fs;

use kelson_load::{Mode, Sources, load_with, written};
use kelson_spec::{Graph, Loaded, wire};

use crate::input;
use crate::place::{self, Place};

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// Files of one configuration; all lie in a folder of its own, in which nothing else is.
fn read(files: &[(&str, &[u8])]) -> Loaded {
    place::with(&FOLDER, |folder| {
        let config = folder.path().join("config");
        let _ = fs::remove_dir_all(&config);
        let _ = fs::remove_dir_all(folder.path().join("root"));
        fs::create_dir_all(config.join("services")).expect("a folder for services");
        for (name, bytes) in files {
            folder.write(name, bytes);
        }
        let mode = if files.len().is_multiple_of(2) { Mode::Container } else { Mode::Machine };
        load_with(&config, &Sources { root: Some(folder.path().join("root")), mode, ..Sources::default() })
    })
}

/// Checks the laws that hold for every reading, whatever the input was.
fn check(loaded: &Loaded) {
    for diagnostic in &loaded.diagnostics {
        let text = diagnostic.to_string();
        assert!(!text.contains("parser failed"), "the YAML parser fell over it");
        assert!(text.len() < 4096, "{text}");
        assert!(diagnostic.line == 0 || diagnostic.column > 0, "{text}");
        assert!(!diagnostic.message.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
    let faulty = loaded.faulty();
    for spec in &loaded.services {
        assert!(!faulty.contains(&spec.name.as_str()), "{} is sound and faulty", spec.name);
    }
    let graph = Graph::new(&loaded.services);
    let mut ordered: Vec<&str> = graph.stop_order().into_iter().flatten().collect();
    ordered.sort_unstable();
    assert!(ordered.windows(2).all(|pair| pair[0] != pair[1]), "none is stopped twice");
    for spec in &loaded.services {
        assert!(ordered.binary_search(&spec.name.as_str()).is_ok(), "{} is stopped", spec.name);
        let _ = graph.dependants(&spec.name);
    }
    let bytes = wire::encode(loaded).expect("it can be handed over");
    assert_eq!(&wire::decode::<Loaded>(&bytes).expect("it can be taken over"), loaded);
}

/// `services/web.yaml`.
pub fn service_file(data: &[u8]) {
    let loaded = read(&[("config/services/web.yaml", data), ("root/etc/web.env", b"A=1\n"), PASSWD]);
    check(&loaded);
    // The output of `kelsonctl status` is a service file with the same meaning.
    let Some(spec) = loaded.services.first() else { return };
    let text = written(spec).file();
    let again = read(&[("config/services/web.yaml", text.as_bytes()), PASSWD, ("root/etc/none", b"")]);
    assert_eq!(again.diagnostics, [], "{text}");
    assert_eq!(again.services, loaded.services, "{text}");
}

const PASSWD: (&str, &[u8]) =
    ("root/etc/passwd", b"root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:\n");

/// `machine.yaml`.
pub fn machine_file(data: &[u8]) {
    check(&read(&[("config/machine.yaml", data)]));
}

/// Several files, each after a line `=== NAME`: `config/machine.yaml`, `config/services/….yaml`, and what these refer to
/// below `root/`.
pub fn folder(data: &[u8]) {
    const MOST: usize = 12;
    let mut files = input::files(data, "config/services/web.yaml");
    files.truncate(MOST);
    files.retain(|(name, _)| {
        let parts = || name.split('/');
        let plain = |part: &str| {
            (1..64).contains(&part.len())
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        matches!(parts().next(), Some("config" | "root"))
            && (2..5).contains(&parts().count())
            && parts().all(|part| plain(part) && part != "." && part != "..")
    });
    // A name that is a file here and a folder there cannot be written.
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    files.retain(|(name, _)| {
        !names.iter().any(|other| {
            let (short, long) = if other.len() < name.len() { (*other, *name) } else { (*name, *other) };
            short == "config/services"
                || short == "config"
                || long.strip_prefix(short).is_some_and(|r| r.starts_with('/'))
        })
    });
    check(&read(&files));
}

/// The bytes that PID 1 takes over from `kelson-load`.
pub fn wire(data: &[u8]) {
    let Ok(loaded) = wire::decode::<Loaded>(data) else { return };
    let graph = Graph::new(&loaded.services);
    let _ = graph.stop_order();
    for spec in &loaded.services {
        let _ = graph.dependants(&spec.name);
        let _ = written(spec).file();
    }
    for diagnostic in &loaded.diagnostics {
        let _ = diagnostic.to_string();
    }
    let bytes = wire::encode(&loaded).expect("it can be handed over");
    assert_eq!(wire::decode::<Loaded>(&bytes).expect("it can be taken over"), loaded);
}
