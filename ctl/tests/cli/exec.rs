//! `exec`: bytes, signals, the terminal and the exit status.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;

use crate::fake::Fake;
use crate::terminal::{is_raw, resize, send, terminal};
use crate::{at, done, two};

#[test]
fn the_status_is_that_of_the_command() {
    let fake = Fake::start(two());
    let done = fake.run("exec db -E A=b -- out:hello err:oops exit:7");
    assert_eq!((done.status, done.out.as_str(), done.err.as_str()), (7, "hello", "oops"));
    assert_eq!(
        fake.asked().last().unwrap(),
        r#"exec db ["out:hello", "err:oops", "exit:7"] input=false terminal=None ["A=b"]"#
    );
    assert_eq!(fake.run("exec db -- exit:0").status, 0);
    let done = fake.run("exec db -- killed");
    assert_eq!((done.status, done.err.as_str()), (137, ""));
}

#[test]
fn its_own_failures_are_told_by_a_line() {
    let fake = Fake::start(two());
    for (words, status, said) in [
        ("exec bd -- exit:0", 1, "kelsonctl: no service \"bd\"; did you mean \"db\"?"),
        ("exec db -- nope", 1, "kelsonctl: nope: no such file or directory"),
        ("exec db -- out:x break", 3, "kelsonctl: the host ended the stream before its command"),
        ("exec -it db -- exit:0", 2, "kelsonctl: -t needs a terminal, and the standard input is none"),
        ("exec -t db -- exit:0", 2, "kelsonctl: -t needs a terminal, and the standard output is none"),
    ] {
        let done = fake.run(words);
        assert_eq!(done.status, status, "{words}: {done:?}");
        assert!(done.err.starts_with(said), "{words}: {done:?}");
    }
    fake.change(|state| state.deny = true);
    assert_eq!(fake.run("exec db -- exit:0").status, 4);
}

/// Starts it with pipes.
fn piped(fake: &Fake, words: &str) -> Child {
    let mut command = at(&fake.socket(), words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn input_goes_to_it_byte_for_byte() {
    let fake = Fake::start(two());
    let mut child = piped(&fake, "exec -i db -- bytes until:end exit:3");
    child.stdin.take().unwrap().write_all(&[0, 1, 255]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &[0, 255, 10, 13, 0, 1, 255][..]));
    // Without -i nothing is read.
    let mut child = piped(&fake, "exec db -- out:x exit:0");
    assert_eq!(child.wait().unwrap().code(), Some(0), "the input is still open");
}

#[test]
fn the_first_signal_is_sent_on_and_the_second_leaves() {
    let fake = Fake::start(two());
    let mut child = piped(&fake, "exec db -- out:r until:signal until:signal exit:0");
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    send(&child, Signal::SIGTERM);
    fake.until_asked("exec signal 15", 1);
    send(&child, Signal::SIGINT);
    let done = done(child.wait_with_output().unwrap());
    assert_eq!((done.status, done.err.as_str()), (130, "kelsonctl: left the command: the host kills it\n"));
    fake.until_asked("exec gone", 1);
    // Also while nobody takes its output.
    let mut child = piped(&fake, "exec db -- flood");
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    send(&child, Signal::SIGINT);
    send(&child, Signal::SIGHUP);
    assert_eq!(child.wait().unwrap().code(), Some(129));
}

#[test]
fn an_output_that_nobody_reads_ends_it() {
    use std::os::unix::process::ExitStatusExt as _;
    let fake = Fake::start(two());
    let mut child = piped(&fake, "exec db -- flood");
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGPIPE));
}

/// On a terminal that also stays open here.
struct OnTerminal {
    child: Child,
    ours: std::fs::File,
    theirs: OwnedFd,
    said: Vec<u8>,
}

impl OnTerminal {
    fn start(fake: &Fake, words: &str) -> OnTerminal {
        let (ours, slave) = terminal(99, 33);
        let theirs = || Stdio::from(slave.try_clone().unwrap());
        let mut command = at(&fake.socket(), words);
        command.env("TERM", "vt100").stdin(theirs()).stdout(theirs()).stderr(theirs());
        OnTerminal { child: command.spawn().unwrap(), ours, theirs: slave, said: Vec::new() }
    }

    fn until(&mut self, text: &str) {
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&self.said).contains(text) {
            let count = self.ours.read(&mut chunk).unwrap();
            self.said.extend_from_slice(&chunk[..count]);
        }
    }
}

#[test]
fn a_terminal_is_handed_over_and_given_back() {
    let fake = Fake::start(two());
    let mut on = OnTerminal::start(&fake, "exec -it db -- out:ready until:size until:input exit:5");
    on.until("ready");
    assert!(is_raw(&on.theirs));
    assert_eq!(
        fake.asked().last().unwrap(),
        r#"exec db ["out:ready", "until:size", "until:input", "exit:5"] input=true terminal=Some("99x33") ["TERM=vt100"]"#
    );
    resize(&on.theirs, &on.child, 20, 10);
    fake.until_asked("exec size 20x10", 1);
    // Ctrl-C is a key as others are.
    on.ours.write_all(&[3]).unwrap();
    assert_eq!(on.child.wait().unwrap().code(), Some(5));
    assert!(!is_raw(&on.theirs));
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let mut fake = Fake::start(two());
    for signal in [Signal::SIGHUP, Signal::SIGTERM] {
        let mut on = OnTerminal::start(&fake, "exec -it db -- out:ready until:end exit:5");
        on.until("ready");
        send(&on.child, signal);
        if signal == Signal::SIGTERM {
            fake.until_asked("exec signal 15", 1);
            send(&on.child, signal);
        }
        assert_eq!(on.child.wait().unwrap().code(), Some(128 + signal as i32));
        assert!(!is_raw(&on.theirs));
    }
    let mut on = OnTerminal::start(&fake, "exec -it db -- out:ready until:end exit:5");
    on.until("ready");
    fake.cut();
    assert_eq!(on.child.wait().unwrap().code(), Some(3));
    assert!(!is_raw(&on.theirs));
}
