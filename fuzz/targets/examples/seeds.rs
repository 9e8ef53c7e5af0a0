//! Writes what each target's corpus began with: `cargo run -p kelson-fuzz-targets --example seeds -- FOLDER`.
//!
//! Most of it is what the parts of Kelson write themselves, so after a change of a format it is written anew.

#[path = "seeds/archives.rs"]
mod archives;
#[path = "seeds/messages.rs"]
mod messages;
#[path = "seeds/records.rs"]
mod records;
#[path = "seeds/texts.rs"]
mod texts;

use std::path::PathBuf;

/// Target, name, bytes.
type Seeds = Vec<(&'static str, String, Vec<u8>)>;

fn main() {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("name a folder"));
    let mut seeds = texts::seeds();
    seeds.extend(archives::seeds());
    seeds.extend(messages::seeds());
    seeds.extend(records::seeds());
    for (target, name, bytes) in seeds {
        let found = kelson_fuzz_targets::find(target).unwrap_or_else(|| panic!("{target} is no target"));
        assert!(bytes.len() <= found.longest, "{target}/{name} has {} bytes", bytes.len());
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(name), bytes).expect("a file");
    }
}

/// A piece as [`Input::piece`] takes it: its length in two bytes, and itself.
fn piece(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("a seed is short");
    [&length.to_le_bytes()[..], bytes].concat()
}
