//! Calls of the program and all that came of them, as a file tells it.

use std::path::Path;

use crate::fake::Fake;
use crate::{Done, done, kelsonctl};

/// Does what a file says, and compares: behind `$ kelsonctl` stand the words of a call, below them its output (`%`: its last
/// line has no end), its errors behind `! `, what the host was asked behind `> `, and a status other than 0 in brackets.
/// `DIR` is a folder of the test, `VERSION` that of kelsonctl, and `## ` begins a comment. `KELSON_BLESS=1` writes down what
/// comes now.
#[track_caller]
pub fn transcript(name: &str, folder: &Path, run: impl Fn(&str) -> (Done, Vec<String>)) {
    let dir = folder.to_str().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/transcripts/{name}.txt"));
    let kept = std::fs::read_to_string(&path).unwrap();
    let mut now = String::new();
    for line in kept.lines().filter(|line| line.starts_with("## ") || line.starts_with("$ kelsonctl")) {
        now += &format!("{line}\n");
        let Some(words) = line.strip_prefix("$ kelsonctl") else { continue };
        let (Done { status, out, err }, asked) = run(&words.replace("DIR", dir));
        let mut told = out;
        if !told.is_empty() && !told.ends_with('\n') {
            told += "%\n";
        }
        err.lines().for_each(|line| told += &format!("{}\n", format!("! {line}").trim_end()));
        asked.iter().for_each(|words| told += &format!("> {}\n", words.trim_end()));
        if status != 0 {
            told += &format!("[{status}]\n");
        }
        now += &told.replace(dir, "DIR").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    }
    if std::env::var_os("KELSON_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
        return;
    }
    for (place, (kept, now)) in (1..).zip(kept.lines().zip(now.lines())) {
        assert_eq!(kept, now, "line {place} of {}", path.display());
    }
    assert_eq!(kept.lines().count(), now.lines().count(), "{}", path.display());
}

impl Fake {
    /// [`transcript`] of calls of this host. Questions that a call repeats while it waits are left out.
    #[track_caller]
    pub fn transcript(&self, name: &str) {
        transcript(name, self.folder(), |words| {
            self.change(|state| state.asked.clear());
            let done = self.run(words);
            let again =
                |asked: &String| ["why ", "list", "version"].iter().any(|word| asked.starts_with(word));
            (done, self.asked().into_iter().filter(|asked| !again(asked)).collect())
        });
    }
}

/// [`transcript`] of calls that ask no host.
#[track_caller]
pub fn local(name: &str, folder: &Path) {
    transcript(name, folder, |words| {
        (done(kelsonctl().args(words.split_whitespace()).output().unwrap()), Vec::new())
    });
}
