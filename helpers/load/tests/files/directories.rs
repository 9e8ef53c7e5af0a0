//! `directories`: read, named to the service in variables, and refused where they cannot be.
use crate::folder::Folder;
use kelson_load::written;
use kelson_spec::service::{Directories, Directory, DirectoryKind, Preserve};

fn folder(text: &str) -> Folder {
    Folder::of("shop", text)
}

const PROCESS: &str = "process: {command: [/bin/shop]}\n";

#[test]
fn they_are_read_and_their_variables_with_them() {
    let folder = folder(&format!(
        "{PROCESS}environment: {{LANG: C, CACHE_DIRECTORY: /mine}}\n\
         directories: {{state: [shop, {{path: shop/spool, mode: '2750'}}], runtime: [shop], cache: [shop], preserve: restart}}\n"
    ));
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let spec = &loaded.services[0];
    let directory = |kind, path: &str, mode| Directory { kind, path: path.into(), mode };
    let list = vec![
        directory(DirectoryKind::Runtime, "shop", 0o755),
        directory(DirectoryKind::State, "shop", 0o755),
        directory(DirectoryKind::State, "shop/spool", 0o2750),
        directory(DirectoryKind::Cache, "shop", 0o755),
    ];
    assert_eq!(spec.directories, Directories { list, preserve: Preserve::Restart });
    let mut variables: Vec<String> =
        spec.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    variables.sort();
    let expected = [
        "CACHE_DIRECTORY=/mine",
        "LANG=C",
        "RUNTIME_DIRECTORY=/run/shop",
        "STATE_DIRECTORY=/var/lib/shop:/var/lib/shop/spool",
    ];
    assert_eq!(variables, expected);
    let before = loaded.services.clone();
    folder.service("shop", written(spec).file());
    assert_eq!(folder.load().services, before);
}

#[test]
fn what_is_no_path_of_names_is_refused() {
    for wrong in ["/shop", "../shop", "shop/..", "shop/", "a//b", "a:b", "kelson", "kelson/state", "."] {
        let loaded = folder(&format!("{PROCESS}directories: {{state: ['{wrong}']}}\n")).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        let expected = format!(
            "directories.state[0]: \"{wrong}\" is not a path of names such as shop/spool; a name is not .., has no :, and kelson is taken"
        );
        assert_eq!(found, [expected]);
    }
}

#[test]
fn who_cannot_have_them_is_told_why() {
    for (text, why) in [
        (
            "container: {image: a}\ndirectories: {runtime: [shop]}\n",
            "directories: a container sees folders of the host by container.mounts; leave it out",
        ),
        (
            "target: {}\ndirectories: {runtime: [shop]}\n",
            "directories: a target runs no program, so directories means nothing; leave it out",
        ),
    ] {
        let loaded = folder(text).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        assert_eq!(found, [why]);
    }
}
