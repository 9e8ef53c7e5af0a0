//! The messages of `kelson-probe` to PID 1.

use std::sync::Arc;
use std::time::Duration;

use kelson_services::prober::{CheckAnswer, Launchers, Place, Prober, Schedule, Sink};
use kelson_spec::service::Probe;

use crate::logd::Says;
use crate::time;

struct Heard;

impl Sink for Heard {
    fn take(&self, answer: CheckAnswer) {
        assert!(answer.text.len() <= 64 << 10);
    }
}

/// Packets of a probe, each with its length before it; the checks 0 to 2 are being asked.
pub fn frames(data: &[u8]) {
    let launcher = Arc::new(Says(data.to_vec()));
    let launchers = Launchers { networks: launcher.clone(), sockets: launcher };
    time::within(Duration::from_secs(2), async {
        let (prober, driver, mut reports) = Prober::new(launchers);
        let schedule = Schedule {
            probe: Probe::tcp(80),
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
