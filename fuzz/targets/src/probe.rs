//! What `kelson-probe` tells PID 1.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::{BoxFuture, Launched};
use kelson_services::prober::{CheckAnswer, Launcher, Place, Prober, Schedule, Sink};
use kelson_spec::service::{Asks, NetworkProbe};

use crate::time;

/// Says its bytes, and is silent from then on.
struct Says(Vec<u8>);

impl Launcher for Says {
    fn launch(&self, control: OwnedFd, _: &Place) -> BoxFuture<'static, io::Result<Launched>> {
        let mut socket = UnixStream::from(control);
        // They fit into the socket.
        let written = socket.write_all(&self.0);
        let launched = Launched {
            pid: 7,
            start_time: 0,
            exit: Box::pin(async move {
                let _open = socket;
                std::future::pending().await
            }),
            kill: Box::new(|| {}),
        };
        Box::pin(std::future::ready(written.map(|()| launched)))
    }
}

struct Heard;

impl Sink for Heard {
    fn take(&self, answer: CheckAnswer) {
        assert!(answer.text.len() <= 64 << 10);
    }
}

/// The bytes of a stream; the checks 0 to 2 are being asked.
pub fn frames(data: &[u8]) {
    let launcher = Arc::new(Says(data.to_vec()));
    time::within(Duration::from_secs(2), async {
        let (prober, driver, mut reports) = Prober::new(launcher);
        let schedule = Schedule {
            probe: NetworkProbe { address: NetworkProbe::ADDRESS, port: 80, asks: Asks::Tcp },
            initial_delay: Duration::ZERO,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            grace: Duration::ZERO,
            success_threshold: 1,
        };
        let _watches = [(); 3].map(|()| prober.watch(Place::Host, schedule.clone(), Arc::new(Heard)));
        tokio::select! {
            () = driver => {}
            () = async { while reports.recv().await.is_some() {} } => {}
        }
    });
}
