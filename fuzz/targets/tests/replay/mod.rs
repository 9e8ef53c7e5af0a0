//! Runs a target over its folders, as it is built here.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError, RwLock};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use kelson_fuzz_targets::find;

/// An input takes milliseconds; the machine may be busy.
const LONGEST: Duration = Duration::from_secs(20);

static HOOK: Once = Once::new();
/// A runtime catches the panics of its tasks.
static PANICS: AtomicUsize = AtomicUsize::new(0);
static INPUT: RwLock<Option<PathBuf>> = RwLock::new(None);
/// One target runs at a time, so that a panic belongs to its input.
static SERIAL: Mutex<()> = Mutex::new(());

type Inputs = Vec<(PathBuf, Vec<u8>)>;

/// The inputs of one target in `fuzz/corpus.tar.gz`, sorted by name.
fn corpus(fuzz: &Path, name: &str) -> Inputs {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(fuzz.join("corpus.tar.gz")).unwrap()));
    let mut inputs = Inputs::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        if entry.header().entry_type().is_file() && path.starts_with(name) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            inputs.push((path, bytes));
        }
    }
    inputs
}

/// The inputs that once broke a target, sorted by name.
fn findings(fuzz: &Path, name: &str) -> Inputs {
    let entries = fs::read_dir(fuzz.join("findings").join(name)).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

pub fn replay(name: &str) {
    HOOK.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |what| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            let input = INPUT.read().unwrap_or_else(PoisonError::into_inner);
            eprintln!("with the input {:?}:", input.as_deref());
            earlier(what);
        }));
    });
    let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let before = PANICS.load(Ordering::SeqCst);
    let target = find(name).unwrap();
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let corpus = corpus(&fuzz, name);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    for (path, bytes) in corpus.into_iter().chain(findings(&fuzz, name)) {
        *INPUT.write().unwrap_or_else(PoisonError::into_inner) = Some(path.clone());
        let began = Instant::now();
        (target.run)(&bytes);
        let took = began.elapsed();
        assert!(took < LONGEST, "{} took {took:?}", path.display());
        assert_eq!(PANICS.load(Ordering::SeqCst), before, "a task has panicked over {}", path.display());
    }
}
