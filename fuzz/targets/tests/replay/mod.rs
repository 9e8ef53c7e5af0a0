//! Runs a target over its folders, as it is built here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError, RwLock};
use std::time::{Duration, Instant};

use kelson_fuzz_targets::find;

/// None takes more than milliseconds by itself; this computer may have other things to do.
const LONGEST: Duration = Duration::from_secs(20);

static HOOK: Once = Once::new();
/// A runtime keeps the panics of its tasks to itself.
static PANICS: AtomicUsize = AtomicUsize::new(0);
static INPUT: RwLock<Option<PathBuf>> = RwLock::new(None);
/// Whose they are is told by who runs.
static TURN: Mutex<()> = Mutex::new(());

fn inputs(kind: &str, name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(kind).join(name);
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
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
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = PANICS.load(Ordering::SeqCst);
    let target = find(name).unwrap();
    let corpus = inputs("corpus", name);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    for path in corpus.into_iter().chain(inputs("findings", name)) {
        let bytes = fs::read(&path).unwrap();
        *INPUT.write().unwrap_or_else(PoisonError::into_inner) = Some(path.clone());
        let began = Instant::now();
        (target.run)(&bytes);
        let took = began.elapsed();
        assert!(took < LONGEST, "{} took {took:?}", path.display());
        assert_eq!(PANICS.load(Ordering::SeqCst), before, "a task has panicked over {}", path.display());
    }
}
