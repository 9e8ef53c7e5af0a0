//! Commands beside a service: in its cgroup, as its user, with its environment and confinement, and with its end.
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::pid_one::{all_processes, as_pid_one, eventually, pipe, processes};
use kelson_runner::{
    ExecRequest, Executing, Executor as _, Exit, ProcessExecutor, ProcessRunner, Processes, RunContext,
    Runner, Running, StopPlan, StopReport, WindowSize,
};
use kelson_spec::ServiceSpec;
use kelson_spec::service::{Credentials, ResourceLimit};

const PATIENT: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_secs(20) };

/// A service that runs, and what commands are run beside it by.
struct Beside {
    runner: ProcessRunner,
    running: Running,
    executor: ProcessExecutor,
}

async fn run(processes: &Processes, spec: ServiceSpec) -> Beside {
    let spec = Arc::new(spec);
    let mut runner = ProcessRunner::new(processes.clone(), Arc::clone(&spec));
    runner.open().await.unwrap();
    let null = || std::fs::File::options().write(true).open("/dev/null").unwrap().into();
    let context = RunContext::new(3, null(), null());
    let running = runner.run(context).await.unwrap();
    let executor = ProcessExecutor::new(processes.clone(), spec, 3, running.pid, running.start_time);
    Beside { runner, running, executor }
}

fn sleeper() -> ServiceSpec {
    ServiceSpec::process("web", ["/bin/sleep", "1000"])
}

fn script(text: &str) -> ExecRequest {
    ExecRequest { command: ["/bin/sh", "-c", text].map(String::from).to_vec(), ..ExecRequest::default() }
}

fn on_terminal(text: &str) -> ExecRequest {
    ExecRequest { input: true, terminal: Some(WindowSize { rows: 11, columns: 77 }), ..script(text) }
}

/// Everything from an end that never waits; a terminal ends with an error.
async fn all(end: OwnedFd) -> String {
    let reading = tokio::task::spawn_blocking(move || {
        let mut file = std::fs::File::from(end);
        let (mut text, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => text.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EIO));
                    break;
                }
            }
        }
        String::from_utf8(text).unwrap()
    });
    reading.await.unwrap()
}

async fn done(executing: Executing) -> (String, String, Exit) {
    drop(executing.input);
    let output = all(executing.output).await;
    let errors = match executing.errors {
        Some(errors) => all(errors).await,
        None => String::new(),
    };
    (output, errors, executing.exit.await)
}

#[test]
fn a_command_is_as_the_service_is() {
    as_pid_one(|| async {
        let processes = processes();
        let mut spec = sleeper();
        spec.user = Some(Credentials {
            uid: 33,
            gid: 33,
            groups: vec![7],
            name: "www".into(),
            home: Some("/srv".into()),
        });
        spec.environment = vec![("A".into(), "of the service".into()), ("B".into(), "b".into())];
        spec.limits = vec![ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: 77, hard: 78 }];
        if let kelson_spec::service::Workload::Process(process) = &mut spec.workload {
            process.working_directory = "/usr".into();
        }
        let mut web = run(&processes, spec).await;
        let request = ExecRequest {
            environment: vec![("A".into(), "mine".into()), ("KELSON_RUN".into(), "nobody's".into())],
            ..script(
                "id -u; id -G; pwd; ulimit -n; echo $A $B $HOME $USER $KELSON_SERVICE; echo ${KELSON_RUN##*:}; \
                 cat /proc/self/cgroup; grep -E '^(NoNewPrivs|Seccomp|CapBnd)' /proc/self/status; ls /proc/self/fd | wc -l; \
                 cat; echo wrong >&2; exit 7",
            )
        };
        let (output, errors, exit) = done(web.executor.exec(request).await.unwrap()).await;
        assert_eq!((errors.as_str(), exit), ("wrong\n", Exit::Status(7)), "{output}");
        let of_main =
            |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", web.running.pid)).unwrap();
        let status: String = of_main("status")
            .lines()
            .filter(|line| ["NoNewPrivs", "Seccomp", "CapBnd"].iter().any(|start| line.starts_with(start)))
            .map(|line| format!("{line}\n"))
            .collect();
        let cgroup = of_main("cgroup").replace("/kelson/web\n", "/kelson/web/exec\n");
        // Three standard descriptors, and that of the folder which `ls` lists.
        let expected = format!("33\n33 7\n/usr\n77\nmine b /srv www web\n3\n{cgroup}{status}4\n");
        assert_eq!(output, expected);
        assert_eq!(web.runner.stop(PATIENT).await.unwrap(), StopReport::default());
        web.runner.close().await.unwrap();
        eventually("all are gone", || all_processes().is_empty()).await;
    });
}

