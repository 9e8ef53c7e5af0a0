//! The container runner over a containerd that is played: answers that are lost, slow or no, leftovers, and starts
//! that are given up at each step.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use containerd_client::services::v1::Container;
use containerd_client::types::v1::Status;
use kelson_containerd::testing::{Fake, Fault, State, Task};
use kelson_runner::{
    Attachment, BoxFuture, ContainerRunner, Containerd, Exit, ImageConfig, Images, Options, Processes,
    RunContext, Runner, RunnerError, Running, StopPlan,
};
use kelson_spec::ServiceSpec;
use kelson_spec::service::{ContainerSpec, Workload};
use tokio::time::timeout;

/// Of an `open` and a `run`, in their order.
const STEPS: [&str; 9] = [
    "Tasks/Get",
    "Containers/Get",
    "Leases/Create",
    "Snapshots/Prepare",
    "Containers/Create",
    "Snapshots/Mounts",
    "Containers/Update",
    "Tasks/Create",
    "Tasks/Start",
];
const GENTLE: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_secs(5) };

/// An image with this signal for its stop.
struct Prepared(Option<i32>);

impl Images for Prepared {
    fn prepare<'a>(
        &'a self,
        _: &'a str,
        container: &'a ContainerSpec,
    ) -> BoxFuture<'a, Result<ImageConfig, RunnerError>> {
        let (image, snapshotter) = (container.image.clone(), String::from("overlayfs"));
        let (command, stop_signal) = (vec![String::from("/serve")], self.0);
        let config = ImageConfig { image, snapshotter, command, stop_signal, ..Default::default() };
        Box::pin(std::future::ready(Ok(config)))
    }
}

/// No images: a container that is taken up needs none.
struct Gone;

impl Images for Gone {
    fn prepare<'a>(
        &'a self,
        _: &'a str,
        _: &'a ContainerSpec,
    ) -> BoxFuture<'a, Result<ImageConfig, RunnerError>> {
        Box::pin(std::future::ready(Err(RunnerError::new("the archive is gone"))))
    }
}

struct Host {
    dir: PathBuf,
    state: Arc<Mutex<State>>,
    fake: Option<Fake>,
    runner: ContainerRunner,
}

fn runner(dir: &Path, images: impl Images + 'static) -> ContainerRunner {
    let mut spec = ServiceSpec::process("web", ["x"]);
    spec.workload = Workload::Container(ContainerSpec::new("demo/web:1"));
    ContainerRunner::new(
        Containerd::below(dir),
        Processes::new(Options::default()).unwrap(),
        Arc::new(images),
        Arc::new(spec),
        Arc::from(dir),
    )
}

