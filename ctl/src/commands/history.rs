//! `history`: the configurations that the host keeps.

use std::time::SystemTime;

use kelson_proto::v1::{Generation, HistoryRequest, HistoryResponse};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Page, Table, Terminal, Tone, cell, or_dash, some, time, toned, views};

/// List the configurations that were applied
///
/// The host keeps the last ten. Generation 0 is its own folder, /etc/kelson.
///
/// Examples:
///   kelsonctl history
///   kelsonctl history -o json | jq '.[] | select(.current).number'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

views! {
    Generation: kept { number, current, applied, author: some(&kept.author), message: some(&kept.message), reverted }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let history = answer(call.client()?.configuration().history(HistoryRequest {})).await?;
        call.show(&history.generations, || Page::Table(table(&history, &call.terminal)))?;
        if let Some(at) = &history.rollback_at {
            let left = time::relative(time::left(at, SystemTime::now()));
            call.note(&format!(
                "`kelsonctl confirm` within {left} keeps the one in force; else the host leaves it"
            ));
        }
        Ok(())
    }
}

fn table(history: &HistoryResponse, terminal: &Terminal) -> Table {
    let now = SystemTime::now();
    let state = |kept: &&Generation| match (kept.current, kept.reverted) {
        (true, _) if history.rollback_at.is_some() => toned(Tone::Waiting, "on trial"),
        (true, _) => toned(Tone::Good, "in force"),
        (false, true) => toned(Tone::Bad, "not confirmed"),
        (false, false) => cell("-"),
    };
    Table::of(&history.generations)
        .right("GENERATION", |kept| kept.number.to_string())
        .left("STATE", state)
        .left("APPLIED", |kept| or_dash(kept.applied.as_ref().map(|at| terminal.time(at, now))))
        .left("AUTHOR", |kept| match kept.number {
            0 => cell("the host's own files"),
            _ => cell(&kept.author),
        })
        .cut("MESSAGE", |kept| or_dash(some(&kept.message)))
        .into()
}
