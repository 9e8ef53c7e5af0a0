//! On a terminal: colours, its width, and nothing that services say reaches it as a command.

use std::io::Read as _;
use std::process::{Command, Stdio};

use kelson_proto::v1::Line;
use nix::pty::{OpenptyResult, Winsize, openpty};

use crate::fake::{Fake, State};
use crate::{at, two};

/// Runs the command on a terminal of this width; what it printed there.
pub fn on_terminal(mut command: Command, columns: u16) -> String {
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(Some(&size), None).unwrap();
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut child = command.stdout(Stdio::from(slave)).stderr(Stdio::inherit()).spawn().unwrap();
    // The command holds its own copy of the terminal.
    drop(command);
    let (mut master, mut printed) = (std::fs::File::from(master), Vec::new());
    let mut chunk = [0; 4096];
    // The end of a terminal reads as an error.
    while let Ok(count @ 1..) = master.read(&mut chunk) {
        printed.extend_from_slice(&chunk[..count]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8(printed).unwrap().replace("\r\n", "\n")
}

#[test]
fn colours_are_for_terminals() {
    let fake = Fake::start(two());
    let text = on_terminal(at(&fake.socket(), "services"), 200);
    assert!(
        text.contains("\x1b[38;5;28mrunning\x1b[0m") && text.contains("\x1b[38;5;130mwaiting\x1b[0m"),
        "{text}"
    );
    let mut plain = at(&fake.socket(), "services");
    plain.env("NO_COLOR", "1");
    assert!(!on_terminal(plain, 200).contains('\x1b'));
}

#[test]
fn a_table_fits() {
    let mut state = two();
    state.services[1].waiting_for = vec!["service \"a-very-long-name-of-a-service\" to be up".to_owned(); 9];
    let fake = Fake::start(state);
    let mut command = at(&fake.socket(), "services");
    command.env("NO_COLOR", "1");
    let text = on_terminal(command, 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().nth(2).unwrap().ends_with('…'), "{text}");
}

#[test]
fn a_log_cannot_steer_the_terminal() {
    let lines = vec![Line {
        service: "web".to_owned(),
        text: b"\x1b]0;owned\x07\x1b[2J\xff".to_vec(),
        ..Line::default()
    }];
    let mut fake_state = two();
    fake_state.services[0].status_text = "\x1b[2J".to_owned();
    let fake = Fake::start(State { lines, ..fake_state });
    assert_eq!(on_terminal(at(&fake.socket(), "logs web"), 80), "\\x1b]0;owned\\x07\\x1b[2J\\xff\n");
    let mut command = at(&fake.socket(), "services");
    command.env("NO_COLOR", "1");
    assert!(!on_terminal(command, 80).contains('\x1b'));
}
