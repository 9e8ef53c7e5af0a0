//! `--watch`: the same question again and again.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};

use kelson_proto::v1::health_report::State as HealthState;
use kelson_proto::v1::{HealthReport, State as ServiceState};
use nix::sys::signal::Signal;

use crate::fake::{Fake, State};
use crate::nodes::Fleet;
use crate::streams::Following;
use crate::terminal::{send, terminal};
use crate::{at, two};

fn interrupt(child: &mut Child) {
    send(child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT), "a shell calls that 130");
}

/// Reads until a line begins so; what came before it.
fn until(following: &mut Following, begin: &str) -> Vec<String> {
    let mut before = Vec::new();
    loop {
        let line = following.line();
        if line.starts_with(begin) {
            return before;
        }
        before.push(line);
        assert!(
            before.len() < 100_000 && following.child.try_wait().unwrap().is_none(),
            "it ended: {before:?}"
        );
    }
}

fn finish(fake: &Fake) {
    fake.change(|state| state.services[1].set_state(ServiceState::Finished));
}

#[test]
fn without_a_terminal_one_comes_after_the_other() {
    let mut fake = Fake::start(two());
    let mut following = Following::new(&fake, "services --watch=100ms");
    let first: Vec<String> = (0..5).map(|_| following.line()).collect();
    assert!(first[0].starts_with("NAME ") && first[2].starts_with("web   waiting"), "{first:?}");
    assert!(first[3].is_empty() && first[4].starts_with("NAME "), "a line between, and the next: {first:?}");
    finish(&fake);
    until(&mut following, "web   finished");
    // kelsonctl reports a host that goes away, and waits for it.
    fake.cut();
    let mut said = String::new();
    BufReader::new(&mut following.err).read_line(&mut said).unwrap();
    assert!(said.starts_with("kelsonctl: "), "{said}");
    fake.change(|state| state.services[1].set_state(ServiceState::Failed));
    fake.serve();
    until(&mut following, "web   failed");
    interrupt(&mut following.child);
}

#[test]
fn health_that_is_bad_goes_on() {
    let health = |state: HealthState| HealthReport { state: state.into(), ..HealthReport::default() };
    let fake = Fake::start(State { health: health(HealthState::Unhealthy), ..two() });
    let mut following = Following::new(&fake, "health --watch=100ms");
    until(&mut following, "the host is unhealthy");
    fake.change(|state| state.health = health(HealthState::Healthy));
    until(&mut following, "the host is healthy");
    interrupt(&mut following.child);
}

#[test]
fn programs_get_a_document_each_time() {
    let fake = Fake::start(two());
    let mut following = Following::new(&fake, "services --watch=100ms -o yaml");
    let first = until(&mut following, "---");
    assert_eq!(
        (first[0].as_str(), first.iter().filter(|line| line.starts_with("- ")).count()),
        ("- name: db", 2)
    );
    interrupt(&mut following.child);
}

#[test]
fn what_cannot_be_shown_at_all_ends() {
    let fake = Fake::start(State { deny: true, ..two() });
    for words in ["services --watch", "health --watch"] {
        let done = fake.run(words);
        assert_eq!((done.status, done.err.as_str()), (4, "kelsonctl: only root may ask\n"), "{words}");
    }
}

#[test]
fn several_hosts_are_watched_as_one() {
    let fleet = Fleet::new(vec![("edge-1", two()), ("lab", two())]);
    let mut following = Following::of(fleet.command("-n edge-1,lost,lab services --watch=100ms"));
    until(&mut following, "NODE ");
    assert_eq!(until(&mut following, "NODE ").len(), 5, "two of each, and a line between");
    let lost = fleet.lost();
    let mut said = vec![0; lost.len() * 2];
    following.err.read_exact(&mut said).unwrap();
    assert_eq!(String::from_utf8(said).unwrap(), lost.repeat(2), "each time");
    finish(&fleet.hosts[1]);
    until(&mut following, "lab     web   finished");
    interrupt(&mut following.child);
    let nobody = fleet.command("-n lost services --watch").output().unwrap();
    assert_eq!((nobody.status.code(), String::from_utf8(nobody.stderr).unwrap()), (Some(3), lost));
}

#[test]
fn on_a_terminal_it_is_drawn_in_place() {
    let mut fake = Fake::start(two());
    let (mut master, slave) = terminal(80, 24);
    let mut command = at(&fake.socket(), "services --watch=100ms");
    command.env("NO_COLOR", "1").env("LANG", "C.UTF-8");
    let mut child = command.stdout(Stdio::from(slave)).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut printed = String::new();
    let mut until = |what: &str| {
        let mut chunk = [0; 4096];
        while !printed.contains(what) {
            let count = master.read(&mut chunk).unwrap();
            printed.push_str(std::str::from_utf8(&chunk[..count]).unwrap());
        }
        std::mem::take(&mut printed)
    };
    let first = until("to exist\x1b[K\r\n\x1b[?7h\x1b[J");
    assert!(first.starts_with("\r\x1b[?7lNAME  STATE"), "nothing above is touched: {first:?}");
    until("\x1b[3A\r\x1b[?7lNAME  STATE");
    finish(&fake);
    until("web   finished");
    fake.cut();
    until("kelsonctl: nobody serves");
    // An error has one line, over which the next is drawn.
    fake.serve();
    until("\x1b[1A\r\x1b[?7lNAME  STATE");
    interrupt(&mut child);
}
