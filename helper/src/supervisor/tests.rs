use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use kelson_proto::v1::{LogdCommand, LogdReport, logd_command, logd_report};

use super::*;
use crate::launch::Start;
use crate::transport::Packet;

/// Starts a task that answers each ping with the next of these versions, and ends when it is asked to.
struct TestLauncher(Mutex<Vec<&'static str>>);

impl Launcher for TestLauncher {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let version = self.0.lock().unwrap().remove(0);
        let socket = start.take(crate::CONTROL).unwrap();
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
        let launched = Launched { pid: 7, start_time: 7, exit: Box::pin(serve), kill };
        Box::pin(std::future::ready(Ok(launched)))
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

#[tokio::test]
async fn a_helper_of_another_version_is_replaced_in_order() {
    let policy = Policy {
        answer: AnswerTimes { usual: Duration::from_secs(9), first: Duration::from_secs(9) },
        pause: Duration::ZERO,
        tolerated: 0,
        longest_alive: Duration::ZERO,
    };
    // Releases before 0.5 name none.
    let launcher = Arc::new(TestLauncher(Mutex::new(vec!["", "9.9.9", VERSION])));
    let mut duty = TestDuty::default();
    let mut supervisor = Supervisor::new(launcher, policy, Status::new("not started yet"), "");
    supervisor.want(&mut duty, Instant::now());
    while duty.0.iter().filter(|message| *message == "running").count() < 3 {
        let wake = supervisor.next(&duty, None).await;
        supervisor.advance(wake, &mut duty, Instant::now());
    }
    let asked = "it has ended as it was asked to, the next one is started";
    assert_eq!(duty.0, ["started", "running", asked, "started", "running", asked, "started", "running"]);
    assert_eq!(supervisor.status.restarts, 0);
    // Nothing else follows: no timer, no message.
    let quiet = tokio::time::timeout(Duration::from_millis(50), supervisor.next(&duty, None)).await;
    assert!(quiet.is_err());
}
