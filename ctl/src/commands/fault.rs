//! `fault`: has PID 1 crash, for the tests of what comes after. Not in releases.

use kelson_proto::test::v1::{Fault, ProvokeRequest};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};

/// Have PID 1 crash
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// panic, panic-in-thread, abort, segv, stack-overflow, spin or deadlock
    fault: String,
}

/// Returns once the connection has broken, which is the answer.
impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let name = format!("FAULT_{}", self.fault.replace('-', "_").to_uppercase());
        let Some(fault) = Fault::from_str_name(&name) else {
            return Err(Failure::Usage(format!("{} is no fault that is known", self.fault)));
        };
        let client = call.client()?;
        let provoked = answer(client.faults().provoke(ProvokeRequest { fault: fault.into() })).await;
        match provoked {
            Err(failure) if failure.is_passing() => Ok(()),
            Err(failure) => Err(failure),
            Ok(_) => Err(Failure::Failed("PID 1 has not crashed".to_owned())),
        }
    }
}