#[test]
fn output_goes_where_it_is_sent() {
    as_pid_one(|| async {
        let processes = processes();
        let mut web = run(&processes, sleeper()).await;
        let (output, theirs) = nix::unistd::pipe().unwrap();
        let (errors, of_errors) = nix::unistd::pipe().unwrap();
        let outputs = Some(std::sync::Arc::new((theirs, of_errors)));
        let request = ExecRequest { outputs, ..script("echo said; echo wrong >&2; exit 2") };
        let executing = web.executor.exec(request).await.unwrap();
        // Nobody else holds their other ends, so both end.
        let (nothing, none, exit) = done(executing).await;
        assert_eq!((nothing.as_str(), none.as_str(), exit), ("", "", Exit::Status(2)));
        assert_eq!((all(output).await.as_str(), all(errors).await.as_str()), ("said\n", "wrong\n"));
        web.runner.stop(PATIENT).await.unwrap();
        web.runner.close().await.unwrap();
    });
}

#[test]
fn input_goes_through_and_ends() {
    as_pid_one(|| async {
        let processes = processes();
        let mut web = run(&processes, sleeper()).await;
        let mut executing =
            web.executor.exec(ExecRequest { input: true, ..script("cat; echo end") }).await.unwrap();
        let mut input = std::fs::File::from(executing.input.take().unwrap());
        input.write_all(b"one\n").unwrap();
        drop(input);
        assert_eq!(done(executing).await, ("one\nend\n".into(), String::new(), Exit::Status(0)));
        web.runner.close().await.unwrap();
    });
}

#[test]
fn a_terminal_controls_the_session_and_has_its_size() {
    as_pid_one(|| async {
        let processes = processes();
        let mut spec = sleeper();
        spec.user = Some(Credentials { uid: 33, gid: 33, groups: vec![], name: "www".into(), home: None });
        let mut web = run(&processes, spec).await;
        let text =
            "test -t 0 && test -t 1 && test -t 2 && stty size && echo tty >/dev/tty; echo again >$(tty)";
        let executing = web.executor.exec(on_terminal(text)).await.unwrap();
        assert!(executing.errors.is_none());
        let (output, _, exit) = done(executing).await;
        assert_eq!((output.as_str(), exit), ("11 77\r\ntty\r\nagain\r\n", Exit::Status(0)));

        // SIGWINCH announces a new size, and typed keys interrupt.
        let executing = web
            .executor
            .exec(on_terminal("trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.02; done"))
            .await
            .unwrap();
        let (control, mut output) = (Arc::clone(&executing.control), std::fs::File::from(executing.output));
        let mut said = String::new();
        let mut hear = |said: &mut String| {
            let mut chunk = [0; 256];
            if let Ok(count) = output.read(&mut chunk) {
                said.push_str(std::str::from_utf8(&chunk[..count]).unwrap());
            }
        };
        eventually("it is ready", || {
            hear(&mut said);
            said.contains("ready")
        })
        .await;
        control.resize(WindowSize { rows: 5, columns: 6 });
        assert_eq!(executing.exit.await, Exit::Status(3));
        hear(&mut said);
        assert!(said.ends_with("5 6\r\n"), "{said:?}");

        // No shell: one that is just starting keeps the signal to itself.
        let sleep = ExecRequest { command: vec!["/bin/sleep".into(), "1000".into()], ..on_terminal("") };
        let mut executing = web.executor.exec(sleep).await.unwrap();
        let mut input = std::fs::File::from(executing.input.take().unwrap());
        input.write_all(&[3]).unwrap();
        assert_eq!(executing.exit.await, Exit::Signal { signal: libc::SIGINT, core: false });
        web.runner.close().await.unwrap();
        eventually("all are gone", || all_processes().is_empty()).await;
    });
}

