//! What the process that watches paths on disks tells PID 1.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use kelson_conditions::{BoxFuture, Condition as _, Helper, HelperSpawner, Paths};

use crate::time;

/// Says its bytes, and is silent from then on.
struct Says(Vec<u8>);

impl HelperSpawner for Says {
    fn spawn(&self) -> BoxFuture<'static, io::Result<Helper>> {
        let helper = UnixStream::pair().and_then(|(ours, mut theirs)| {
            // They fit into the socket.
            theirs.write_all(&self.0)?;
            Ok(Helper { socket: ours.into(), lease: Box::new(theirs) })
        });
        Box::pin(std::future::ready(helper))
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
