use super::super::Copying;
use super::*;

pub(in crate::collector) const OPTIONS: LogOptions =
    LogOptions { max_size: 1024, max_files: 2, rate_limit: None, console: false, copy: Copying::Nothing };

fn run(held: &mut Held, service: &str) -> (u64, OwnedFd, OwnedFd) {
    let ((stdout, out), (stderr, err)) = (pipe().unwrap(), pipe().unwrap());
    let id = held.runs.last_key_value().map_or(1, |(last, _)| last + 1);
    held.add(NewRun { id, service: service.into(), run: 1, options: OPTIONS, stdout, stderr });
    (id, out, err)
}

#[test]
fn what_has_ended_is_not_handed_over_again() {
    let mut held = Held::new(super::super::kept::forgetful()).unwrap();
    let (id, _out, err) = run(&mut held, "web");
    assert_eq!(held.message(id).unwrap().1.len(), 2);
    drop(err);
    assert!(held.any_unread());
    held.ended(id, true);
    assert!(!held.any_unread());
    let (message, descriptors) = held.message(id).unwrap();
    assert!(message.stdout && !message.stderr && descriptors.len() == 1);
    held.ended(id, false);
    assert!(held.message(id).is_none() && held.ids().next().is_none());
}

#[test]
fn of_pipes_that_fill_up_the_newest_lines_stay() {
    let mut held = Held::new(super::super::kept::forgetful()).unwrap();
    let (_, low, _low_err) = run(&mut held, "low");
    let (id, full, _full_err) = run(&mut held, "full");
    nix::unistd::write(&low, b"kept\n").unwrap();
    let text: String = (0..4096).map(|number| format!("line {number:09}\n")).collect();
    nix::unistd::write(&full, &text.as_bytes()[..60_000]).unwrap();
    let losses = held.relieve_full();
    assert_eq!(losses.len(), 1);
    // An eighth of 64 KiB stays; the line that this cuts is dropped whole.
    assert_eq!(losses.get("full"), Some(&Lost { lines: 3454, bytes: 51_810 }));
    let mut left = vec![0; 65536];
    let (_, ends) = held.message(id).unwrap();
    let read = nix::unistd::read(ends[0], &mut left).unwrap();
    assert_eq!(&left[..read], &text.as_bytes()[51_810..60_000]);
    assert!(held.relieve_full().is_empty() && held.any_unread());
    assert_eq!(held.message(id).unwrap().0.lost_lines, 3454);
    held.handed(id);
    assert_eq!(held.message(id).unwrap().0.lost_lines, 0);
}

#[test]
fn a_last_line_without_an_end_counts_as_one() {
    let mut held = Held::new(super::super::kept::forgetful()).unwrap();
    let (_, out, err) = run(&mut held, "web");
    nix::unistd::write(&out, b"whole\nnot whole").unwrap();
    drop((out, err));
    let (_, _out, _err) = run(&mut held, "web");
    assert_eq!(held.relieve_full().get("web"), Some(&Lost { lines: 2, bytes: 15 }));
}

#[test]
fn ended_pipes_of_older_runs_do_not_pile_up() {
    let mut held = Held::new(super::super::kept::forgetful()).unwrap();
    for _ in 0..100 {
        let (_, out, err) = run(&mut held, "crashing");
        nix::unistd::write(&out, b"last words\n").unwrap();
        drop((out, err));
        let _ = held.relieve_full();
    }
    assert_eq!(held.ids().count(), 1);
    // One that ended in silence has lost nothing, and nothing is reported.
    let (quiet, _, _) = run(&mut held, "quiet");
    let (_, _out, _err) = run(&mut held, "quiet");
    let losses = held.relieve_full();
    assert!(!held.ids().any(|id| id == quiet) && !losses.contains_key("quiet"), "{losses:?}");
}

#[test]
fn pipes_of_a_logd_that_was_killed_say_so() {
    let mut held = Held::new(super::super::kept::forgetful()).unwrap();
    let (old, _out, _err) = run(&mut held, "web");
    held.handed(old);
    let (new, _out2, _err2) = run(&mut held, "db");
    held.taken_back(false);
    assert!(held.message(old).unwrap().0.interrupted);
    assert!(!held.message(new).unwrap().0.interrupted);
    held.handed(old);
    held.taken_back(true);
    assert!(!held.message(old).unwrap().0.interrupted);
}
