//! `reload`: the host reads its files again, or services read theirs.

use kelson_proto::v1::{ReloadRequest, ReloadResponse, ReloadServicesRequest};

use super::acting::{describe_outcome, is_bad, show};
use crate::call::{Call, Run};
use crate::failure::{Failure, answer, explain_names};
use crate::output::{Page, escape};

/// Read the files of the host again, or make services reload
///
/// Without a name, Kelson reads its own files again, and kelsonctl prints what
/// changed. New services start, removed ones stop. A service whose file changed
/// runs on: `kelsonctl restart NAME` applies the change, and so does each
/// restart that Kelson makes by itself. A service that waits uses its new file
/// at once. If a file has a mistake, kelsonctl prints it and exits with status
/// 1.
///
/// With names, each of these services does what the key `reload` of its file
/// says: hooks run beside its main process, and then that gets a signal.
/// kelsonctl waits for the hooks.
///
/// Examples:
///   kelsonctl reload
///   kelsonctl reload nginx
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The services that reload
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let names = self.names;
        if !names.is_empty() {
            let request = ReloadServicesRequest { names: names.clone() };
            let results = match client.services().reload_services(request).await {
                Ok(answer) => answer.into_inner().results,
                Err(status) => return Err(explain_names(Failure::from(status), &client, &names).await),
            };
            show(call, &results, describe_outcome)?;
            return if results.iter().any(is_bad) { Err(Failure::Reported) } else { Ok(()) };
        }
        let report = answer(client.services().reload(ReloadRequest {})).await?;
        call.show(&report, || Page::Lines(lines(&report)))?;
        report.errors.iter().for_each(|error| call.note(error));
        if report.errors.is_empty() { Ok(()) } else { Err(Failure::Reported) }
    }
}

/// A line for each service and each key of machine.yaml that changed.
fn lines(report: &ReloadResponse) -> String {
    let service = |what: &str, name: &String| format!("{name}: {what}");
    let key = |what: &str, name: &String| format!("machine.yaml, {name}: {what}");
    let not_started = report.added.iter().filter(|name| !report.started.contains(name));
    let lines = report
        .started
        .iter()
        .map(|name| service("new, started", name))
        .chain(not_started.map(|name| service("new, not started", name)))
        .chain(report.stopped.iter().map(|name| service("removed, stopped", name)))
        .chain(report.changed.iter().map(|name| match report.next_run.contains(name) {
            true => service("changed; its next run uses it", name),
            false => service(&format!("changed; `kelsonctl restart {name}` applies it"), name),
        }))
        .chain(report.faulty.iter().map(|name| service("mistake in its file, not applied", name)))
        .chain(report.groups.iter().map(|name| format!("group {name}: changed, applied")))
        .chain(report.applied.iter().map(|name| key("changed, applied", name)))
        .chain(report.waiting.iter().map(|name| key("changed; the next boot applies it", name)));
    let text: String = lines.map(|line| escape(&line).into_owned() + "\n").collect();
    if text.is_empty() { "nothing changed\n".to_owned() } else { text }
}
