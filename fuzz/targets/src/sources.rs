//! What the sources of the configuration give: the hypervisor, the boot loader, a disk.

use kelson_load::name_mistake;
use kelson_sources::{command_line, credentials, metadata, no_cloud, smbios};
use kelson_spec::applied::TreeFile;

/// Files have names of a configuration, and are not much larger than what they were read from.
fn check(files: &[TreeFile], from: usize) {
    for file in files {
        assert_eq!(name_mistake(&file.name), None);
        assert!(file.content.len() <= from.saturating_mul(3).saturating_add(512), "{}", file.content.len());
    }
}

/// The tables of SMBIOS, and the credentials in them.
pub fn tables(data: &[u8]) {
    let strings = smbios::strings(data);
    let size: usize = strings.iter().map(|text| text.len()).sum();
    assert!(size <= data.len());
    let found = strings.into_iter().filter_map(|text| credentials::from_smbios(text).transpose());
    if let Ok((files, secrets)) = found.collect::<Result<Vec<_>, _>>().and_then(credentials::sort) {
        assert!(secrets.iter().map(|secret| secret.value.len()).sum::<usize>() <= data.len());
        check(&files, data.len());
    }
}

/// The meta data of NoCloud, a NUL, and its user data.
pub fn seed(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (meta_data, user_data) = data.split_at(end);
    if let Ok(seed) = no_cloud::parse(meta_data, user_data.get(1..).unwrap_or_default()) {
        assert!(!seed.instance.is_empty() && !seed.instance.contains(char::is_control));
        check(&seed.files, data.len());
    }
}

/// An answer of the server of metadata.
pub fn answer(data: &[u8]) {
    if let Ok(answer) = metadata::parse(data) {
        assert!((0..=999).contains(&answer.status) && answer.body.len() < data.len());
    }
}

/// Words `kelson.machine.KEY=VALUE`: each is one line of the file at most, in a mapping of its keys.
pub fn machine_words(data: &[u8]) {
    let line = String::from_utf8_lossy(data);
    if let Ok(Some(file)) = command_line::file(&line) {
        assert_eq!(name_mistake(&file.name), None);
        let text = String::from_utf8(file.content).expect("the line was UTF-8");
        assert!(text.lines().all(|line| line.trim_start().split_once(':').is_some()), "{text}");
    }
}
