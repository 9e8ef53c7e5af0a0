//! `processes`: what runs, by service.

use kelson_api::client::Client;
use kelson_proto::v1::{Process, ProcessesRequest};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::looking::{gather, known};
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::tree::forest;
use crate::output::{
    Cell, Page, Rows, Table, Tone, cell, escape_bytes, or_dash, size, some, text, time, toned, views,
};
use crate::watching::Watching;

/// Show processes: those of each service, then the others
///
/// Each service is followed by its processes, children below their parents. Then
/// follow Kelson's own processes, and those that belong to no service.
///
/// Examples:
///   kelsonctl processes
///   kelsonctl processes web db
///   kelsonctl processes --sort memory --watch
#[derive(Debug, Clone, clap::Args)]
#[command(visible_alias = "ps", verbatim_doc_comment)]
pub struct Arguments {
    /// A list in this order
    #[arg(long, value_enum, value_name = "BY")]
    sort: Option<Sort>,
    /// Include threads of the kernel
    #[arg(long)]
    kernel: bool,
    #[command(flatten)]
    pub watching: Watching,
    /// Only those of these services
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// The most memory first
    Memory,
    /// The most time of processors first
    Cpu,
    /// The lowest number first
    Pid,
}

views! {
    // `service`: null where it is none's. `name`: what the kernel calls it, up to 15 characters. `command`: bytes that are
    // not UTF-8 are replaced. `state`: one letter, as `ps` has it. `descriptors`: null where the kernel did not tell.
    Process: process {
        pid, parent, service: some(&process.service), name,
        command: process.command.iter().map(|word| text::lossy(word)).collect::<Vec<_>>(), state, uid, threads,
        memory_bytes: process.resident, cpu_ms: process.cpu.unwrap_or_default(),
        age_ms: process.age.unwrap_or_default(), descriptors, kernel,
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let Arguments { sort, kernel, names, .. } = self;
        let mut all = ask(&client).await?;
        known(&client, &names, |name| all.iter().any(|process| process.service == name)).await?;
        all.retain(|process| {
            (kernel || !process.kernel) && (names.is_empty() || names.contains(&process.service))
        });
        match sort {
            None | Some(Sort::Pid) => all.sort_by_key(|process| process.pid),
            Some(Sort::Memory) => all.sort_by_key(|process| (Reverse(process.resident), process.pid)),
            Some(Sort::Cpu) => {
                all.sort_by_key(|process| (Reverse(time::span(&process.cpu)), process.pid));
            }
        }
        call.show(&all, || {
            Page::Table(match sort {
                None => tree(&all, call.terminal.unicode),
                Some(_) => list(&all),
            })
        })
    }
}

/// All processes of the host.
pub async fn ask(client: &Client) -> Result<Vec<Process>, Failure> {
    gather(client.inspect().processes(ProcessesRequest {}), |page| page.processes).await
}

/// The owners of processes, in the order of the output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Service(String),
    Kelson,
    Nobody,
    Kernel,
}

impl Owner {
    /// No service has such a name as those in parentheses.
    fn heading(&self) -> &str {
        match self {
            Owner::Service(name) => name,
            Owner::Kelson => "(Kelson)",
            Owner::Nobody => "(no service)",
            Owner::Kernel => "(kernel)",
        }
    }
}

fn tree(all: &[Process], unicode: bool) -> Table {
    let own = own(all);
    let mut owners: BTreeMap<Owner, Vec<&Process>> = BTreeMap::new();
    for process in all {
        let owner = match process.service.as_str() {
            "" if process.kernel => Owner::Kernel,
            "" if own.contains(&process.pid) => Owner::Kelson,
            "" => Owner::Nobody,
            name => Owner::Service(name.to_owned()),
        };
        owners.entry(owner).or_default().push(process);
    }
    let mut rows: Vec<Row> = Vec::new();
    for (owner, processes) in &owners {
        rows.push((toned(Tone::Strong, owner.heading()), None));
        for (rails, process) in
            forest(processes, |process| process.pid, |process| process.parent, true, unicode)
        {
            rows.push((cell(format!("{rails}{}", process.pid)), Some(process)));
        }
    }
    facts(Table::of(rows).left("SERVICE / PID", |(name, _)| name.clone())).cut("COMMAND", command).into()
}

