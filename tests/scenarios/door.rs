//! `apid`: who it is, what becomes of the host when it is killed, and what strangers at the door cost PID 1.

mod lockout;
mod names;
mod term;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use kelson_tests::process::{ran, status_field};
use kelson_tests::{Host, Output, Process, eventually, remote};

fn open() -> Host {
    let (_, machine) = remote::door();

    Host::builder()
        .machine(&format!("{machine}builtins: {{apid: {{restart: {{delay: 10ms, maxDelay: 10ms}}}}}}\n"))
        .runs("web", "serve")
        .up(&["web", "apid"])
}

/// The key holder of apid, and its TLS worker.
#[track_caller]
fn both(host: &Host) -> [Process; 2] {
    let keeper = host.pid_of("apid");
    let all = host.processes();
    let find =
        |is: &dyn Fn(&&Process) -> bool| all.iter().find(is).cloned().unwrap_or_else(|| panic!("{all:?}"));
    [find(&|process| process.pid == keeper), find(&|process| process.parent == keeper)]
}

/// A line of `/proc/PID/status`.
#[track_caller]
fn status(process: &Process, key: &str) -> String {
    let line = status_field(process.outer_pid, key).unwrap_or_else(|| panic!("no {key} of {process:?}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn who_meets_strangers_has_no_rights_and_calls_are_made_for_the_client() {
    let host = open();
    let [keeper, worker] = both(&host);
    assert_eq!(status(&keeper, "Uid"), "0 0 0 0");
    assert_eq!(status(&worker, "Uid"), "65432 65432 65432 65432");
    assert_eq!(status(&worker, "Groups"), "");
    for process in [&keeper, &worker] {
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(status(process, set), "0000000000000000", "{set}");
        }
        assert_eq!((status(process, "NoNewPrivs"), status(process, "Seccomp")), ("1".into(), "2".into()));
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", process.outer_pid)).expect("it runs");
        let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let root = fields.rfind(|fields| fields[4] == "/").expect("it has a root");
        assert!(root[5].split(',').any(|option| option == "ro"), "{root:?}");
    }
    let away = remote::client(&host);
    assert_eq!(away.service("web").pid, host.service("web").pid);
    away.run(&["restart", "--wait", "web"]).ok();
    assert!(away.run(&["logs", "--tail", "1", "apid"]).ok().stdout.contains("has connected"));
    let restarted = host.console();
    assert!(
        restarted.contains("CN=operator sha256:") && restarted.contains("asks to restart web"),
        "{restarted}"
    );
}

#[test]
fn who_has_the_user_of_apid_is_not_apid() {
    const CALL: &str = r#"
import grpc, sys
channel = grpc.insecure_channel("unix:" + sys.argv[1], options=[("grpc.default_authority", "localhost")])
raw = lambda message: message
listing = channel.unary_unary("/kelson.v1.Services/List", request_serializer=raw, response_deserializer=raw)
try:
    print("taken", len(listing(b"", metadata=[("kelson-identity", "CN=mallory"), ("kelson-role", "os:admin")])))
except grpc.RpcError as error:
    print(error.code().name, error.details())
"#;
    let host = open();
    let python = kelson_tests::paths::top().join("out/venv/bin/python");
    // The socket is its group's, so it gets as far as to ask.
    let called = Command::new("setpriv")
        .args(["--reuid=65432", "--regid=65432", "--clear-groups"])
        .args([python.as_os_str(), "-c".as_ref(), CALL.as_ref(), host.path("run/init.sock").as_os_str()])
        .output()
        .expect("setpriv(1) can be started");
    let said = String::from_utf8_lossy(&called.stdout).into_owned();
    assert!(said.contains("PERMISSION_DENIED user 65432 may not use this socket"), "{said}{called:?}");
    // apid itself is taken.
    assert_eq!(remote::client(&host).service("web").pid, host.service("web").pid);
}

#[test]
fn who_changed_what_is_in_a_log_of_its_own_over_the_lives_of_pid_1() {
    let mut host = open();
    let away = remote::client(&host);
    away.run(&["restart", "--wait", "web"]).ok();
    away.run(&["services"]).ok();
    host.ctl(&["reexec"]).ok();
    host.ctl(&["stop", "--wait", "web"]).ok();
    away.run(&["exec", "apid", "--", "/no/such/program", "secret"]).expect(1);
    let log = host.wait_log("audit", "call=Exec.Run");
    let of = |call: &str| {
        let lines = log.lines().filter_map(|line| line.split_once(&format!("call={call} ")));
        lines.map(|(_, rest)| rest.to_owned()).collect::<Vec<_>>()
    };
    let [restart] = &of("Services.Restart")[..] else { panic!("{log}") };
    assert!(
        restart.starts_with("who=\"CN=operator sha256:") && restart.contains(" from 127.0.0.1:"),
        "{restart}"
    );
    assert!(restart.contains(" role=os:admin what=\"web\" result=ok ms="), "{restart}");
    assert!(restart.contains(" told=\"web: "), "{restart}");
    let [reexec] = &of("Machine.Reexec")[..] else { panic!("{log}") };
    assert!(reexec.starts_with("who=\"user 0") && reexec.contains("role=local"), "{reexec}");
    let [stop] = &of("Services.Stop")[..] else { panic!("{log}") };
    assert!(stop.contains("role=local what=\"web\" result=ok"), "{stop}");
    let [exec] = &of("Exec.Run")[..] else { panic!("{log}") };
    assert!(exec.contains("what=\"apid: /no/such/program\" result=failed:FailedPrecondition"), "{exec}");
    assert!(!log.contains("secret") && !log.contains("Services.List"), "{log}");
    assert!(host.ctl(&["logs", "audit"]).ok().stdout.contains("call=Services.Stop"));
    host.poweroff();
}

#[test]
fn killed_in_every_way_it_comes_back_and_costs_nobody_anything() {
    let host = open();
    let web = host.service("web");
    for (victim, signal) in
        [(0, libc::SIGKILL), (1, libc::SIGKILL), (1, libc::SIGABRT), (0, libc::SIGSEGV), (1, libc::SIGSEGV)]
    {
        let before = both(&host);
        host.kill(before[victim].pid, signal);
        host.wait_for("apid", "to be another one", |apid| {
            apid.up && apid.pid.is_some_and(|pid| pid != before[0].pid)
        });
        eventually("the others to be gone", || {
            let left = host.processes();
            !left.iter().any(|process| before.iter().any(|gone| gone.pid == process.pid))
        });
        assert_eq!((host.service("web").pid, host.service("web").restarts), (web.pid, 0));
    }
    assert_eq!(remote::client(&host).service("web").pid, web.pid);
}

#[test]
fn strangers_at_the_door_cost_pid_1_next_to_nothing() {
    let host = open();
    let port = remote::port(&host);
    let [_, worker] = both(&host);
    // All messages so far have been read.
    remote::client(&host).run(&["version"]).ok();
    let before = (ran(host.init_pid()), ran(worker.outer_pid));
    let flood: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                for number in 0..2500 {
                    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the kernel takes it");
                    let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
                    if number % 50 == 0 {
                        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
                        let _ = stream.read(&mut [0; 16]);
                    }
                }
            })
        })
        .collect();
    for one in flood {
        one.join().expect("the flood");
    }
    // The last of the flood may still have its places.
    kelson_tests::eventually("an answer", || remote::client(&host).run(&["version"]).status == 0);
    let after = (ran(host.init_pid()), ran(worker.outer_pid));
    let (init, door) = (after.0 - before.0, after.1 - before.1);
    assert!(init < door / 4, "PID 1 ran {init:?}, the door {door:?}");
    assert_eq!(host.service("apid").restarts, 0);
}

