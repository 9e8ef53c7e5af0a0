//! The page of the documents is the one that the table makes now.

use std::path::Path;

#[test]
fn the_page_of_keys_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from/systemd-keys.md");
    let page = kelson_import::page::keys();
    if std::env::var_os("KELSON_RENEW").is_some() {
        return std::fs::write(path, page).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == page, "docs/coming-from/systemd-keys.md is old: hack/docs --renew");
}
