//! Access to PID 1 and logd on the host itself: root alone is not enough, and a service may do what its file
//! grants.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use kelson_tests::{Host, Image, Output, archive, paths};

const SERVE: &str = "process: {command: [$PROGRAM, serve]}\n";
const NO_ACCESS: &str = "has no access to the API: set `api:` in its file";

/// The command line of `kelsonctl` against the host's own socket.
fn kelsonctl(host: &Host, words: &[&str]) -> Vec<String> {
    let endpoint = format!("unix://{}", host.path("run/init.sock").display());
    let program = paths::binary("kelsonctl").display().to_string();
    let words = words.iter().map(|word| (*word).to_owned());
    [program, "--endpoint".into(), endpoint].into_iter().chain(words).collect()
}

/// Runs `kelsonctl` in a service, by `exec`, which runs it as the service runs.
fn in_service(host: &Host, service: &str, words: &[&str]) -> Output {
    let command = kelsonctl(host, words);
    let command = command.iter().map(String::as_str);
    host.ctl(&["exec", service, "--"].into_iter().chain(command).collect::<Vec<_>>())
}

/// Runs `kelsonctl` in the host's namespaces, in no service, as what `wrapper` makes of it.
#[track_caller]
fn entered(host: &Host, wrapper: &[&str], words: &[&str]) -> Output {
    let mut command = Command::new("nsenter");
    command.args(["--target", &host.init_pid().to_string(), "--pid", "--mount", "--"]);
    command
        .args(wrapper)
        .args(kelsonctl(host, words))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    Output::of(command, &format!("{wrapper:?} kelsonctl {words:?}"))
}

#[track_caller]
fn denied(output: Output, why: &str) {
    let output = output.expect(4);
    assert!(output.stderr.contains(why), "{output:?}");
}

#[test]
fn root_in_a_service_is_not_the_operator() {
    let host = Host::builder()
        .service("plain", SERVE)
        .service("bare", &format!("{SERVE}security: {{readOnlyRoot: true, capabilities: {{drop: [all]}}}}\n"))
        .start();
    for service in ["plain", "bare"] {
        host.wait_up(service);
        let why = format!("service \"{service}\" {NO_ACCESS}");
        for words in [&["services"][..], &["exec", "plain", "--", "/bin/true"], &["poweroff"]] {
            denied(in_service(&host, service, words), &why);
        }
        denied(in_service(&host, service, &["logs", "plain"]), &why);
    }
    assert!(host.service("plain").up, "the host goes on");
}

/// A part of Kelson has no file that could grant anything; its process that holds the key calls nobody.
#[test]
fn the_cgroup_of_apid_gives_no_access() {
    const ENTER: &str = r#"mount=$(grep ' cgroup2 ' /proc/self/mounts | head -n 1 | cut -d ' ' -f 2)
echo $$ >"$mount$(sed -n 's/^0:://p' /proc/$0/cgroup)/cgroup.procs" && exec "$@""#;
    let (_, machine) = kelson_tests::remote::door();
    let host = Host::builder().machine(&machine).up(&["apid"]);
    let key_holder = host.pid_of("apid").to_string();
    for words in [&["services"][..], &["logs", "apid"]] {
        let output = entered(&host, &["sh", "-c", ENTER, &key_holder], words);
        denied(output, "apid is a part of Kelson and has no access to the API");
    }
}

#[test]
fn a_service_may_do_what_its_file_grants() {
    let mut builder = Host::builder().service("web", SERVE);
    for grant in ["none", "reader", "operator", "admin"] {
        builder = builder.service(grant, &format!("{SERVE}api: {grant}\n"));
    }
    let mut host = builder.start();
    for service in ["web", "none", "reader", "operator", "admin"] {
        host.wait_up(service);
    }
    let run = |service: &str, words: &[&str]| in_service(&host, service, words);
    denied(run("none", &["services"]), &format!("service \"none\" {NO_ACCESS}"));
    for service in ["reader", "operator", "admin"] {
        run(service, &["services"]).ok();
        run(service, &["logs", "web"]).ok();
    }
    let needs = |grant: &str, service: &str| {
        format!("needs `api: {grant}`, and the file of service \"{service}\" has `api: {service}`")
    };
    denied(run("reader", &["restart", "web"]), &needs("operator", "reader"));
    denied(run("operator", &["exec", "web", "--", "/bin/true"]), &needs("admin", "operator"));
    run("operator", &["restart", "--wait", "web"]).ok();
    let said = run("admin", &["exec", "web", "--", "/bin/sh", "-c", "echo from-web"]).ok();
    assert_eq!(said.stdout, "from-web\n");
    let audit = host.wait_log("audit", "role=os:operator");
    assert!(audit.contains(" of service operator)\" role=os:operator what=\"web\""), "{audit}");

    // A file that is read again counts for the next call.
    host.write_service("admin", &format!("{SERVE}api: reader\n"));
    host.signal(libc::SIGHUP);
    kelson_tests::eventually("the grant to be gone", || {
        in_service(&host, "admin", &["exec", "web", "--", "/bin/true"]).status == 4
    });
    in_service(&host, "admin", &["services"]).ok();
    // It ends with its own service, perhaps before it has heard the answer.
    let _ = in_service(&host, "operator", &["poweroff"]);
    assert_eq!(host.wait_exit(), 0);
}

