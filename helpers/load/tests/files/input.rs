//! `stdin` and `terminal` of a process: read, written again, and refused where they cannot be.
use crate::folder::Folder;
use kelson_load::written;
use kelson_spec::service::{Input, TerminalOutput, TerminalSpec};

fn file(keys: &str) -> String {
    format!("process:\n  command: [/bin/web]\n  {keys}\n")
}

#[test]
fn they_are_read_and_written_as_they_were() {
    let tty1 = TerminalSpec { path: "/dev/tty1".into(), ..TerminalSpec::default() };
    let all = TerminalSpec {
        path: "/dev/ttyS0".into(),
        output: TerminalOutput::Log,
        force: true,
        hang_up: true,
        reset: true,
        clear: true,
        rows: Some(25),
        columns: Some(80),
    };
    for (keys, expected, term) in [
        ("stdin: {file: /etc/app/script}", Input::File("/etc/app/script".into()), None),
        ("stdin: {text: \"answer\\n\"}", Input::Text("answer\n".into()), None),
        ("stdin: {text: ''}", Input::Text(String::new()), None),
        ("terminal: {path: /dev/tty1}", Input::Terminal(tty1), Some("linux")),
        (
            "terminal: {path: /dev/ttyS0, output: log, force: true, hangUp: true, reset: true, clear: true, rows: 25, columns: 80}",
            Input::Terminal(all),
            Some("vt220"),
        ),
    ] {
        let folder = Folder::of("web", &file(keys));
        let loaded = folder.load();
        assert_eq!(loaded.diagnostics, [], "{keys}");
        let spec = &loaded.services[0];
        assert_eq!(*spec.input(), expected, "{keys}");
        let kind = spec.environment.iter().find(|(name, _)| name == "TERM");
        assert_eq!(kind.map(|(_, value)| value.as_str()), term, "{keys}");
        let before = loaded.services.clone();
        folder.service("web", written(spec).file());
        assert_eq!(folder.load().services, before, "{keys}");
    }
}

#[test]
fn its_own_term_stays() {
    let folder =
        Folder::of("web", &format!("{}environment: {{TERM: xterm}}\n", file("terminal: {path: /dev/tty1}")));
    assert_eq!(folder.load().services[0].environment, [("TERM".to_owned(), "xterm".to_owned())]);
}

#[test]
fn who_cannot_have_them_is_told_why() {
    let long = "x".repeat((64 << 10) + 1);
    let too_long = format!("stdin: {{text: {long}}}");
    let mut wrong = Vec::new();
    for (keys, more, why) in [
        (
            "stdin: {text: a}\n  terminal: {path: /dev/tty1}",
            "",
            "process.stdin: the program reads from its terminal; leave one of the two out",
        ),
        ("stdin: {text: a, file: /a}", "", "process.stdin: file and text exclude each other; keep one"),
        ("stdin: {}", "", "process.stdin: one of the keys file, text is missing"),
        (
            too_long.as_str(),
            "",
            "process.stdin.text: this text has 65537 bytes; write one of 65536 at most, or a file",
        ),
        (
            "terminal: {path: /etc/passwd}",
            "",
            "process.terminal.path: \"/etc/passwd\" is not the path of a terminal; write one such as /dev/tty1",
        ),
        ("terminal: {}", "", "process.terminal.path: this key is missing; write path: /dev/tty1"),
        (
            "terminal: {path: /dev/tty1, rows: 0}",
            "",
            "process.terminal.rows: 0 is out of range; write a number from 1 to 65535",
        ),
        (
            "stdin: {text: a}",
            "sockets: [{name: a, listen: '*:80', stdin: true}]",
            "process: the program reads from its socket with stdin: true; leave one of the two out",
        ),
        (
            "terminal: {path: /dev/tty1}",
            "logs: {stdout: only}",
            "logs: the program writes to its terminal; leave stdout out, or write terminal: {output: log}",
        ),
    ] {
        let loaded = Folder::of("web", &format!("{}{more}\n", file(keys))).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        wrong.extend((found != [why]).then(|| format!("{found:?} and not {why:?}")));
    }
    assert_eq!(wrong, [""; 0]);
}