#[test]
fn signals_reach_it_and_a_kill_takes_what_it_started() {
    as_pid_one(|| async {
        let processes = processes();
        let mut web = run(&processes, sleeper()).await;
        let executing = web.executor.exec(script("exec sleep 1000")).await.unwrap();
        executing.control.signal(libc::SIGTERM);
        assert_eq!(executing.exit.await, Exit::Signal { signal: libc::SIGTERM, core: false });
        // After its end no process gets a signal, even one with the same number.
        executing.control.signal(libc::SIGKILL);
        executing.control.kill();

        let executing = web.executor.exec(script("sleep 1000 & sleep 1000 & wait")).await.unwrap();
        eventually("they run", || all_processes().len() == 4).await;
        executing.control.kill();
        assert_eq!(executing.exit.await, Exit::Signal { signal: libc::SIGKILL, core: false });
        eventually("only the service is left", || all_processes() == [web.running.pid]).await;
        web.runner.close().await.unwrap();
    });
}

#[test]
fn the_end_of_the_service_is_the_end_of_its_commands() {
    as_pid_one(|| async {
        let processes = processes();
        let mut web = run(&processes, sleeper()).await;
        // Neither a session nor a deaf ear helps.
        let executing = web.executor.exec(script("trap '' TERM HUP; setsid sleep 1000; :")).await.unwrap();
        web.runner.stop(PATIENT).await.unwrap();
        assert_eq!(executing.exit.await, Exit::Signal { signal: libc::SIGKILL, core: false });
        eventually("all are gone", || all_processes().is_empty()).await;
        let Err(refused) = web.executor.exec(script("exit 0")).await else { panic!("it has ended") };
        assert_eq!(refused.message, "the main process of service web has ended");
        // The next run has a new cgroup, and an executor of its own.
        let (out, text) = pipe();
        drop(out);
        let null = || std::fs::File::options().write(true).open("/dev/null").unwrap().into();
        let context = RunContext::new(4, text, null());
        let running = web.runner.run(context).await.unwrap();
        let next =
            ProcessExecutor::new(processes.clone(), Arc::new(sleeper()), 4, running.pid, running.start_time);
        let executing = next.exec(script("echo lives")).await.unwrap();
        assert_eq!(done(executing).await.0, "lives\n");
        // The PID of the old one may be another's: its start time tells.
        let stale =
            ProcessExecutor::new(processes, Arc::new(sleeper()), 3, running.pid, running.start_time + 1);
        assert!(stale.exec(script("exit 0")).await.is_err());
        web.runner.close().await.unwrap();
    });
}

#[test]
fn what_cannot_be_run_is_told() {
    as_pid_one(|| async {
        let processes = processes();
        let mut web = run(&processes, sleeper()).await;
        for (request, expected) in [
            (
                ExecRequest { command: vec!["/nope".into()], ..ExecRequest::default() },
                "/nope: no such file or directory",
            ),
            (ExecRequest::default(), "there is no command to run"),
            (
                ExecRequest { command: vec!["a\0b".into()], ..ExecRequest::default() },
                "the program holds a NUL byte",
            ),
            (
                ExecRequest { environment: vec![("A=B".into(), String::new())], ..script("exit 0") },
                "\"A=B\" is no name of an environment variable",
            ),
        ] {
            let Err(refused) = web.executor.exec(request).await else { panic!("{expected}") };
            assert_eq!(refused.message, expected);
        }
        eventually("no child is left", || all_processes() == [web.running.pid]).await;
        web.runner.close().await.unwrap();
    });
}

#[test]
fn a_command_whose_reader_goes_away_ends_alone() {
    as_pid_one(|| async {
        let processes = processes();
        let mut web = run(&processes, sleeper()).await;
        let Executing { output, errors, exit, .. } = web.executor.exec(script("exec yes")).await.unwrap();
        drop((output, errors));
        assert_eq!(exit.await, Exit::Signal { signal: libc::SIGPIPE, core: false });
        // Neither the service nor what comes after it is any the worse.
        assert_eq!(done(web.executor.exec(script("echo on")).await.unwrap()).await.0, "on\n");
        assert_eq!(all_processes(), [web.running.pid]);
        assert_eq!(web.runner.stop(PATIENT).await.unwrap(), StopReport::default());
        web.runner.close().await.unwrap();
    });
}
