//! How the release programs are linked: the build script of init and kelsonctl.

use std::env::var;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=../hack/link.rs");
    println!("cargo::rerun-if-changed=../hack/no-unwind.ld");
    let (Ok(out), Ok(package), Ok("release")) =
        (var("OUT_DIR"), var("CARGO_PKG_NAME"), var("PROFILE").as_deref())
    else {
        return;
    };
    let argument = |text: &str| println!("cargo::rustc-link-arg-bins=-Wl,{text}");
    // Nothing unwinds there, and a crash's backtrace follows the frame pointers.
    argument(&format!("-T,{}/../hack/no-unwind.ld", env!("CARGO_MANIFEST_DIR")));
    // Functions with the same instructions are one.
    argument("--icf=all");
    // Which crate takes how much of the program, for `make costs`: beside it, from target/…/release/build/PACKAGE/out.
    if let Some(folder) = Path::new(&out).ancestors().nth(3) {
        let name = package.strip_prefix("kelson-").unwrap_or(&package);
        argument(&format!("-Map={}", folder.join(format!("{name}.map")).display()));
    }
}
