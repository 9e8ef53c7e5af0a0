//! The messages to PID 1 of the process that watches paths on disks.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use kelson_conditions::{BoxFuture, Condition as _, Paths};
use kelson_helper::{CONTROL, Launched, Launcher, Start};

use crate::time;

/// Says its bytes, and is silent from then on.
struct Says(Vec<u8>);

impl Launcher for Says {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let launched = start.take(CONTROL).map(UnixStream::from).and_then(|mut socket| {
            // They fit into the socket.
            socket.write_all(&self.0)?;
            let exit = Box::pin(std::future::pending());
            // Open for as long as it can be killed.
            Ok(Launched { pid: 7, start_time: 0, exit, kill: Box::new(move || _ = &socket) })
        });
        Box::pin(std::future::ready(launched))
    }
}

/// The bytes of a stream.
pub fn frames(data: &[u8]) {
    time::within(Duration::from_secs(5), async {
        let paths = Paths::new(Arc::new(Says(data.to_vec())));
        // On the root's disk: in memory there would be nobody to ask.
        let mut conditions = [paths.condition("/kelson-fuzz-1"), paths.condition("/kelson-fuzz-2")];
        for condition in &mut conditions {
            let _ = tokio::time::timeout(Duration::from_secs(1), condition.wait()).await;
            let _ = kelson_conditions::sentence(&condition.missing());
        }
    });
}
