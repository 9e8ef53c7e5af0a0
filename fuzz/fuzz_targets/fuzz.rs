//! libFuzzer's way into the targets: `KELSON_FUZZ` names the one that this process is for. Without it, all are listed.
#![no_main]

use std::sync::OnceLock;

use kelson_fuzz_targets::{TARGETS, Target, find};
use libfuzzer_sys::fuzz_target;

static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

fn choose() {
    let name = std::env::var("KELSON_FUZZ").unwrap_or_default();
    match find(&name) {
        Some(target) => drop(CHOSEN.set(target)),
        None if name.is_empty() => {
            for target in TARGETS {
                println!("{} {} {}", target.name, target.longest, target.dictionary.unwrap_or("-"));
            }
            std::process::exit(0);
        }
        None => {
            eprintln!("KELSON_FUZZ={name}: there is no such target; without it all are listed");
            std::process::exit(2);
        }
    }
}

fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some(target) = CHOSEN.get() {
        (target.run)(data);
    }
});
