//! The personality `kelson-load`: reads the files of a configuration folder so that PID 1 does not have to.
//!
//! `kelson-load --config DIR [--mode machine|container] [--containerd on|off|unset] [--applied DIR]… [--sources DIR]
//! [--for boot|reload|question]` writes one [`kelson_spec::wire`] message, as one frame ([`kelson_helper::answer`]), to standard
//! output and exits 0. It is a [`Loaded`](kelson_spec::Loaded), or the answer to the question on standard input, which is
//! a frame too. Mistakes in the files are in the message. Only what keeps it from writing one gives another status, and a
//! line on standard error.

use std::ffi::OsString;
use std::io::{Read, Write as _};
use std::path::PathBuf;

use crate::folder::load_with;
use crate::sources::{Mode, Sources, Switch};
use crate::store::Store;
use kelson_helper::answer::{self, frame};
use kelson_spec::applied::{QUESTION_MAX, Question};
use kelson_spec::features::Features;
use kelson_spec::quote::error_text;
use kelson_spec::wire;

const USAGE: &str = "usage: kelson-load --config DIR [--mode machine|container] [--containerd on|off|unset] \
                     [--applied DIR]... [--sources DIR] [--for boot|reload|question]";

/// Runs the personality, of an `init` with these features, with the arguments after its name. Gives the exit status: 0 done,
/// 1 failed, 2 usage.
pub fn main(args: &[OsString], features: Features) -> i32 {
    match run(args, features, &mut std::io::stdin().lock(), &mut std::io::stdout().lock()) {
        Ok(()) => 0,
        Err((status, message)) => {
            // Nobody is left to tell when standard error is gone too.
            let _ = writeln!(std::io::stderr(), "kelson-load: {message}");
            status
        }
    }
}

/// The purpose of a reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Boot,
    Reload,
    Question,
}

fn run(
    args: &[OsString],
    features: Features,
    input: &mut impl Read,
    out: &mut impl std::io::Write,
) -> Result<(), (i32, String)> {
    let usage = || (2, USAGE.to_owned());
    let (config, rest) = match args {
        [flag, config, rest @ ..] if flag == "--config" => (PathBuf::from(config), rest),
        _ => return Err(usage()),
    };
    let mut sources = Sources { features, ..Sources::default() };
    let (mut applied, mut purpose) = (Vec::new(), Purpose::Reload);
    for pair in rest.chunks(2) {
        let [flag, word] = pair else { return Err(usage()) };
        match (flag.to_str(), word.to_str()) {
            (Some("--mode"), Some(word)) => sources.mode = Mode::parse(word).ok_or_else(usage)?,
            (Some("--containerd"), Some(word)) => {
                sources.containerd = Switch::parse(word).ok_or_else(usage)?;
            }
            (Some("--applied"), _) => applied.push(PathBuf::from(word)),
            (Some("--sources"), _) => sources.layers = Some(PathBuf::from(word)),
            (Some("--for"), Some("boot")) => purpose = Purpose::Boot,
            (Some("--for"), Some("reload")) => purpose = Purpose::Reload,
            (Some("--for"), Some("question")) => purpose = Purpose::Question,
            _ => return Err(usage()),
        }
    }
    // Where it is to be once the host runs; early in a boot its disk may be mounted elsewhere.
    let named = applied.last().cloned().unwrap_or_default();
    let mut stores = applied.iter().map(|folder| Store::new(folder, &config, &sources));
    let bytes = match purpose {
        Purpose::Question => {
            let question = question(input).ok_or_else(|| (1, "the question makes no sense".to_owned()))?;
            wire::encode(&stores.next().ok_or_else(usage)?.answer(question))
        }
        _ => wire::encode(&match stores.find(Store::is_used) {
            Some(store) if purpose == Purpose::Boot => store.load_at_boot(&named),
            Some(store) => store.load(&named),
            None => load_with(&config, &sources),
        }),
    };
    let bytes = bytes.map_err(|error| (1, error.to_string()))?;
    let written = out.write_all(&frame(&bytes)).and_then(|()| out.flush());
    written.map_err(|error| (1, format!("the findings cannot be handed over: {}", error_text(&error))))
}

fn question(input: &mut impl Read) -> Option<Question> {
    wire::decode(&answer::question(input, QUESTION_MAX).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use kelson_helper::answer::HEADER;

    use super::*;
    use crate::folder::load;

    #[test]
    fn hands_over_what_it_found() {
        let mut out = Vec::new();
        assert_eq!(
            run(
                &["--config".into(), "/nowhere/at/all".into()],
                Features::ALL,
                &mut std::io::empty(),
                &mut out
            ),
            Ok(())
        );
        let loaded: kelson_spec::Loaded = wire::decode(&out[HEADER..]).unwrap();
        assert_eq!(loaded, load(std::path::Path::new("/nowhere/at/all")));
        assert_eq!(loaded.diagnostics.len(), 1);
    }

    #[test]
    fn says_how_it_is_called_and_what_kept_it() {
        let status = |args: &[&str], out: &mut [u8]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            run(&args, Features::ALL, &mut std::io::empty(), &mut &mut *out).map_err(|(status, _)| status)
        };
        let wrong: [&[&str]; 8] = [
            &[],
            &["--config"],
            &["/etc/kelson"],
            &["--config", "/a", "/b"],
            &["--config", "/a", "--mode"],
            &["--config", "/a", "--mode", "both"],
            &["--config", "/a", "--containerd", "maybe"],
            &["--config", "/a", "--mode", "machine", "--containerd"],
        ];
        for args in wrong {
            assert_eq!(status(args, &mut [0; 512]), Err(2), "{args:?}");
        }
        // No room for what it has to say.
        assert_eq!(status(&["--config", "/nowhere"], &mut [0; 3]), Err(1));
    }
}