/// A login through sshd, say: a session of its own, below the service's process.
#[test]
fn a_login_of_a_service_with_admin_is_an_operator() {
    let host = Host::builder()
        .service("ssh", "process: {command: [/bin/sh, $DIR/sshd]}\napi: admin\n")
        .service("other", "process: {command: [/bin/sh, $DIR/sshd]}\n");
    let host = host.start();
    let ctl = kelsonctl(&host, &["restart", "--wait", "other"]).join(" ");
    let login = format!("setsid sh -c 'sleep 0.2; {ctl}; echo status $?' 2>&1 & wait; exec sleep 1000\n");
    std::fs::write(host.path("sshd"), login).expect("the test's folder");
    for service in ["ssh", "other"] {
        host.ctl(&["restart", service]).ok();
    }
    host.wait_log("ssh", "status 0");
    let log = host.wait_log("other", "status 4");
    assert!(log.contains(NO_ACCESS), "{log}");
}

#[test]
fn hooks_checks_and_cgroups_below_are_the_services_own() {
    const DEEPER: &str = r#"own=$(sed -n 's/^0:://p' /proc/self/cgroup)
mount=$(grep ' cgroup2 ' /proc/self/mounts | head -n 1 | cut -d ' ' -f 2)
mkdir -p "$mount$own/a/kelson/ssh" && echo $$ >"$mount$own/a/kelson/ssh/cgroup.procs" && cat /proc/self/cgroup
"#;
    let build = |host: &Host, grant: &str| {
        let ctl = kelsonctl(host, &["services"]).join(" ");
        let run = |where_: &str| {
            format!(
                "[/bin/sh, -c, '{ctl} >/dev/null 2>$DIR/{where_}-{grant}; echo $? >>$DIR/{where_}-{grant}']"
            )
        };
        std::fs::write(host.path("deeper"), format!("{DEEPER}{ctl}\necho status $?; exec sleep 1000\n"))
            .unwrap();
        format!(
            "process: {{command: [/bin/sh, $DIR/deeper]}}\napi: {grant}\nhooks: {{pre: [{{command: {}}}]}}\n\
             health: [{{name: asks, exec: {{command: {}}}, interval: 100ms}}]\n",
            run("hook"),
            run("check")
        )
    };
    let host = Host::builder().service("ssh", &format!("{SERVE}api: admin\n")).start();
    for (grant, status) in [("none", "4"), ("reader", "0")] {
        host.write_service(grant, &build(&host, grant));
        host.signal(libc::SIGHUP);
        let log = host.wait_log(grant, "status ");
        assert!(log.contains("/a/kelson/ssh"), "it went deeper: {log}");
        assert!(log.contains(&format!("status {status}")), "{log}");
        for place in ["hook", "check"] {
            let said = kelson_tests::until("an answer", kelson_tests::PATIENCE, || {
                let said = std::fs::read_to_string(host.path(&format!("{place}-{grant}"))).ok()?;
                said.ends_with(&format!("{status}\n")).then_some(said)
            });
            assert_eq!(said.contains(NO_ACCESS), status == "4", "{said}");
        }
    }
}

#[test]
fn outside_of_services_a_caller_must_be_as_powerful_as_pid_1() {
    let host = Host::builder()
        .service(
            "bare",
            &format!("{SERVE}api: admin\nsecurity: {{readOnlyRoot: true, capabilities: {{drop: [all]}}}}\n"),
        )
        .up(&["bare"]);
    // As an engine's `exec` into the container of the host does it.
    entered(&host, &["env"], &["services"]).ok();
    entered(&host, &["env"], &["logs", "bare"]).ok();
    let weak = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    for words in [&["services"][..], &["logs", "bare"]] {
        denied(entered(&host, &weak, words), "it has not the capability CAP_SYS_ADMIN, which PID 1 has");
        denied(
            entered(&host, &["unshare", "--user", "--map-root-user"], words),
            "in another user namespace than PID 1",
        );
    }
    let stranger = ["setpriv", "--reuid=1000", "--regid=65432", "--clear-groups"];
    denied(entered(&host, &stranger, &["services"]), "user 1000 may not use this socket: call as root");
    // The access that a file grants makes a process no more powerful.
    denied(in_service(&host, "bare", &["services"]), "CAP_SYS_ADMIN");
}

