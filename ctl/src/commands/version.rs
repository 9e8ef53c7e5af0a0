//! `version`: of this program and of the host.

use std::time::SystemTime;

use kelson_proto::v1::{VersionRequest, VersionResponse};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Page, Table, Tone, escape, object, time, toned, views};

const CLIENT: &str = env!("CARGO_PKG_VERSION");

/// Show the versions of kelsonctl and of the host's Kelson
///
/// Examples:
///   kelsonctl version
///   kelsonctl version --client
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Only the version of kelsonctl; calls no host
    #[arg(long)]
    client: bool,
}

views! {
    // `reexecs`: how often PID 1 has executed itself again since, as it was asked to. `crashes`: how often it has crashed
    // since, and gone on.
    VersionResponse: version { version, mode, missing_features, hostname, kernel, started, reexecs, crashes }
}

impl Run for Arguments {
    fn several(&self) -> bool {
        !self.client
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let server = if self.client { Ok(None) } else { ask(call).await.map(Some) };
        // Beside other hosts, what kelsonctl is itself says nothing of one that did not answer.
        if call.node.is_some()
            && let Err(failure) = server
        {
            return Err(failure);
        }
        let known = server.as_ref().ok().and_then(Option::as_ref);
        let view = object!(client: CLIENT, server: known.cloned());
        call.show(&view, || match call.node {
            None => Page::Text(lines(known, SystemTime::now())),
            // That of kelsonctl is the same beside each of several hosts.
            Some(_) => Page::Table(table(known, SystemTime::now())),
        })?;
        server.map(drop)
    }
}

async fn ask(call: &Call) -> Result<VersionResponse, Failure> {
    answer(call.client()?.machine().version(VersionRequest {})).await
}

fn lines(server: Option<&VersionResponse>, now: SystemTime) -> String {
    let mut out = format!("kelsonctl  {CLIENT}\n");
    if let Some(server) = server {
        out += &format!("kelson     {} ({} mode)\n", escape(&server.version), escape(&server.mode));
        if !server.missing_features.is_empty() {
            let features = server.missing_features.iter().map(|feature| escape(feature).to_string());
            out += &format!("without    {}\n", features.collect::<Vec<_>>().join(", "));
        }
        out += &format!("host       {}\n", escape(&server.hostname));
        out += &format!("kernel     {}\n", escape(&server.kernel));
        if let (Some(started), Some(uptime)) = (&server.started, uptime(server, now)) {
            out += &format!("started    {} ({uptime} ago)\n", time::rfc3339(started));
        }
        if server.reexecs > 0 {
            out += &format!("reexecs    {}\n", server.reexecs);
        }
        if server.crashes > 0 {
            out += &format!("crashes    {} (kelsonctl events tells of them)\n", server.crashes);
        }
    }
    out
}

fn uptime(server: &VersionResponse, now: SystemTime) -> Option<String> {
    time::age(&server.uptime, &server.started, now).map(time::relative)
}

fn table(server: Option<&VersionResponse>, now: SystemTime) -> Table {
    let started = |server: &VersionResponse| uptime(server, now).map(|uptime| format!("{uptime} ago"));
    let crashes = |count| if count > 0 { Tone::Waiting } else { Tone::Quiet };
    Table::of(server)
        .left("VERSION", |server| &server.version)
        .left("MODE", |server| &server.mode)
        .left("HOST", |server| &server.hostname)
        .cut("KERNEL", |server| &server.kernel)
        .left("STARTED", |server| started(server).unwrap_or_default())
        .right("REEXECS", |server| toned(Tone::Quiet, server.reexecs.to_string()))
        .right("CRASHES", |server| toned(crashes(server.crashes), server.crashes.to_string()))
        .into()
}
