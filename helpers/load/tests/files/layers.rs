//! What the sources of the machine file gave, laid over the configuration folder.

use std::fs;
use std::path::PathBuf;

use kelson_load::{Sources, load_with};
use kelson_spec::Loaded;
use kelson_spec::sources::SourceKind;

use crate::folder::Folder;

/// A configuration folder, and files of its sources.
struct Host(Folder);

impl Host {
    fn new(machine: &str) -> Host {
        let folder = Folder::new();
        folder.machine(machine);
        folder.service("web", "name: web\nprocess: {command: [/bin/web]}\n");
        folder.service("db", "name: db\nprocess: {command: [/bin/db]}\n");
        Host(folder)
    }

    fn layers(&self) -> PathBuf {
        self.0.config().with_file_name("sources")
    }

    fn gives(&self, kind: SourceKind, name: &str, text: &str) {
        let path = self.layers().join(kind.name()).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn load(&self) -> Loaded {
        let sources = Sources { root: None, layers: Some(self.layers()), ..Sources::default() };
        load_with(&self.0.config(), &sources)
    }

    /// The messages of mistakes and of warnings.
    fn said(loaded: &Loaded) -> (Vec<String>, Vec<String>) {
        let text = |found: &kelson_spec::Diagnostic| {
            let file = found.file.file_name().unwrap_or_default().to_string_lossy();
            format!("{file}:{}: {}", found.line, found.message)
        };
        (loaded.diagnostics.iter().map(text).collect(), loaded.warnings.iter().map(text).collect())
    }
}

fn commands(loaded: &Loaded) -> Vec<String> {
    let command = |spec: &kelson_spec::ServiceSpec| format!("{} {}", spec.name, spec.file.display());
    let ends =
        |text: String| text.rsplit_once("/sources/").map_or("config".to_owned(), |(_, end)| end.to_owned());
    loaded.services.iter().map(command).map(ends).collect()
}

const ALL: &str = "sources: {from: [commandLine, credentials, disk]}\n";

#[test]
fn a_key_and_a_file_of_a_later_source_replace_those_before() {
    let host = Host::new(&format!(
        "{ALL}hostname: image\nmodules: [a]\nhealth: {{minimum: 1s, deadline: 9s}}\nmain: web\nbuiltins: {{devlog: {{enabled: true}}}}\n"
    ));
    host.gives(SourceKind::Disk, "machine.yaml", "hostname: disk\nmodules: [b]\nhealth: {minimum: 2s}\n");
    host.gives(
        SourceKind::Disk,
        "services/web.yaml",
        "name: web\nprocess: {command: [/bin/other]}\ndepends: [{service: db}]\n",
    );
    host.gives(
        SourceKind::Disk,
        "services/more.yaml",
        "name: more\nprocess: {command: [/bin/more]}\ngroup: shop\n",
    );
    host.gives(SourceKind::Disk, "groups/shop.yaml", "minimum: 3s\n");
    host.gives(SourceKind::Credentials, "machine.yaml", "hostname: credentials\nmain: more\n");
    host.gives(SourceKind::CommandLine, "machine.yaml", "shutdown:\n  timeout: 5s\n");
    let loaded = host.load();
    assert_eq!(Host::said(&loaded), (vec![], vec![]));
    let machine = &loaded.machine;
    assert_eq!(machine.hostname.as_deref(), Some("credentials"));
    assert_eq!((machine.modules.as_slice(), machine.main.as_deref()), (&["b".to_owned()][..], Some("more")));
    // A key is replaced with all that is in it: the deadline is that of a host whose file says nothing of it.
    assert_eq!((machine.health.minimum.as_secs(), machine.health.deadline.as_secs()), (2, 300));
    assert_eq!((machine.shutdown_timeout.as_secs(), machine.builtins.len()), (5, 1));
    assert_eq!(commands(&loaded), ["config", "disk/services/more.yaml", "disk/services/web.yaml"]);
    assert_eq!(loaded.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["shop"]);
}

#[test]
fn sources_that_the_machine_file_does_not_name_are_not_read() {
    let host = Host::new("sources: {from: [disk]}\nhostname: image\n");
    host.gives(SourceKind::CommandLine, "machine.yaml", "hostname: line\n");
    assert_eq!(host.load().machine.hostname.as_deref(), Some("image"));
    let host = Host::new("hostname: image\n");
    host.gives(SourceKind::Disk, "machine.yaml", "hostname: disk\n");
    assert_eq!(host.load().machine.hostname.as_deref(), Some("image"));
}

#[test]
fn a_source_with_a_mistake_is_skipped_as_a_whole() {
    let host = Host::new(&format!("{ALL}hostname: image\n"));
    host.gives(SourceKind::Disk, "machine.yaml", "hostname: disk\n\nmodules: 7\n");
    host.gives(SourceKind::Disk, "services/web.yaml", "name: web\nprocess: {command: [/bin/other]}\nx: y\n");
    host.gives(SourceKind::Credentials, "machine.yaml", "modules: [c]\nsources: {from: [disk]}\n");
    host.gives(SourceKind::CommandLine, "machine.yaml", "modules: [line]\n");
    let loaded = host.load();
    assert_eq!(loaded.machine.hostname.as_deref(), Some("image"));
    assert_eq!(loaded.machine.modules, ["line"]);
    assert_eq!(loaded.skipped, [SourceKind::Disk, SourceKind::Credentials]);
    assert_eq!(commands(&loaded), ["config", "config"]);
    let (mistakes, warnings) = Host::said(&loaded);
    // The files of the image have none, so that a reload takes them up.
    assert_eq!(mistakes, Vec::<String>::new());
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert_eq!(
        warnings[0],
        "machine.yaml:2: sources: a source cannot name sources; name them in the image; the source credentials is skipped as a whole"
    );
    assert!(
        warnings[1].starts_with("machine.yaml:3: modules: ") && warnings[2].starts_with("web.yaml:3: x: ")
    );
    assert!(loaded.warnings.iter().all(|warning| warning.service.is_none()));
}

#[test]
fn a_file_of_a_source_takes_the_place_of_one_with_a_mistake() {
    let host = Host::new(ALL);
    host.0.service("web", "name: web\nproces: {}\n");
    host.0.group("shop", "x: y\n");
    assert_eq!(host.load().faulty(), ["web"]);
    host.gives(
        SourceKind::Disk,
        "services/web.yaml",
        "name: web\nprocess: {command: [/bin/web]}\ngroup: shop\n",
    );
    host.gives(SourceKind::Disk, "groups/shop.yaml", "minimum: 3s\n");
    let loaded = host.load();
    assert_eq!((Host::said(&loaded), loaded.services.len()), ((vec![], vec![]), 2));
    // What a source says of other services is checked as anywhere else.
    host.gives(
        SourceKind::Disk,
        "services/db.yaml",
        "name: db\nprocess: {command: [/bin/db]}\ndepends: [{service: nobody}]\n",
    );
    let loaded = host.load();
    assert_eq!((loaded.faulty(), loaded.skipped.len()), (vec!["db"], 0));
    let mistake = &loaded.diagnostics[0];
    assert!(mistake.file.ends_with("sources/disk/services/db.yaml") && mistake.line == 3, "{mistake}");
}
