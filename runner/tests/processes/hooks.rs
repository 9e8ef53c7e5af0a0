//! Runs of another command than the service's own: its hooks. All but the words is as in any run.
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use crate::pid_one::{all_processes, as_pid_one, eventually, pipe, processes, read_all};
use kelson_runner::{Exit, ProcessRunner, RunContext, Runner, Running, StopPlan, StopReport};
use kelson_spec::ServiceSpec;
use kelson_spec::service::{Credentials, Workload};

const PATIENT: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_secs(20) };

/// The output of all runs: the main process and the hooks differ in nothing else.
const TELL: &str =
    "echo $0; id -u; pwd; echo $A $NOTIFY_SOCKET ${KELSON_RUN##*:}; grep 0:: /proc/self/cgroup; exit 4";

fn spec() -> ServiceSpec {
    let mut spec = ServiceSpec::process("web", ["/bin/sh", "-c", TELL, "main"]);
    spec.environment = vec![("A".into(), "of the service".into())];
    spec.user = Some(Credentials { uid: 33, gid: 33, groups: vec![], name: "www".into(), home: None });
    if let Workload::Process(process) = &mut spec.workload {
        process.working_directory = "/usr".into();
    }
    spec
}

/// A run of the service's own command, or of this one.
async fn run(
    runner: &mut ProcessRunner,
    number: u64,
    command: Option<&[&str]>,
) -> (Running, impl Future<Output = String> + use<>) {
    let (read, write) = pipe();
    let context = RunContext {
        command: command.map(|words| words.iter().map(|word| (*word).to_owned()).collect()),
        environment: vec![("NOTIFY_SOCKET".into(), "/run/n".into())],
        ..RunContext::new(number, write.try_clone().unwrap(), write)
    };
    (runner.run(context).await.unwrap(), read_all(read))
}

#[test]
fn a_hook_is_a_run_with_other_words() {
    as_pid_one(|| async {
        let processes = processes();
        let mut runner = ProcessRunner::new(processes.clone(), Arc::new(spec()));
        runner.open().await.unwrap();
        let path = processes.cgroups().unwrap().path().join("web");
        let mut known = Vec::new();
        // A bare name is looked up as the service's own is.
        let before: &[&str] = &["sh", "-c", TELL, "before"];
        let after: &[&str] = &["sh", "-c", TELL, "after"];
        for (number, command, name) in
            [(1, Some(before), "before"), (1, None, "main"), (1, Some(after), "after")]
        {
            let (running, text) = run(&mut runner, number, command).await;
            assert_eq!(running.exit.await, Exit::Status(4), "{name}");
            let text = text.await;
            let (own, cgroup) = text.split_once("0::").unwrap();
            assert_eq!(own, format!("{name}\n33\n/usr\nof the service /run/n {number}\n"));
            assert!(cgroup.ends_with("/kelson/web\n"), "{cgroup}");
            let made = std::fs::metadata(&path).unwrap().ino();
            assert_eq!(runner.stop(PATIENT).await.unwrap(), StopReport::default());
            assert!(!known.contains(&made), "each run has a new cgroup: one before may have divided its own");
            known.push(made);
        }
        runner.close().await.unwrap();
    });
}

#[test]
fn what_a_hook_leaves_is_gone_before_the_next_run() {
    as_pid_one(|| async {
        let mut runner = ProcessRunner::new(processes(), Arc::new(spec()));
        runner.open().await.unwrap();
        let (running, _text) =
            run(&mut runner, 1, Some(&["/bin/sh", "-c", "setsid sleep 1000 & exit 0"])).await;
        assert_eq!(running.exit.await, Exit::Status(0));
        runner.stop(PATIENT).await.unwrap();
        eventually("the stray is gone", || all_processes().is_empty()).await;
        let (running, text) = run(&mut runner, 1, None).await;
        assert_eq!(running.exit.await, Exit::Status(4));
        assert!(text.await.starts_with("main\n33\n"));
        // One that goes on is ended as any run is.
        runner.stop(PATIENT).await.unwrap();
        let (running, _text) = run(&mut runner, 1, Some(&["sleep", "1000"])).await;
        assert!(!runner.stop(PATIENT).await.unwrap().killed);
        assert_eq!(running.exit.await, Exit::Signal { signal: libc::SIGTERM, core: false });
        runner.close().await.unwrap();
    });
}

#[test]
fn a_hook_is_executed_itself_where_the_service_is_a_personality() {
    as_pid_one(|| async {
        let binary = std::fs::File::open("/bin/false").unwrap();
        let mut runner =
            ProcessRunner::new(processes(), Arc::new(spec())).with_binary(Arc::new(binary.into()));
        runner.open().await.unwrap();
        for (command, status) in [(None, 1), (Some(["/bin/sh", "-c", "exit 6"].as_slice()), 6)] {
            let (running, _text) = run(&mut runner, 1, command).await;
            assert_eq!(running.exit.await, Exit::Status(status));
            runner.stop(PATIENT).await.unwrap();
        }
        runner.close().await.unwrap();
    });
}

#[test]
fn a_hook_that_is_missing_is_named() {
    as_pid_one(|| async {
        let mut runner = ProcessRunner::new(processes(), Arc::new(spec()));
        runner.open().await.unwrap();
        let (_, write) = pipe();
        let context = RunContext {
            command: Some(vec!["/opt/before".into()]),
            ..RunContext::new(1, write.try_clone().unwrap(), write)
        };
        let error = runner.run(context).await.map(|_| ()).unwrap_err();
        assert_eq!(error.message, "/opt/before: no such file or directory");
        runner.stop(PATIENT).await.unwrap();
        let (running, _text) = run(&mut runner, 1, None).await;
        assert_eq!(running.exit.await, Exit::Status(4));
        runner.stop(PATIENT).await.unwrap();
        runner.close().await.unwrap();
    });
}