impl Host {
    fn new(name: &str) -> Host {
        let dir = std::env::temp_dir().join(format!("kelson-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("containerd")).unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let runner = runner(&dir, Prepared(None));
        let mut host = Host { dir, state, fake: None, runner };
        host.serve();
        host
    }

    /// A run, and the death of the PID 1 that began it.
    async fn forsaken(&mut self) -> Attachment {
        self.runner.open().await.unwrap();
        let Running { pid, start_time, .. } = self.runner.run(context(4)).await.unwrap();
        self.runner = runner(&self.dir, Gone);
        Attachment { run: 4, pid, start_time, opened: true }
    }

    fn serve(&mut self) {
        let socket = self.dir.join("containerd/containerd.sock");
        self.fake = Some(Fake::start(&socket, Arc::clone(&self.state)));
    }

    fn fault(&self, call: &str, fault: Fault) {
        self.state.lock().unwrap().fault(call, &[fault]);
    }

    fn count(&self, call: &str) -> usize {
        self.state.lock().unwrap().count(call)
    }

    fn nothing_is_left(&self, why: &str) {
        let state = self.state.lock().unwrap();
        assert!(state.task.is_none(), "a task after {why}");
        assert!(state.containers.is_empty(), "a container after {why}");
        assert!(state.active.is_empty(), "a snapshot after {why}");
        assert!(state.leases.is_empty(), "a lease after {why}");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn context(run: u64) -> RunContext {
    let pipe = || -> OwnedFd { nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap().1 };
    RunContext::new(run, pipe(), pipe())
}

async fn exit_of(running: Running) -> Exit {
    timeout(Duration::from_secs(10), running.exit).await.unwrap()
}

const TERMINATED: Exit = Exit::Signal { signal: libc::SIGTERM, core: false };

#[tokio::test]
async fn c5_the_container_is_made_once_and_a_task_each_run() {
    let mut host = Host::new("c5");
    host.runner.open().await.unwrap();
    for run in [1, 2] {
        let running = host.runner.run(context(run)).await.unwrap();
        let spec = host.state.lock().unwrap().containers["web"].spec.clone().unwrap();
        assert!(String::from_utf8(spec.value).unwrap().contains(&format!(":web:{run}\"")));
        let report = host.runner.stop(GENTLE).await.unwrap();
        assert!(!report.killed && report.left_behind == 0);
        assert_eq!(exit_of(running).await, TERMINATED);
        assert!(host.state.lock().unwrap().task.is_none(), "deleted before the next");
    }
    host.runner.close().await.unwrap();
    assert_eq!((host.count("Containers/Create"), host.count("Tasks/Create")), (1, 2));
    host.nothing_is_left("a close");
}

#[tokio::test]
async fn a_task_whose_end_the_shim_has_yet_to_see_is_not_killed_again() {
    for (unseen, kills) in [(5, 0), (1000, 1)] {
        let mut host = Host::new("unseen");
        host.runner.open().await.unwrap();
        let _running = host.runner.run(context(1)).await.unwrap();
        host.state.lock().unwrap().unseen = unseen;
        host.runner.stop(GENTLE).await.unwrap();
        assert!(host.state.lock().unwrap().task.is_none());
        assert_eq!(host.count("Tasks/Kill"), kills, "{unseen} late answers");
    }
}

#[tokio::test]
async fn c4_an_answer_that_is_lost_is_asked_for_again() {
    for step in STEPS {
        let mut host = Host::new("lost");
        host.fault(step, Fault::LostAnswer);
        host.runner.open().await.unwrap();
        let running = host.runner.run(context(1)).await.unwrap();
        assert_eq!(host.state.lock().unwrap().started, 1, "{step}");
        host.runner.stop(GENTLE).await.unwrap();
        assert_eq!(exit_of(running).await, TERMINATED, "{step}");
        host.runner.close().await.unwrap();
        host.nothing_is_left(step);
    }
}

#[tokio::test]
async fn c4_a_start_that_comes_through_late_is_no_failure() {
    let mut host = Host::new("late");
    host.fault("Tasks/Start", Fault::LostAnswer);
    host.runner.open().await.unwrap();
    // At a question the shim answers that the process waits for its start; at a start, that it runs.
    host.state.lock().unwrap().unseen = 1;
    let running = host.runner.run(context(1)).await.unwrap();
    assert_eq!((host.count("Tasks/Start"), host.state.lock().unwrap().started), (2, 1));
    host.runner.stop(GENTLE).await.unwrap();
    assert_eq!(exit_of(running).await, TERMINATED);
    host.runner.close().await.unwrap();
    host.nothing_is_left("a close");
}

#[tokio::test]
async fn v6_what_is_refused_is_named_and_what_was_made_is_undone() {
    for step in STEPS {
        let mut host = Host::new("refused");
        host.fault(step, Fault::Refused);
        let opened = host.runner.open().await;
        let preparing = opened.is_err();
        let error = match opened {
            Err(error) => error,
            Ok(()) => host.runner.run(context(1)).await.map(|_| ()).unwrap_err(),
        };
        assert!(error.message.contains(&format!("{step} is refused")), "{error}");
        if preparing {
            host.nothing_is_left(step);
        }
        host.runner.stop(GENTLE).await.unwrap();
        host.runner.close().await.unwrap();
        host.nothing_is_left(step);
    }
}

#[tokio::test]
async fn g3_a_start_that_is_given_up_at_any_step_leaves_nothing() {
    let slow = STEPS.map(|step| (step, Fault::Slow(Duration::from_secs(1))));
    let hangs = Fault::Slow(Duration::from_secs(3));
    for (step, fault) in slow.into_iter().chain([("Tasks/Create", hangs), ("Tasks/Start", hangs)]) {
        let mut host = Host::new("given-up");
        host.fault(step, fault);
        let work = async {
            host.runner.open().await.unwrap();
            host.runner.run(context(1)).await.map(drop)
        };
        assert!(timeout(Duration::from_millis(150), work).await.is_err(), "{step}");
        let begun = Instant::now();
        host.runner.stop(GENTLE).await.unwrap();
        host.runner.close().await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(6), "{step}: {:?}", begun.elapsed());
        assert!(host.state.lock().unwrap().task.is_none(), "{step}");
        host.runner.open().await.unwrap();
        host.runner.close().await.unwrap();
        host.nothing_is_left(step);
    }
}

#[tokio::test]
async fn c4_a_task_that_was_made_half_way_is_made_again() {
    let mut host = Host::new("half");
    host.runner.open().await.unwrap();
    host.fault("Tasks/Create", Fault::Halfway);
    let running = timeout(Duration::from_secs(10), host.runner.run(context(1))).await.unwrap().unwrap();
    host.runner.stop(GENTLE).await.unwrap();
    assert_eq!(exit_of(running).await, TERMINATED);
    host.runner.close().await.unwrap();
    assert!(!host.state.lock().unwrap().shim);
    host.nothing_is_left("half a task");
}

#[tokio::test]
async fn c1_any_leftovers_of_an_earlier_life_go() {
    for left in 0..16 {
        let has = |bit: u32| left & (1 << bit) != 0;
        let mut host = Host::new("left");
        {
            let mut state = host.state.lock().unwrap();
            if has(0) {
                state
                    .containers
                    .insert("web".into(), Container { snapshotter: "old".into(), ..Default::default() });
            }
            if has(1) {
                state.active.insert("web".into(), String::new());
            }
            if has(2) {
                state.task = Some(Task::new(if has(0) { Status::Running } else { Status::Created }));
            }
            if has(3) {
                state.leases.insert("kelson-web".into());
            }
        }
        host.runner.open().await.unwrap();
        let running = host.runner.run(context(1)).await.unwrap();
        host.runner.stop(GENTLE).await.unwrap();
        assert_eq!(exit_of(running).await, TERMINATED);
        host.runner.close().await.unwrap();
        host.nothing_is_left("leftovers");
    }
}

#[tokio::test]
async fn a_container_that_was_removed_by_another_hand_is_made_again() {
    let mut host = Host::new("vanished");
    host.runner.open().await.unwrap();
    host.state.lock().unwrap().containers.clear();
    host.runner.run(context(1)).await.unwrap();
    host.runner.stop(GENTLE).await.unwrap();
    host.runner.close().await.unwrap();
    assert_eq!(host.count("Containers/Create"), 2);
    host.nothing_is_left("it had vanished");
}

#[tokio::test]
async fn g3_a_start_that_waits_for_containerd_is_given_up_at_once() {
    let mut host = Host::new("waits");
    host.runner.open().await.unwrap();
    host.fake = None;
    // Long enough for its pauses to be of two seconds.
    assert!(timeout(Duration::from_millis(4000), host.runner.run(context(1))).await.is_err());
    let begun = Instant::now();
    host.runner.stop(GENTLE).await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn c4_a_connection_that_breaks_is_no_exit() {
    let mut host = Host::new("broken");
    host.runner.open().await.unwrap();
    let Running { mut exit, pid, .. } = host.runner.run(context(1)).await.unwrap();
    for _ in 0..3 {
        host.fake.as_ref().unwrap().break_off();
        assert!(timeout(Duration::from_millis(400), &mut exit).await.is_err());
    }
    host.fake = None;
    assert!(timeout(Duration::from_millis(500), &mut exit).await.is_err());
    // It ends while containerd is away; the status is there when that is back.
    // SAFETY: numbers, of a child that the test made and nobody reaps but the test.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    host.serve();
    assert_eq!(timeout(Duration::from_secs(10), exit).await.unwrap(), TERMINATED);
    host.runner.stop(GENTLE).await.unwrap();
    host.runner.close().await.unwrap();
    host.nothing_is_left("a break");
}

#[tokio::test]
async fn c4_a_process_that_containerd_forgot_is_lost_only_once_it_has_ended() {
    let mut host = Host::new("forgot");
    host.runner.open().await.unwrap();
    let Running { mut exit, .. } = host.runner.run(context(1)).await.unwrap();
    let forgotten = host.state.lock().unwrap().task.take();
    assert!(timeout(Duration::from_millis(800), &mut exit).await.is_err());
    drop(forgotten);
    let exit = timeout(Duration::from_secs(10), exit).await.unwrap();
    // A newer kernel knows more than containerd.
    assert!(matches!(exit, Exit::Lost | Exit::Signal { signal: 9, .. }), "{exit:?}");
    host.runner.stop(GENTLE).await.unwrap();
    host.runner.close().await.unwrap();
    host.nothing_is_left("it was forgotten");
}

#[tokio::test]
async fn a_containerd_that_is_away_fails_a_close_at_once_and_the_next_open_makes_up_for_it() {
    let mut host = Host::new("away");
    host.runner.open().await.unwrap();
    let running = host.runner.run(context(1)).await.unwrap();
    host.fake = None;
    let begun = Instant::now();
    assert!(!host.runner.stop(GENTLE).await.unwrap().killed);
    let error = host.runner.close().await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert!(error.message.starts_with("containerd does not answer: "), "{error}");
    assert!(error.message.ends_with("what service web left in it is removed by its next start"), "{error}");
    drop(running);
    // Cancelled by dropping, however long it would wait.
    assert!(timeout(Duration::from_millis(300), host.runner.open()).await.is_err());
    host.serve();
    host.runner.open().await.unwrap();
    host.runner.close().await.unwrap();
    host.nothing_is_left("it was away");
}

#[tokio::test]
async fn c4_a_next_life_takes_a_container_up() {
    let mut host = Host::new("taken-up");
    host.runner = runner(&host.dir, Prepared(Some(libc::SIGINT)));
    let kept = host.forsaken().await;
    let mut running = host.runner.attach(kept).await.unwrap().unwrap();
    assert_eq!((running.pid, running.start_time), (kept.pid, kept.start_time));
    assert!(timeout(Duration::from_millis(300), &mut running.exit).await.is_err(), "no exit");
    assert!(host.runner.attach(kept).await.is_err(), "it runs already");
    assert!(!host.runner.stop(GENTLE).await.unwrap().killed);
    // The image's own signal, which this incarnation never heard from the image.
    assert_eq!(exit_of(running).await, Exit::Signal { signal: libc::SIGINT, core: false });
    let running = host.runner.run(context(5)).await.unwrap();
    host.runner.stop(GENTLE).await.unwrap();
    assert_eq!(exit_of(running).await, Exit::Signal { signal: libc::SIGINT, core: false });
    host.runner.close().await.unwrap();
    assert_eq!((host.count("Containers/Create"), host.count("Tasks/Create")), (1, 2));
    host.nothing_is_left("it was taken up");
}

#[tokio::test]
async fn c4_a_container_is_taken_up_while_containerd_is_away() {
    let mut host = Host::new("taken-away");
    let kept = host.forsaken().await;
    host.fake = None;
    let begun = Instant::now();
    let mut running = host.runner.attach(kept).await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(timeout(Duration::from_millis(500), &mut running.exit).await.is_err(), "no exit");
    assert!(!host.runner.stop(GENTLE).await.unwrap().killed);
    host.serve();
    assert!(matches!(exit_of(running).await, TERMINATED | Exit::Lost));
    let running = host.runner.run(context(5)).await.unwrap();
    host.runner.stop(GENTLE).await.unwrap();
    assert_eq!(exit_of(running).await, TERMINATED);
    host.runner.close().await.unwrap();
    host.nothing_is_left("it was taken up without containerd");
}

#[tokio::test]
async fn v5_a_container_that_ended_between_two_lives_is_told_of() {
    for containerd_is_away in [false, true] {
        let mut host = Host::new("taken-late");
        let kept = host.forsaken().await;
        {
            let mut state = host.state.lock().unwrap();
            let child = &mut state.task.as_mut().unwrap().child;
            child.kill().unwrap();
            child.wait().unwrap();
        }
        if containerd_is_away {
            host.fake = None;
        }
        let mut running = host.runner.attach(kept).await.unwrap().unwrap();
        if containerd_is_away {
            assert!(timeout(Duration::from_millis(300), &mut running.exit).await.is_err(), "not lost yet");
            host.serve();
        }
        assert_eq!(exit_of(running).await, Exit::Signal { signal: libc::SIGKILL, core: false });
        host.runner.stop(GENTLE).await.unwrap();
        host.runner.close().await.unwrap();
        host.nothing_is_left("it had ended");
    }
}

#[tokio::test]
async fn v3_a_stranger_is_not_taken_for_a_container() {
    let own = i32::try_from(std::process::id()).unwrap();
    for change in [0, 1, 2, 3] {
        let mut host = Host::new("stranger");
        let kept = host.forsaken().await;
        let told = match change {
            0 => Attachment { pid: own, ..kept },
            1 => Attachment { pid: own, start_time: 0, ..kept },
            2 => Attachment { pid: 0, ..kept },
            _ => Attachment { opened: false, ..kept },
        };
        assert!(host.runner.attach(told).await.unwrap().is_none(), "{change}");
        host.runner.stop(GENTLE).await.unwrap();
        if told.opened {
            // Its preparations are cleared away all the same.
            host.runner.close().await.unwrap();
            host.nothing_is_left("nothing was taken up");
        } else {
            assert!(host.state.lock().unwrap().task.is_some(), "it was left as it is");
        }
    }
}
