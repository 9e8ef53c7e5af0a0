//! S6: streams of events and logs end by themselves with the last event, and no client holds the shutdown up, not even
//! one that does not read any more.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use kelson_tests::{Host, PATIENCE, host, until};

const LAST: &str = "services and logd have stopped, the rest follows";

#[test]
fn s6_followed_events_and_logs_end_with_the_last_one() {
    let mut host = Host::builder()
        .runs_with("web", "print=hello, notify=READY=1, await=TERM, print=goodbye", "readiness: notify")
        .up(&["web"]);
    let mut logs = host.follow(&["logs", "-f", "web"]);
    logs.find("hello", PATIENCE);
    let mut events = host.follow_events(1);
    let oldest = events.next(PATIENCE).expect("the oldest event");
    let begun = Instant::now();
    host.poweroff();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "clients held it up: {took:?}");
    let (events, how) = events.rest();
    how.ok();
    assert_eq!(events.last().map(|event| event.message.as_str()), Some(&*format!("power off: {LAST}")));
    let numbers: Vec<u64> = [&oldest].into_iter().chain(&events).map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "one is missing or double");
    let (lines, how) = logs.rest();
    how.ok();
    assert_eq!(lines, ["goodbye"]);
}

/// A client that has stopped reading.
struct Asleep(Child);

impl Asleep {
    #[track_caller]
    fn new(host: &Host, args: &[&str]) -> Asleep {
        // Nobody reads its output either.
        let mut command = host.client().command(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kelsonctl");
        Asleep(child)
    }

    #[track_caller]
    fn stop(&self) {
        let pid = self.0.id().cast_signed();
        host::send(pid, libc::SIGSTOP);
        until("the client to be stopped", PATIENCE, || {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?.contains(") T ").then_some(())
        });
    }

    /// Reads until `count` bytes of its output are there, and leaves the rest.
    #[track_caller]
    fn read(&mut self, count: usize) {
        use std::io::Read as _;
        let mut bytes = vec![0; count];
        self.0.stdout.as_mut().expect("it is piped").read_exact(&mut bytes).expect("its output");
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn s6_clients_that_do_not_read_do_not_hold_it_up() {
    let mut builder = Host::builder().runs("chatty", "'beat=1ms:4000:$DIR/chatty'");
    // More events than fit on the way to a client.
    for n in 0..60 {
        builder = builder.service(
            &format!("flap-{n}"),
            "process: {command: [$PROGRAM]}
restart: {delay: 10ms, maxDelay: 10ms}",
        );
    }
    let mut host = builder.up(&["chatty"]);
    let mut clients = Vec::new();
    for args in [&["-o", "json", "events", "-f", "--since", "1"][..], &["logs", "-f", "chatty"][..]] {
        // One is stopped, one just never reads its own output's end.
        for stopped in [true, false] {
            let mut client = Asleep::new(&host, args);
            client.read(10);
            if stopped {
                client.stop();
            }
            clients.push(client);
        }
    }
    // A slow computer needs half a minute for 3,000 events.
    until("far more events than a stream holds", 4 * PATIENCE, || (host.newest_event() > 3000).then_some(()));
    let begun = Instant::now();
    host.poweroff();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "clients held it up: {took:?}");
}
