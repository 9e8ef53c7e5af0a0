//! The personality `kelson-load`: reads the files of a configuration folder so that PID 1 does not have to.
//!
//! `kelson-load --config DIR [--mode machine|container] [--containerd on|off|unset]` writes one
//! [`kelson_spec::wire`] message, as one frame ([`kelson_helper::answer`]), to standard output and exits 0.
//! Mistakes in the files are in the message. Only what keeps it from writing one gives another status, and a
//! line on standard error.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use crate::folder::load_with;
use crate::sources::{Mode, Sources, Switch};
use kelson_helper::answer::frame;
use kelson_spec::features::Features;
use kelson_spec::quote::error_text;
use kelson_spec::wire;

const USAGE: &str = "usage: kelson-load --config DIR [--mode machine|container] [--containerd on|off|unset]";

/// Runs the personality, of an `init` with these features, with the arguments after its name. Gives the exit status: 0 done,
/// 1 failed, 2 usage.
pub fn main(args: &[OsString], features: Features) -> i32 {
    match run(args, features, &mut std::io::stdout().lock()) {
        Ok(()) => 0,
        Err((status, message)) => {
            // Nobody is left to tell when standard error is gone too.
            let _ = writeln!(std::io::stderr(), "kelson-load: {message}");
            status
        }
    }
}

fn run(args: &[OsString], features: Features, out: &mut impl std::io::Write) -> Result<(), (i32, String)> {
    let usage = || (2, USAGE.to_owned());
    let (config, rest) = match args {
        [flag, config, rest @ ..] if flag == "--config" => (PathBuf::from(config), rest),
        _ => return Err(usage()),
    };
    let mut sources = Sources { features, ..Sources::default() };
    for pair in rest.chunks(2) {
        let [flag, word] = pair else { return Err(usage()) };
        match (flag.to_str(), word.to_str()) {
            (Some("--mode"), Some(word)) => sources.mode = Mode::parse(word).ok_or_else(usage)?,
            (Some("--containerd"), Some(word)) => {
                sources.containerd = Switch::parse(word).ok_or_else(usage)?;
            }
            _ => return Err(usage()),
        }
    }
    let bytes = wire::encode(&load_with(&config, &sources)).map_err(|error| (1, error.to_string()))?;
    let written = out.write_all(&frame(&bytes)).and_then(|()| out.flush());
    written.map_err(|error| (1, format!("the findings cannot be handed over: {}", error_text(&error))))
}

#[cfg(test)]
mod tests {
    use kelson_helper::answer::HEADER;

    use super::*;
    use crate::folder::load;

    #[test]
    fn hands_over_what_it_found() {
        let mut out = Vec::new();
        assert_eq!(run(&["--config".into(), "/nowhere/at/all".into()], Features::ALL, &mut out), Ok(()));
        let loaded: kelson_spec::Loaded = wire::decode(&out[HEADER..]).unwrap();
        assert_eq!(loaded, load(std::path::Path::new("/nowhere/at/all")));
        assert_eq!(loaded.diagnostics.len(), 1);
    }

    #[test]
    fn says_how_it_is_called_and_what_kept_it() {
        let status = |args: &[&str], out: &mut [u8]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            run(&args, Features::ALL, &mut &mut *out).map_err(|(status, _)| status)
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
