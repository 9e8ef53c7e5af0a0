//! The parser accepts the examples of the documents: the blocks of YAML that begin with `#
//! services/NAME.yaml` or `# machine.yaml` are whole files, and those of one page are a configuration folder
//! without a mistake.
use std::path::{Path, PathBuf};

use crate::folder::Folder;

/// The blocks of YAML of a document, also those that are set in below an item of a list.
fn blocks(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let Some(indent) = line.strip_suffix("```yaml") else { continue };
        let inner = lines.by_ref().take_while(|line| line.trim() != "```");
        found.push(inner.map(|line| line.strip_prefix(indent).unwrap_or(line).to_owned() + "\n").collect());
    }
    found
}

/// Lays the files of a document into a folder; how many there are. A file that stands there twice is as it is in the end.
fn lay_out(folder: &Folder, document: &str) -> usize {
    let is_file = |text: &String| {
        let Some(path) = text.lines().next().and_then(|line| line.strip_prefix("# ")) else { return false };
        let prefixes = ["tutorial/config/", "/etc/kelson/"];
        let path = prefixes.iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(path);
        let named = |folder: &str| path.strip_prefix(folder)?.strip_suffix(".yaml");
        match named("services/") {
            Some(service) => folder.service(service, text),
            None if path.starts_with("groups/") => folder.group(named("groups/").unwrap(), text),
            None if path.starts_with("volumes/") => folder.volume(named("volumes/").unwrap(), text),
            None if path == "machine.yaml" => folder.machine(text),
            None => return false,
        }
        true
    };
    blocks(document).iter().filter(|text| is_file(text)).count()
}

/// The pages of a folder and of those in it.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
}

#[test]
fn every_page() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = vec![top.join("README.md")];
    pages(&top.join("docs"), &mut all);
    let mut files = 0;
    for path in all {
        let folder = Folder::new();
        folder.root_file(
            "etc/passwd",
            "redis:x:100:100::/var/lib/redis:/bin/false\nwww-data:x:33:33:::\nnobody:x:65534:65534:::\n\
             fleet-issuer:x:104:106:::\npostgres:x:103:105:::\nmemcache:x:101:102:::\n",
        );
        folder.root_file(
            "etc/group",
            "redis:x:100:\nwww-data:x:33:\nnogroup:x:65534:\ndialout:x:20:\nkvm:x:106:\n",
        );
        files += lay_out(&folder, &std::fs::read_to_string(&path).unwrap());
        assert_eq!(folder.messages(), Vec::<String>::new(), "{}", path.display());
    }
    assert!(files > 35, "only {files} whole files are marked");
}

#[test]
fn a_mistake_in_a_block_is_seen() {
    let folder = Folder::new();
    let text = "1. x\n   ```yaml\n   # services/a.yaml\n   name: a\n   proces: {}\n   ```\n```yaml\nnot: a file\n```\n";
    assert_eq!(lay_out(&folder, text), 1);
    assert!(folder.messages().iter().any(|message| message.contains("did you mean process?")));
}
