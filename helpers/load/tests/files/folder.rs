//! A configuration folder and the root of a host beside it, gone when the test ends.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use kelson_load::{Mode, Sources, load_with};
use kelson_spec::Loaded;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The program of the host.
const CONTAINERD: &str = "usr/bin/containerd";

pub struct Folder {
    root: PathBuf,
}

impl Folder {
    pub fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("kelson-spec-{}-{number}", std::process::id()));
        fs::create_dir_all(root.join("config/services")).unwrap();
        let folder = Folder { root };
        folder.root_file(CONTAINERD, "");
        folder
    }

    /// One with a single service; this stands after the name in its file.
    pub fn of(name: &str, text: &str) -> Self {
        let folder = Folder::new();
        folder.service(name, format!("name: {name}\n{text}"));
        folder
    }

    /// A host whose image has no containerd.
    pub fn without_containerd(self) -> Self {
        fs::remove_file(self.root.join("root").join(CONTAINERD)).unwrap();
        self
    }

    pub fn config(&self) -> PathBuf {
        self.root.join("config")
    }

    pub fn services(&self) -> PathBuf {
        self.root.join("config/services")
    }

    pub fn service(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.services().join(format!("{name}.yaml")), content).unwrap();
    }

    pub fn group(&self, name: &str, content: &str) {
        let folder = self.config().join("groups");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.yaml")), content).unwrap();
    }

    pub fn volume(&self, name: &str, content: &str) {
        let folder = self.config().join("volumes");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.yaml")), content).unwrap();
    }

    /// A volume of a plugin, and the service that provides it.
    pub fn with_plugin(self, volume: &str, plugin: &str) -> Self {
        self.volume(volume, &format!("plugin: {plugin}\n"));
        let provides = format!("provides: {{csi: {{id: {plugin}}}}}");
        self.service(plugin, format!("name: {plugin}\nprocess: {{command: [/bin/{plugin}]}}\n{provides}\n"));
        self
    }

    pub fn machine(&self, content: &str) {
        fs::write(self.config().join("machine.yaml"), content).unwrap();
    }

    /// A file of the host that specs refer to.
    pub fn root_file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn load(&self) -> Loaded {
        self.load_for(Mode::Machine)
    }

    pub fn load_for(&self, mode: Mode) -> Loaded {
        load_with(&self.config(), &Sources { root: Some(self.root.join("root")), mode, ..Sources::default() })
    }

    /// Each diagnostic as `FILE:LINE:COLUMN: MESSAGE`, paths below the configuration folder or the host's root.
    pub fn messages(&self) -> Vec<String> {
        let short = |path: &Path| path.strip_prefix(self.config()).unwrap_or(path).display().to_string();
        self.load()
            .diagnostics
            .into_iter()
            .map(|mut diagnostic| {
                diagnostic.file = short(&diagnostic.file).into();
                diagnostic.to_string()
            })
            .collect()
    }
}

/// Compares all cases of a table and says which are wrong; how many there are. A case is the text of a file, and below it,
/// behind `=> `, what `said` must say of that. An empty line ends it; `## ` begins a heading. `␉` is a tab, and `␀` a NUL.
#[track_caller]
pub fn each_case(table: &str, said: impl Fn(&str) -> Vec<String>) -> usize {
    let (mut wrong, mut count) = (String::new(), 0);
    for case in table.trim().split("\n\n") {
        let lines = case.lines().filter(|line| !line.starts_with("## "));
        let (expected, text): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("=> "));
        let text = text.join("\n").replace('␉', "\t").replace('␀', "\0") + "\n";
        let expected: Vec<&str> = expected.iter().filter_map(|line| line.strip_prefix("=> ")).collect();
        let found = said(&text);
        assert!(!expected.is_empty(), "nothing is expected of {text}");
        if found != expected {
            wrong += &format!("{text}  expected {expected:#?}\n  found {found:#?}\n");
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    count
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
