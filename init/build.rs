//! Has the linker of a release write `init.map` beside the program: which crate takes how much of it, for `make costs`.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    // target/…/release/build/kelson-init-…/out
    if let (Ok("release"), Some(folder)) = (std::env::var("PROFILE").as_deref(), out.ancestors().nth(3)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-Map={}", folder.join("init.map").display());
    }
}