/// Without cgroups the ancestors of a caller tell whose it is.
#[test]
fn without_cgroups_whoever_descends_from_pid_1_is_of_a_service_or_refused() {
    // They ask once PID 1 has written down that these are the services' main processes.
    const ASKS: &str =
        "process: {command: [/bin/sh, -c, 'until [ -e $DIR/go ]; do sleep 0.1; done; . $DIR/asks']}\n";
    let host = Host::builder()
        .without_cgroup()
        .service("reads", &format!("{ASKS}api: reader\n"))
        .service("none", ASKS)
        .start();
    entered(&host, &["env"], &["services"]).ok();
    host.wait_up("reads");
    host.wait_up("none");
    let ctl = kelsonctl(&host, &["services"]).join(" ");
    let asks = format!("sh -c '{ctl}; echo status $?' 2>&1; exec sleep 1000\n");
    std::fs::write(host.path("asks"), asks).expect("the test's folder");
    host.touch("go");
    host.wait_log("reads", "status 0");
    let log = host.wait_log("none", "status 4");
    assert!(log.contains(&format!("service \"none\" {NO_ACCESS}")), "{log}");
    denied(
        in_service(&host, "reads", &["services"]),
        "the service of the process is not known: there is no cgroup2",
    );
}

#[test]
fn a_pid_1_without_rights_is_called_by_its_own_user() {
    let host = Host::builder().unprivileged(1000).service("web", SERVE).up(&["web"]);
    let own = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"];
    entered(&host, &own, &["services"]).ok();
    entered(&host, &own, &["logs", "web"]).ok();
    entered(&host, &[&own[..], &["--bounding-set=-all", "--inh-caps=-all"]].concat(), &["services"]).ok();
    denied(entered(&host, &["env"], &["services"]), "user 0 may not use this socket: call as user 1000");
    denied(entered(&host, &["env"], &["logs", "web"]), "user 0 may not use this socket: call as user 1000");
    denied(in_service(&host, "web", &["services"]), "has no access to the API");
}

#[test]
fn a_container_has_no_access_that_its_file_and_its_rights_do_not_give() {
    let image = Image::new("test:1", &["serve"]);
    let host = Host::builder().containers().archive("0.tar", archive(std::slice::from_ref(&image)));
    let tools = "mounts: [{source: $DIR/run, target: /kelson, options: [rbind]}, \
                 {source: $CTL, target: /kelsonctl, options: [rbind, ro]}]"
        .replace("$CTL", &paths::binary("kelsonctl").display().to_string());
    let boxed = |rest: &str| format!("container: {{image: 'test:1', {tools}}}\nuser: root\n{rest}");
    let host = host
        .service("plain", &boxed(""))
        .service("granted", &boxed("api: reader\n"))
        .service("strong", &boxed("api: reader\nsecurity: {capabilities: {add: [sys_admin]}}\n"))
        .start();
    let run = |service: &str, words: &[&str]| {
        let command =
            [&["exec", service, "--", "/kelsonctl", "-e", "unix:///kelson/init.sock"], words].concat();
        host.ctl(&command)
    };
    for service in ["plain", "granted", "strong"] {
        host.wait_up(service);
    }
    for words in [&["services"][..], &["logs", "plain"]] {
        denied(run("plain", words), &format!("service \"plain\" {NO_ACCESS}"));
        denied(run("granted", words), "it has not the capability CAP_SYS_ADMIN, which PID 1 has");
        run("strong", words).ok();
    }
    denied(run("strong", &["restart", "plain"]), "needs `api: operator`");
}

#[test]
fn a_runtime_folder_that_other_users_cannot_enter_is_warned_of() {
    let mut host = Host::builder().service("web", SERVE).up(&["web"]);
    let health = |host: &Host| host.ctl(&["health"]).stdout;
    assert!(!health(&host).contains("warning"), "{}", health(&host));
    let open = fs::metadata(host.dir()).expect("it is there").permissions();
    fs::set_permissions(host.dir(), fs::Permissions::from_mode(0o700)).expect("it is ours");
    host.ctl(&["reexec"]).ok();
    let warning =
        format!("warning: {}: other users cannot enter this folder (mode 0700)", host.dir().display());
    assert!(health(&host).contains(&warning), "{}", health(&host));
    assert!(health(&host).contains("--runtime-dir"), "it tells what to do: {}", health(&host));
    assert!(host.events().iter().any(|event| event.message.starts_with(&warning)), "{:?}", host.events());
    // A reload finds nothing of it in the files, and it is still there.
    host.ctl(&["reload"]).ok();
    assert!(health(&host).contains(&warning), "{}", health(&host));
    fs::set_permissions(host.dir(), open).expect("it is ours");
    host.poweroff();
}
