//! The messages of `kelson-logd` to PID 1, and the files of logs that it reads.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_services::collector::{Collector, Copying, LogOptions};

use crate::input::Input;
use crate::time;

#[path = "../../../helpers/logd/src/line.rs"]
#[allow(dead_code, reason = "what else is in it is for logd")]
mod line;
#[path = "../../../helpers/logd/src/run.rs"]
#[allow(dead_code, reason = "what else is in it is for logd")]
mod run;

/// Says its packets, and is silent from then on.
pub struct Says(pub Vec<u8>);

impl Launcher for Says {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let socket = UnixDatagram::from(start.take(CONTROL).expect("it has one"));
        let mut input = Input(&self.0);
        while !input.is_empty() {
            // The socket may be full by then.
            let _ = socket.send(input.piece());
        }
        let launched = Launched {
            pid: 7,
            start_time: 7,
            exit: Box::pin(async move {
                let _open = socket;
                std::future::pending().await
            }),
            kill: Box::new(|| {}),
        };
        Box::pin(std::future::ready(Ok(launched)))
    }
}

/// Packets of a logd, each with its length before it.
pub fn packets(data: &[u8]) {
    let launcher = Arc::new(Says(data.to_vec()));
    time::within(Duration::from_secs(3), async {
        let (collector, driver, mut reports) =
            Collector::new(launcher, "/var/log/kelson".into()).expect("a collector");
        let options = LogOptions {
            max_size: 1 << 20,
            max_files: 3,
            rate_limit: None,
            console: false,
            copy: Copying::Nothing,
        };
        let _pipes = [collector.pipes("web", 1, options), collector.pipes("db", 1, options)];
        tokio::select! {
            () = driver => {}
            () = async { while reports.recv().await.is_some() {} } => {}
        }
    });
}

/// A file of logs, and what a pipe gave.
pub fn files(data: &[u8]) {
    let mut clock = line::Clock::default();
    for text in data.split(|byte| *byte == b'\n') {
        let Some(found) = line::parse(text) else { continue };
        let mut written = Vec::new();
        clock.append(&mut written, found);
        let again =
            line::parse(written.strip_suffix(b"\n").unwrap_or(&written)).expect("what was written is a line");
        if found.time >= 0 {
            let known = |line: line::Line<'_>| (line.time, line.source, line.run, line.partial);
            assert_eq!(known(again), known(found));
        }
    }
    let mut held = Vec::new();
    let (mut bytes, mut whole) = (0, 0);
    for piece in data.chunks(1 + data.len() / 5) {
        line::split(&mut held, piece, |text, partial| {
            assert!(text.len() <= line::LONGEST);
            bytes += text.len();
            whole += usize::from(!partial);
        });
    }
    let ends = data.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(
        (bytes + held.len(), whole),
        (data.len() - ends, ends),
        "no byte is lost, and none comes twice"
    );
}
