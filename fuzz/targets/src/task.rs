//! What PID 1 and `kelson-task` say to each other: words in one direction, a line in the other.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use kelson_conditions::BoxFuture;
use kelson_fuzz_init::task::{Launcher, Request, run};

use crate::time;

/// Arguments, each ended by a NUL.
pub fn words(data: &[u8]) {
    let words: Vec<OsString> =
        data.split(|byte| *byte == 0).take(64).map(|word| OsString::from_vec(word.to_vec())).collect();
    let Ok(request) = Request::from_arguments(&words) else { return };
    let arguments = request.to_arguments().expect("no word of it holds a NUL");
    let again: Vec<OsString> =
        arguments.iter().skip(1).map(|word| OsString::from_vec(word.to_bytes().to_vec())).collect();
    assert_eq!(Request::from_arguments(&again), Ok(request));
}

struct Says<'a>(&'a [u8]);

impl Launcher for Says<'_> {
    fn launch(&self, _: Vec<CString>, output: OwnedFd) -> BoxFuture<'_, io::Result<()>> {
        // It fits into a pipe.
        let written = File::from(output).write_all(self.0);
        Box::pin(std::future::ready(written))
    }
}

/// The answer as PID 1 takes it.
pub fn answer(data: &[u8]) {
    let launcher = Says(data);
    let answer =
        time::within(Duration::from_secs(60), run(&launcher, &Request::Sync, Duration::from_secs(10)));
    let answer = answer.expect("it keeps its deadline");
    let text = answer.unwrap_or_else(|error| error.to_string());
    assert!(text.len() < 64 << 10);
}
