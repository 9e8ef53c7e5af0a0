//! devlog: the messages of syslog(3) come to a log, from any process, to the end of the host.

use std::fs;
use std::path::Path;
use std::process::Command;

use kelson_tests::{Host, HostBuilder};

const ON: &str = "builtins: {devlog: {enabled: true, environment: {DEVLOG_SOCKET: $DIR/log/socket}, restart: {delay: 10ms}}}";

/// Sends a message as syslog(3) does, with logger(1).
#[track_caller]
fn log(socket: &Path, priority: &str, text: &str) {
    let mut logger = Command::new("logger");
    logger.arg("--socket").arg(socket).args([
        "--tag",
        "nginx",
        "--id=12",
        "--priority",
        priority,
        "--",
        text,
    ]);
    assert!(logger.status().expect("logger(1) of util-linux").success());
}

fn host() -> HostBuilder {
    Host::builder().machine(ON)
}

#[test]
fn a_message_of_syslog_is_a_line_of_the_log_of_devlog() {
    let mut host = host().up(&["devlog"]);
    let socket = host.path("log/socket");
    log(&socket, "daemon.err", "bind failed");
    host.wait_log("devlog", "daemon.err nginx[12]: bind failed\n");
    // The next process takes over what the one before has left.
    host.ctl(&["restart", "devlog", "--wait"]).ok();
    log(&socket, "authpriv.info", "two\nlines");
    host.wait_log("devlog", "authpriv.info nginx[12]: two lines\n");
    let shown = host.ctl(&["logs", "devlog", "--grep", "bind"]).ok().stdout;
    assert!(shown.contains("daemon.err nginx[12]: bind failed"), "{shown}");
    host.poweroff();
}

#[test]
fn devlog_is_a_built_in_service_without_privileges() {
    let mut host = host().up(&["devlog"]);
    let devlog = host.service("devlog");
    assert!(devlog.builtin && devlog.state == "running", "{devlog:?}");
    let status = fs::read_to_string(format!("/proc/{}/status", host.outer_pid(host.pid_of("devlog"))))
        .expect("its status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of the kernel");
        line.split_whitespace().map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!((field("Uid:"), field("Gid:")), (vec!["65534".to_owned(); 4], vec!["65534".to_owned(); 4]));
    assert_eq!(field("Groups:"), [""; 0]);
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set} of {status}");
    }
    assert_eq!((field("Seccomp:"), field("NoNewPrivs:")), (vec!["2".to_owned()], vec!["1".to_owned()]));
    host.poweroff();
}

#[test]
fn there_is_no_devlog_unless_the_machine_file_switches_it_on() {
    let mut host = Host::builder().machine("builtins: {devlog: {logs: {maxFiles: 2}}}").up(&["logd"]);
    assert!(host.services().iter().all(|service| service.name != "devlog"), "{:?}", host.services());
    host.poweroff();
}

#[test]
fn what_services_say_while_they_stop_arrives() {
    let command = "[logger, --socket, $DIR/log/socket, --tag, web, --priority, user.notice, stopped]";
    let hook = format!("hooks: {{post: [{{command: {command}}}]}}");
    let mut host = host().runs_with("web", "serve", &hook).up(&["web", "devlog"]);
    host.poweroff();
    let log = host.log_text("devlog");
    assert!(log.contains("user.notice web: stopped\n"), "{log}");
}
