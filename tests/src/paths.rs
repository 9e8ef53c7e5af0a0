//! Where the binaries and the outputs are.

use std::path::{Path, PathBuf};

/// A program: `init` and `kelsonctl` from `KELSON_BIN_DIR`; without it, and programs of the tests, beside the running one.
#[track_caller]
pub fn binary(name: &str) -> PathBuf {
    let shipped = std::env::var_os("KELSON_BIN_DIR").filter(|_| matches!(name, "init" | "kelsonctl"));
    let path = shipped.map_or_else(programs, PathBuf::from).join(name);
    assert!(
        path.exists(),
        "{} is missing: build it with `cargo build`, or name the folder of the binaries in KELSON_BIN_DIR",
        path.display()
    );
    path
}

/// The folder that cargo puts programs in: that of this one, or above it (`deps/scenarios-0123456789abcdef`).
fn programs() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows its own path");
    let folder = program.parent().expect("a program is in a folder");
    if folder.ends_with("deps") {
        folder.parent().expect("deps is in a folder").into()
    } else {
        folder.into()
    }
}

/// A binary that crashes on demand (`kelsonctl fault`): `hack/faults` builds it.
#[track_caller]
pub fn faulty_binary(name: &str) -> PathBuf {
    let folder =
        std::env::var_os("KELSON_FAULTS_DIR").map_or_else(|| top().join("out/faults"), PathBuf::from);
    let path = folder.join(name);
    assert!(path.exists(), "{} is missing: run hack/faults", path.display());
    path
}

/// The `init` of an earlier release: `hack/predecessor` builds it.
#[track_caller]
pub fn init_of_release(version: &str) -> PathBuf {
    let path = top().join("out/releases").join(version).join("init");
    assert!(path.exists(), "{} is missing: run hack/predecessor", path.display());
    path
}

/// The `init` without the parts that a build may leave out: `hack/small` builds it.
#[track_caller]
pub fn small_init() -> PathBuf {
    let path = top().join("out/small/init");
    assert!(path.exists(), "{} is missing: run hack/small", path.display());
    path
}

/// What `make image` has fetched.
pub fn cache() -> PathBuf {
    top().join("out/cache")
}

/// The folder of programs that `hack/lib.sh` has fetched under this name; `None` without this program in it.
pub fn fetched(name: &str, program: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(cache())
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{name}-")))
        .map(|entry| entry.path().join("usr/bin"))
        .filter(|folder| folder.join(program).exists())
        .collect();
    // Of several the newest: the others are from before a change of hack/.
    found.sort_by_key(|folder| std::fs::metadata(folder).and_then(|folder| folder.modified()).ok());
    found.pop()
}

/// The top of the repository.
pub fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository")
}

/// The folder of files that tests leave behind for a reader: consoles, logs of machines. Made when it does
/// not exist.
pub fn test_logs() -> PathBuf {
    let folder = top().join("out/test-logs");
    std::fs::create_dir_all(&folder).expect("out/test-logs can be made");
    folder
}

/// Name of the running test, fit for a file.
pub fn test_name() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("test").replace("::", "-").replace('/', "-")
}