/// Three hosts in one call, over TLS; the status is that of the one that is down.
#[test]
fn three_hosts_answer_side_by_side_and_one_that_is_down_is_told() {
    let mut hosts = [open(), open(), open()];
    let ports = hosts.each_ref().map(remote::port);
    let doors = [("a", ports[0]), ("b", ports[1]), ("c", ports[2])];
    let away = remote::clients(&doors, hosts[0].path("contexts"));
    let webs = |output: &Output| -> Vec<(String, Option<i64>)> {
        let services: Vec<serde_json::Value> = output.json();
        let webs = services.into_iter().filter(|service| service["name"] == "web");
        webs.map(|web| (web["node"].as_str().unwrap_or_default().to_owned(), web["pid"].as_i64())).collect()
    };
    let of = |name: &str, host: &Host| (name.to_owned(), host.service("web").pid.map(i64::from));
    let all = away.run(&["-n", "a,b,c", "services", "-o", "json"]).ok();
    assert_eq!(webs(&all), [of("a", &hosts[0]), of("b", &hosts[1]), of("c", &hosts[2])]);

    hosts[1].poweroff();
    let left = away.run(&["-n", "all", "services", "-o", "json"]).expect(3);
    assert_eq!(webs(&left), [of("a", &hosts[0]), of("c", &hosts[2])]);
    let told: Vec<&str> = left.stderr.lines().collect();
    assert!(matches!(told[..], [line] if line.starts_with("kelsonctl: b: ")), "{left:?}");
    let restarted = away.run(&["-n", "a,c", "restart", "--wait", "web"]).ok();
    assert!(
        restarted.stdout.starts_with("a  web: ") && restarted.stdout.contains("\nc  web: "),
        "{restarted:?}"
    );
}
