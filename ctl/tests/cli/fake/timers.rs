//! Two services with a schedule.

use kelson_proto::v1::timers_server::Timers;
use kelson_proto::v1::*;
use tonic::{Request, Response};

use super::{Answer, Shared};
use crate::samples::at;

#[tonic::async_trait]
impl Timers for Shared {
    async fn list(&self, _: Request<ListTimersRequest>) -> Answer<ListTimersResponse> {
        self.note("timers".to_owned())?;
        let timer = |service: &str, schedule: &str, trouble: &str| Timer {
            service: service.to_owned(),
            schedule: schedule.to_owned(),
            overlap: "forbid".to_owned(),
            state: kelson_proto::v1::State::Finished.into(),
            trouble: trouble.to_owned(),
            ..Timer::default()
        };
        let backup = Timer {
            next: at(7_226_582_400),
            last: at(1_577_836_800),
            ..timer("backup", "2199-01-01 00:00 UTC", "")
        };
        let lost = timer("lost", "daily X/Y", "daily X/Y names the time zone X/Y");
        Ok(Response::new(ListTimersResponse { timers: vec![backup, lost] }))
    }
}
