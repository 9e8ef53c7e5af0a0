//! The messages of `kelson-unpack` to PID 1 over its pipe.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_image::{Purpose, UnpackFailure, Unpacker, UnpackerOptions};

use crate::time;

struct Says(Vec<u8>);

impl Launcher for Says {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let report = start.take(CONTROL).expect("it has one");
        // It fits into the pipe.
        let written = File::from(report).write_all(&self.0);
        let launched = Launched {
            pid: 7,
            start_time: 0,
            exit: Box::pin(std::future::ready("exited with status 0".to_owned())),
            kill: Box::new(|| {}),
        };
        Box::pin(std::future::ready(written.map(|()| launched)))
    }
}

/// The first byte says what was asked for, the rest is the pipe's.
pub fn reports(data: &[u8]) {
    let Some((what, said)) = data.split_first() else { return };
    let options = UnpackerOptions {
        images: Vec::new(),
        containerd_socket: "/containerd.sock".into(),
        runtime_dir: "/run".into(),
        state_dir: "/var".into(),
        verify: Vec::new(),
    };
    let unpacker = Unpacker::new(Arc::new(Says(said.to_vec())), options);
    let work = async {
        match what % 3 {
            0 => unpacker.unpack("a:1", Purpose::Volume, |_| {}).await.map(drop),
            1 => unpacker.list().await.map(drop),
            _ => unpacker.prune(Vec::new(), false).await.map(drop),
        }
    };
    let ended = time::within(Duration::from_secs(600), work).expect("it gives up in time");
    if let Err(UnpackFailure { text, .. }) = ended {
        assert!(text.chars().count() <= 5000 && !text.chars().any(char::is_control), "{text:?}");
    }
}
