//! The exit status: part of the contract with scripts.

use std::path::Path;

use crate::fake::{Fake, State};
use crate::{at, done, kelsonctl, two};

#[test]
fn each_status_can_be_provoked() {
    let fake = Fake::start(two());
    let refusing = Fake::start(State { deny: true, ..two() });
    let silent = Fake::start(State { silent: true, ..two() });
    for (host, words, status) in [
        (&fake, "start web", 0),
        (&fake, "start wbe", 1),
        (&fake, "start", 2),
        (&refusing, "start web", 4),
        (&silent, "start web --wait --timeout 20ms", 5),
        (&fake, "wait web --for up --timeout 20ms", 5),
    ] {
        let done = host.run(words);
        assert_eq!(done.status, status, "{words}: {done:?}");
        assert_eq!(done.err.is_empty(), status == 0, "{words} says why: {done:?}");
    }
    let nobody = done(at(Path::new("/nowhere/init.sock"), "start web").output().unwrap());
    assert_eq!(nobody.status, 3, "{nobody:?}");
}

#[test]
fn help_manual_and_documents_tell_the_same() {
    let run = |words: &str| done(kelsonctl().arg(words).output().unwrap()).out;
    let (help, man) = (run("--help"), run("man"));
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kelsonctl.md");
    let document = std::fs::read_to_string(document).unwrap();
    let told: Vec<(&str, &str)> = help
        .lines()
        .skip_while(|line| *line != "Exit status:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.trim().split_once("  ").unwrap())
        .collect();
    assert_eq!(told.iter().map(|(status, _)| *status).collect::<String>(), "012345");
    for (status, meaning) in told {
        let row = format!("\n| {status} | {meaning} |\n");
        assert!(document.contains(&row), "{row} is in docs/kelsonctl.md");
        let entry = format!(".TP\n.B {status}\n{meaning}\n");
        assert!(man.contains(&entry), "{entry} is in the manual page");
    }
}
