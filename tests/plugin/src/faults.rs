//! What goes wrong, as the file `faults` has it.

use std::fs;
use std::path::{Path, PathBuf};

use tonic::{Code, Status};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Hang,
    Code(i32),
    /// The process ends without the effect.
    DieBefore,
    /// The process ends after the effect, without an answer.
    DieAfter,
}

/// Reads it at each call, so that a test can change it meanwhile.
#[derive(Debug, Clone)]
pub struct Faults(PathBuf);

impl Faults {
    pub fn new(folder: &Path) -> Faults {
        Faults(folder.join("faults"))
    }

    /// Does the call, or what is in its place.
    pub async fn around<T>(
        &self,
        call: &str,
        effect: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        match self.take(call) {
            None => effect(),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Code(code)) => Err(Status::new(Code::from(code), "the test wants it so")),
            Some(Fault::DieBefore) => std::process::exit(1),
            Some(Fault::DieAfter) => {
                let _ = effect();
                std::process::exit(1)
            }
        }
    }

    /// The first fault of the call; one with a count is there one time less.
    fn take(&self, call: &str) -> Option<Fault> {
        let text = fs::read_to_string(&self.0).ok()?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let at = lines.iter().position(|line| line.split_whitespace().next() == Some(call))?;
        let words: Vec<&str> = lines[at].split_whitespace().collect();
        let (fault, count) = match words[1] {
            "hang" => (Fault::Hang, 2),
            "die-before" => (Fault::DieBefore, 2),
            "die-after" => (Fault::DieAfter, 2),
            "code" => (Fault::Code(words[2].parse().expect("a number")), 3),
            other => panic!("{other:?} is no fault"),
        };
        if let Some(times) = words.get(count) {
            let times: u32 = times.parse().expect("a number");
            if times <= 1 {
                lines.remove(at);
            } else {
                let before = words[..count].join(" ");
                lines[at] = format!("{before} {}", times - 1);
            }
            fs::write(&self.0, lines.join("\n")).expect("the file of the faults");
        }
        Some(fault)
    }
}
