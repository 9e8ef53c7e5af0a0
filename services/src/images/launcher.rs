//! Starting `kelson-unpack`.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;

use kelson_image::{BoxFuture, Launched, Launcher, NAME, REPORT_DESCRIPTOR};

use crate::helpers::{HelperKind, HelperLauncher};

/// Each needs less than this for any archive.
pub const UNPACK: HelperKind = HelperKind { name: NAME, cgroup: "_unpack", memory: 64 << 20 };

/// Starts them by their arguments and the pipe to which they report.
pub struct UnpackLauncher(pub HelperLauncher);

impl Launcher for UnpackLauncher {
    fn launch(&self, arguments: Vec<OsString>, report: OwnedFd) -> BoxFuture<'static, io::Result<Launched>> {
        let start = self.0.launch(|command| {
            command.args(arguments.into_iter().map(OsString::into_vec)).descriptor(report, REPORT_DESCRIPTOR)
        });
        Box::pin(async move {
            let helper = start.await?;
            Ok(Launched { pid: helper.pid, exit: helper.exit, kill: helper.kill })
        })
    }
}
