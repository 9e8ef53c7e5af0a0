//! The pages of the documents are those that the tables make now.

#![allow(clippy::unwrap_used)]

use std::path::Path;

fn is_new(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from").join(name);
    if std::env::var_os("KELSON_RENEW").is_some() {
        return std::fs::write(path, page).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == page, "docs/coming-from/{name} is old: hack/docs --renew");
}

#[test]
fn the_pages_of_keys_are_those_of_the_tables() {
    is_new("systemd-keys.md", &kelson_import::page::keys());
    is_new("compose-keys.md", &kelson_import::page::compose_keys());
    is_new("talos-keys.md", &kelson_import::page::talos_keys());
}
