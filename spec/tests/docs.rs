//! What the documents show is what the parser takes: the blocks of YAML that begin with `# services/NAME.yaml` or
//! `# machine.yaml` are whole files, and those of one document are a configuration folder without a mistake.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at its first surprise")]

mod folder;

use std::path::Path;

use folder::Folder;

/// Lays the files of a document into a folder; how many there are.
fn lay_out(folder: &Folder, document: &str) -> usize {
    let blocks = document.split("```yaml\n").skip(1);
    let texts = blocks.map(|block| block.split_once("```").expect("each block has an end").0);
    let is_file = |text: &&str| {
        let Some(name) = text.lines().next().and_then(|line| line.strip_prefix("# ")) else { return false };
        match name.strip_prefix("services/").and_then(|name| name.strip_suffix(".yaml")) {
            Some(service) => folder.service(service, text),
            None if name == "machine.yaml" => folder.machine(text),
            None => return false,
        }
        true
    };
    texts.filter(is_file).count()
}

#[track_caller]
fn assert_sound(name: &str, least: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let document = std::fs::read_to_string(&path).unwrap();
    let folder = Folder::new();
    folder.root_file(
        "etc/passwd",
        "redis:x:100:100::/var/lib/redis:/bin/false\nwww-data:x:33:33::/:/bin/false\n",
    );
    folder.root_file("etc/group", "redis:x:100:\nwww-data:x:33:\n");
    let count = lay_out(&folder, &document);
    assert!(count >= least, "{name}: only {count} whole files are marked");
    assert_eq!(folder.messages(), Vec::<String>::new(), "{name}");
}

#[test]
fn the_service_file() {
    assert_sound("docs/service-file.md", 4);
}

#[test]
fn the_machine_file() {
    assert_sound("docs/machine-file.md", 1);
}

#[test]
fn the_readme() {
    assert_sound("README.md", 2);
}

#[test]
fn a_mistake_in_a_block_is_seen() {
    let folder = Folder::new();
    let text = "```yaml\n# services/a.yaml\nname: a\nproces: {}\n```\n```yaml\nnot: a file\n```\n";
    assert_eq!(lay_out(&folder, text), 1);
    assert!(folder.messages().iter().any(|message| message.contains("did you mean process?")));
}
