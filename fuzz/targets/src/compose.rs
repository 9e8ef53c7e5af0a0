//! Files of Docker Compose, and the service files that they become.

use std::path::Path;

use kelson_import::compose::{File, project};
use kelson_spec::names::is_name;

/// A compose file, of which variables are lines before a line `===`.
pub fn file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (variables, text) = text.split_once("===\n").unwrap_or(("", &text));
    let (variables, _) = kelson_load::environment_file(variables);
    let file = File {
        name: "compose.yaml",
        text,
        folder: Path::new("/srv/shop"),
        project: "shop",
        variables: &variables,
    };
    let done = match project(&file) {
        Ok(done) => done,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for service in done.services {
        assert!(is_name(&service.name), "{}", service.name);
        assert!(
            service.file.file().starts_with(&format!("name: {}", service.name)),
            "{}",
            service.file.file()
        );
        service.findings.iter().for_each(|finding| assert!(!finding.sentence.is_empty(), "{finding:?}"));
    }
}
