use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use kelson_proto::v1::{LogdCommand, LogdReport, logd_command, logd_report};

use super::*;
use crate::launch::Start;
use crate::transport::Packet;

/// Starts a task that answers each ping with the next of these versions, and ends when it is asked to.
struct TestLauncher {
    versions: Mutex<Vec<&'static str>>,
    /// The socket of a helper that runs already.
    attached: Mutex<Option<OwnedFd>>,
}

impl TestLauncher {
    fn serve(&self, socket: OwnedFd) -> Launched {
        let version = self.versions.lock().unwrap().remove(0);
        let serve = async move {
            let socket = Watched::reading(socket).unwrap();
            let mut receiver = Receiver::new(TO_HELPER);
            loop {
                let packet: Packet<LogdCommand> = socket
                    .async_io(Interest::READABLE, |socket| receiver.receive(socket.as_fd()))
                    .await
                    .unwrap()
                    .unwrap();
                match packet.message.command.unwrap() {
                    logd_command::Command::Ping(ping) => {
                        let pong = HelperPong { version: version.to_owned(), ..pong(&ping) };
                        let report = LogdReport { report: Some(logd_report::Report::Pong(pong)) };
                        transport::send(socket.as_fd(), &report, FROM_HELPER, &[]).unwrap();
                    }
                    logd_command::Command::Stop(_) => return "stopped as asked".to_owned(),
                    _ => {}
                }
            }
        };
        let kill = Box::new(|| {});
        Launched { pid: 7, start_time: 7, exit: Box::pin(serve), kill }
    }
}

impl Launcher for TestLauncher {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let launched = self.serve(start.take(crate::CONTROL).unwrap());
        Box::pin(std::future::ready(Ok(launched)))
    }

    fn attach(&self, _pid: i32, _start_time: u64) -> Option<Launched> {
        self.attached.lock().unwrap().take().map(|socket| self.serve(socket))
    }
}

/// Notes each message of the status, without repetitions.
#[derive(Default)]
struct TestDuty(Vec<String>);

impl Expectations for TestDuty {
    fn silence(&self) -> Option<Duration> {
        None
    }
}

impl Duty for TestDuty {
    type Order = ();
    type Command = LogdCommand;
    type Report = LogdReport;

    fn orders(&self) -> Vec<()> {
        Vec::new()
    }

    fn command(&mut self, order: &Order<()>, _now: Instant) -> Option<(LogdCommand, Vec<BorrowedFd<'_>>)> {
        let command = match order {
            Order::Ping => logd_command::Command::Ping(ping()),
            Order::Stop { within } => logd_command::Command::Stop(stop(*within)),
            Order::Own(()) => return None,
        };
        Some((LogdCommand { command: Some(command) }, Vec::new()))
    }

    fn sent(&mut self, _order: Order<()>, _result: io::Result<()>, _now: Instant) {}

    fn received(&mut self, packet: Packet<LogdReport>, _now: Instant) -> Reply<()> {
        match packet.message.report {
            Some(logd_report::Report::Pong(pong)) => Reply::Pong(pong),
            other => Reply::Broken(format!("{other:?}")),
        }
    }

    fn up(&mut self, _now: Instant) {}

    fn ended(&mut self, _end: &End, _now: Instant) {}

    fn publish(&mut self, status: &Status) {
        self.0.push(status.message.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_helper_of_another_version_is_replaced() {
    let policy = Policy {
        answer: AnswerTimes { usual: Duration::from_secs(9), first: Duration::from_secs(9) },
        pause: Duration::ZERO,
        tolerated: 0,
        longest_alive: Duration::from_secs(1),
    };
    let (control, theirs) = transport::pair().unwrap();
    // Releases before 0.5 name none.
    let launcher = Arc::new(TestLauncher {
        versions: Mutex::new(vec!["", "9.9.9", "9.9.9", VERSION]),
        attached: Mutex::new(Some(theirs)),
    });
    let mut duty = TestDuty::default();
    let mut supervisor = Supervisor::new(launcher, policy, Status::new("not started yet"), "");
    supervisor.attach(control, (7, 7), 0, &mut duty, Instant::now()).unwrap();
    supervisor.want(&mut duty, Instant::now());
    while duty.0.iter().filter(|message| *message == "running").count() < 4 {
        let wake = supervisor.next(&duty, None).await;
        supervisor.advance(wake, &mut duty, Instant::now());
    }
    // The previous release has started the first one, which may finish. PID 1 has started the others itself: they are
    // no better the next time, so there are pauses between them.
    let asked = "it has ended as it was asked to, the next one is started";
    let other = format!("is of Kelson \"9.9.9\" instead of {VERSION} and was killed; the next is started");
    let (at_once, paused) = (format!("{other} at once"), format!("{other} in 100 ms"));
    let expected = [
        "running", asked, "started", "running", &at_once, "started", "running", &paused, "started", "running",
    ];
    assert_eq!(duty.0, expected);
    assert_eq!(supervisor.status.restarts, 2);
    // Nothing else follows: no timer, no message.
    let quiet = tokio::time::timeout(Duration::from_millis(50), supervisor.next(&duty, None)).await;
    assert!(quiet.is_err());
}
