//! The plans of a fleet.

use std::time::SystemTime;

use kelson_api::client::Client;
use prost_types::Timestamp;

use super::plan_view::Shown;
use super::rolling::client_of;
use crate::call::Call;
use crate::failure::Failure;
use crate::output::{Page, Table, Terminal, Tone, cell, object, or_dash, toned, views};
use crate::rolling::plan::{Head, State};
use crate::rolling::record::{self, Listed};

#[derive(Debug, Clone, clap::Args)]
pub struct Plans {
    /// The name of one, or HOST/NAME
    #[arg(id = "plan", value_name = "NAME")]
    name: Option<String>,
    /// Remove it
    #[arg(long, requires = "plan")]
    remove: bool,
}

/// A plan, and who carries it out.
pub struct Row {
    plan: Listed,
    now: i64,
}

impl Row {
    fn head(&self) -> Option<&Head> {
        self.plan.head.as_ref().ok()
    }

    fn coordinator(&self) -> Option<&str> {
        self.plan.claim(self.now).map(|claim| claim.who.as_str())
    }

    /// `interrupted`: it is not at its end, and nobody carries it out.
    fn state(&self) -> &'static str {
        match self.head().map(|head| head.state) {
            None => "unreadable",
            Some(State::Running) if self.coordinator().is_none() => "interrupted",
            Some(state) => state.word(),
        }
    }
}

views! {
    // `host`: the one that keeps the plan. `state`: running, interrupted, stopped, done, unreadable. `coordinator`: null where
    // nobody carries it out. The rest is null where the plan cannot be read.
    Row: row {
        name: row.plan.name, host: row.plan.host, action: row.head().map(|head| head.action.text()), state: row.state(),
        hosts: row.head().map(Head::hosts), done: row.head().map(|head| head.done), failed: row.head().map(|head| head.failed),
        by: row.head().map(|head| head.by.as_str()), began: row.head().map(began), coordinator: row.coordinator(),
        problem: row.plan.head.as_ref().err(),
    }
}

fn began(head: &Head) -> Timestamp {
    Timestamp { seconds: head.began, nanos: 0 }
}

impl Plans {
    pub async fn run(self, call: &Call, client: &Client) -> Result<(), Failure> {
        let Some(name) = self.name else {
            let (plans, now) = record::all(client).await?;
            let rows: Vec<Row> = plans.into_iter().map(|plan| Row { plan, now }).collect();
            return call.show(&rows, || Page::Table(table(&rows, &call.terminal)));
        };
        let (plan, now) = record::find(client, &name).await?;
        if self.remove {
            record::remove(&client_of(call, client, &plan.host).await?, &plan, now).await?;
            let line = || Page::Lines(format!("the plan {} is removed\n", plan.name));
            return call.show(&object!(removed: plan.name), line);
        }
        let whole = record::read(client, &plan).await?;
        let shown = Shown::new(&plan.host, &plan.name, &whole);
        call.show(&shown, || shown.page(&call.terminal))
    }
}

/// Those that are not at their end.
pub async fn unfinished(client: &Client) -> Result<Vec<Row>, Failure> {
    let (plans, now) = record::all(client).await?;
    let rows = plans.into_iter().map(|plan| Row { plan, now });
    Ok(rows.filter(|row| row.head().is_some_and(|head| head.state == State::Running)).collect())
}

pub fn table(rows: &[Row], terminal: &Terminal) -> Table {
    let now = SystemTime::now();
    let tone = |row: &Row| match row.state() {
        "done" => Tone::Good,
        "running" => Tone::Busy,
        "interrupted" => Tone::Waiting,
        _ => Tone::Bad,
    };
    let of = |row: &Row, text: fn(&Head) -> String| or_dash(row.head().map(text));
    Table::of(rows)
        .left("NAME", |row| cell(&row.plan.name))
        .left("HOST", |row| cell(&row.plan.host))
        .cut("ACTION", |row| of(row, |head| head.action.text()))
        .left("STATE", |row| toned(tone(row), row.state()))
        .right("DONE", |row| of(row, |head| format!("{} of {}", head.done, head.hosts())))
        .right("FAILED", |row| of(row, |head| head.failed.to_string()))
        .left("BY", |row| of(row, |head| head.by.clone()))
        .left("BEGAN", |row| or_dash(row.head().map(|head| terminal.time(&began(head), now))))
        .spare(1)
        .into()
}
