//! The messages between PID 1 and `kelson-task`: words in one direction, a line in the other.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use kelson_fuzz_init::task::{Request, run};
use kelson_helper::{BoxFuture, Launched, Launcher, Start};

use crate::time;

/// Arguments, each ended by a NUL.
pub fn words(data: &[u8]) {
    let words: Vec<OsString> =
        data.split(|byte| *byte == 0).take(64).map(|word| OsString::from_vec(word.to_vec())).collect();
    let Ok(request) = Request::from_arguments(&words) else { return };
    assert_eq!(Request::from_arguments(&request.to_arguments()), Ok(request));
}

struct Says(Vec<u8>);

impl Launcher for Says {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let output = start.take(libc::STDOUT_FILENO).expect("it has one");
        // It fits into a pipe.
        let written = File::from(output).write_all(&self.0);
        let exit = Box::pin(std::future::ready("exited with status 0".to_owned()));
        let launched = Launched { pid: 7, start_time: 0, exit, kill: Box::new(|| {}) };
        Box::pin(std::future::ready(written.map(|()| launched)))
    }
}

/// The answer as PID 1 takes it.
pub fn answer(data: &[u8]) {
    let launcher = Says(data.to_vec());
    let answer =
        time::within(Duration::from_secs(60), run(&launcher, &Request::Sync, Duration::from_secs(10)));
    let answer = answer.expect("it keeps its deadline");
    let text = answer.unwrap_or_else(|error| error.to_string());
    assert!(text.len() < 64 << 10);
}
