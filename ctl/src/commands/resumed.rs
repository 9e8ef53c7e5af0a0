//! `resumed`: a machine that was resumed from a snapshot gets an identity of its own.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use kelson_api::client::Endpoint;
use kelson_proto::v1::resumed_step::Outcome;
use kelson_proto::v1::{ResumedRequest, ResumedStep};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer_within};
use crate::output::{Page, Table, Tone, or_dash, some, time, toned, views};

/// Bytes of entropy from this computer, and the most that a file may hold.
const ENTROPY: usize = 64;
const MOST: u64 = 512;
/// The host's own default, and what its answer may take beyond the time it has.
const TIMEOUT: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(5);

/// Renew the identity of a machine that was resumed from a snapshot
///
/// All clones of a snapshot continue with the same random numbers, machine id
/// and host name. Call this once for each clone, from the host of its
/// hypervisor: kelsonctl sends random bytes of its own computer, from which the
/// clone draws a new seed and a new machine id. Then Kelson notifies each
/// service as the key `resumed` of its file says, and waits for its hooks.
/// kelsonctl exits with status 1 if a step failed or was late.
///
/// Examples:
///   kelsonctl -e vsock://7:5000 resumed --hostname worker-7
///   kelsonctl resumed --entropy /run/metadata/entropy --timeout 5s
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The new host name [default: it stays as it is]
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// 32 to 512 random bytes from outside the machine
    #[arg(long, value_name = "FILE")]
    entropy: Option<PathBuf>,
    /// The longest time, such as 5s or 2m [default: 30s]
    #[arg(short, long, value_name = "D", value_parser = time::parse_timeout)]
    timeout: Option<Duration>,
}

views! {
    // `outcome`: done, failed, late or not-declared.
    ResumedStep: step { name, is_service, outcome: outcome_name(step.outcome()), message }
}

impl Run for Arguments {
    fn several(&self) -> bool {
        self.hostname.is_none()
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let entropy = match &self.entropy {
            Some(file) => read(File::open(file), MOST.saturating_add(1))
                .map_err(|error| Failure::Usage(format!("--entropy {}: {error}", file.display())))?,
            None if matches!(call.choice.resolve()?.endpoint, Endpoint::Unix(_)) => {
                return Err(Failure::Usage(
                    "this machine's own random numbers are those of its snapshot: call it from outside, or pass \
                     --entropy FILE with bytes from outside"
                        .to_owned(),
                ));
            }
            None => read(File::open("/dev/urandom"), ENTROPY as u64)
                .map_err(|error| Failure::Failed(format!("/dev/urandom: {error}")))?,
        };
        let request = ResumedRequest {
            entropy,
            hostname: self.hostname.unwrap_or_default(),
            timeout: self.timeout.map(time::to_wire),
        };
        let limit = self.timeout.unwrap_or(TIMEOUT).saturating_add(GRACE);
        let report = answer_within(limit, client.machine().resumed(request)).await?;
        call.show(&report.steps, || Page::Table(table(&report.steps)))?;
        let bad = |step: &ResumedStep| matches!(step.outcome(), Outcome::Failed | Outcome::Late);
        if report.steps.iter().any(bad) { Err(Failure::Reported) } else { Ok(()) }
    }
}

fn read(file: std::io::Result<File>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn table(steps: &[ResumedStep]) -> Table {
    Table::of(steps)
        .left("STEP", |step| match step.is_service {
            true => format!("service {}", step.name),
            false => step.name.clone(),
        })
        .left("OUTCOME", |step| toned(tone(step.outcome()), outcome_name(step.outcome())))
        .cut("MESSAGE", |step| or_dash(some(&step.message)))
        .into()
}

fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unspecified => "unknown",
        Outcome::Done => "done",
        Outcome::Failed => "failed",
        Outcome::Late => "late",
        Outcome::NotDeclared => "not-declared",
    }
}

fn tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Done => Tone::Good,
        Outcome::Failed => Tone::Bad,
        Outcome::Late => Tone::Waiting,
        Outcome::NotDeclared | Outcome::Unspecified => Tone::Quiet,
    }
}