fn list(all: &[Process]) -> Table {
    let rows = all.iter().map(|process| (cell(process.pid.to_string()), Some(process)));
    facts(Table::of(rows).right("PID", |(pid, _)| pid.clone()))
        .left("SERVICE", |(_, process)| or_dash(process.and_then(|process| some(&process.service))))
        .cut("COMMAND", command)
        .into()
}

/// The cell at the left, and the process that it is about; a heading is about none.
type Row<'a> = (Cell, Option<&'a Process>);

/// Which are Kelson's: PID 1, and what it started that has a name as its personalities have. One that gives itself such
/// a name elsewhere is none of them.
fn own(all: &[Process]) -> HashSet<i32> {
    let mut own = HashSet::from([1]);
    // In order of their PIDs a child may well stand before its parent: what is new is looked at until nothing is.
    loop {
        let more: Vec<i32> = all
            .iter()
            .filter(|process| process.service.is_empty() && process.name.starts_with("kelson-"))
            .filter(|process| own.contains(&process.parent) && !own.contains(&process.pid))
            .map(|process| process.pid)
            .collect();
        if more.is_empty() {
            return own;
        }
        own.extend(more);
    }
}

/// Adds what is the same in a tree and in a list.
fn facts<'a>(rows: Rows<Row<'a>>) -> Rows<Row<'a>> {
    let of = |field: fn(&Process) -> Cell| move |row: &Row| row.1.map(field).unwrap_or_default();
    rows.left("STATE", of(state))
        .right("USER", of(|process| cell(process.uid.to_string())))
        .spare(2)
        .right("THREADS", of(|process| cell(process.threads.to_string())))
        .spare(1)
        .right("MEMORY", of(|process| cell(size(process.resident))))
        .right("CPU", of(|process| cell(time::measured(time::span(&process.cpu)))))
        .right("AGE", of(|process| cell(time::relative(time::span(&process.age)))))
}

fn state(process: &Process) -> Cell {
    let tone = match process.state.as_str() {
        "R" => Tone::Good,
        "D" => Tone::Waiting,
        "Z" | "X" => Tone::Bad,
        _ => Tone::Plain,
    };
    toned(tone, &process.state)
}

/// Program and arguments; what has none has its name.
fn command((_, process): &Row) -> Cell {
    let Some(process) = process else { return Cell::default() };
    if process.command.is_empty() {
        return toned(Tone::Quiet, format!("[{}]", process.name));
    }
    cell(escape_bytes(&process.command.join(&b' ')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style::Palette;

    fn process(pid: i32, parent: i32, service: &str, name: &str) -> Process {
        Process {
            pid,
            parent,
            service: service.to_owned(),
            name: name.to_owned(),
            command: vec![format!("/bin/{name}").into_bytes()],
            state: "S".to_owned(),
            threads: 1,
            ..Process::default()
        }
    }

    fn names(table: &Table) -> Vec<String> {
        let text = table.render(None, Palette::None);
        let last = |line: &str| line.split("  ").last().unwrap_or_default().trim().to_owned();
        text.lines().skip(1).map(last).collect()
    }

    #[test]
    fn kelsons_own_are_those_that_it_started() {
        let all = [
            process(1, 0, "", "init"),
            process(7, 9, "", "kelson-apid"),
            process(9, 1, "", "kelson-logd"),
            process(20, 15, "", "kelson-fake"),
            process(15, 1, "", "sh"),
            process(30, 1, "web", "kelson-web"),
            Process { kernel: true, ..process(2, 0, "", "kthreadd") },
        ];
        assert_eq!(
            names(&tree(&all, true)),
            [
                "web",
                "/bin/kelson-web",
                "(Kelson)",
                "/bin/init",
                "/bin/kelson-logd",
                "/bin/kelson-apid",
                "(no service)",
                "/bin/sh",
                "/bin/kelson-fake",
                "(kernel)",
                "/bin/kthreadd"
            ]
        );
    }

    #[test]
    fn what_a_process_calls_itself_cannot_forge_the_table() {
        let mut evil = process(5, 1, "", "evil");
        evil.command = vec![b"\x1b[2J\n".to_vec(), b"\xff".to_vec()];
        let zombie = Process { command: Vec::new(), ..process(6, 5, "", "gone\x07") };
        assert_eq!(names(&list(&[evil, zombie])), ["\\x1b[2J\\n \\xff", "[gone\\x07]"]);
    }
}
