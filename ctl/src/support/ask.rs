//! The questions, one after the other: each has its own time, and none is in the way of the next.

use std::future::Future;
use std::io;
use std::time::Duration;

use kelson_api::client::Client;
use kelson_apid::openmetrics;
use kelson_proto::v1::{
    BootRequest, DmesgRequest, EventsRequest, GetMetricsRequest, GraphRequest, Line, ListHealthRequest,
    ListImagesRequest, ListRequest, ReadRequest, StatusRequest, VersionRequest, WhyRequest,
};
use serde_yaml::Value;

use super::pack::{Keep, Missing, Pack};
use super::redact::Redactor;
use crate::commands::looking::gather;
use crate::commands::{
    cgroups, clock, cpu, disks, dmesg, facts, fleet, graph, memory, metrics, mounts, netstat, network,
    processes, registry,
};
use crate::failure::{Failure, answer, answer_within};
use crate::output::{Format, Palette, Progress, View, joined, object, some, stream_name, time};

/// The parts of the report, and how much of each.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// The number of last lines of each log.
    pub lines: u32,
    /// The timeout for each answer.
    pub timeout: Duration,
    /// Its clock is another than the one here.
    pub is_remote: bool,
}

/// The host reads archives for the images: the timeout of that question is this many times longer.
const IMAGES: u32 = 4;
/// So often in a row a host may be out of reach before it is asked no more.
const LOST: u32 = 2;

/// Asks, takes secrets out, and notes what could not be had.
pub struct Asker<'a> {
    client: &'a Client,
    progress: Progress,
    pub redactor: Redactor,
    pub missing: Vec<Missing>,
    /// Why the first question failed that did.
    pub first: Option<Failure>,
    lost: u32,
    /// For one answer.
    timeout: Duration,
    version: Option<Value>,
}

impl<'a> Asker<'a> {
    pub fn new(client: &'a Client, timeout: Duration, progress: Progress) -> Asker<'a> {
        let (redactor, missing) = (Redactor::default(), Vec::new());
        Asker { client, progress, redactor, missing, first: None, lost: 0, timeout, version: None }
    }

    /// The answer, where there is one.
    async fn ask<T>(&mut self, name: &str, question: impl Future<Output = Result<T, Failure>>) -> Option<T> {
        self.ask_within(self.timeout, name, question).await
    }

    async fn ask_within<T>(
        &mut self,
        timeout: Duration,
        name: &str,
        question: impl Future<Output = Result<T, Failure>>,
    ) -> Option<T> {
        if self.lost >= LOST {
            self.miss(name, "not asked: the host is out of reach");
            return None;
        }
        self.progress.show(name);
        let failure = match tokio::time::timeout(timeout, question).await {
            Ok(Ok(answer)) => {
                self.lost = 0;
                return Some(answer);
            }
            Ok(Err(failure)) => failure,
            Err(_) => Failure::TimedOut(format!("no answer within {}", kelson_spec::duration_text(timeout))),
        };
        self.lost = if failure.is_passing() { self.lost + 1 } else { 0 };
        self.miss(name, &failure.to_string());
        self.first.get_or_insert(failure);
        None
    }

    fn miss(&mut self, name: &str, why: &str) {
        // A reason may be in the host's words.
        let why = self.redactor.text(why);
        self.missing.push(Missing { name: name.to_owned(), why });
    }

    fn put(&mut self, pack: &mut Pack, name: &str, text: &str, keep: Keep) -> io::Result<()> {
        if !pack.add(name, text, keep)? {
            self.miss(name, "the archive is full");
        }
        Ok(())
    }

    /// A document for programs.
    fn document(&mut self, pack: &mut Pack, name: &str, view: &impl View) -> io::Result<()> {
        let mut value = view.view();
        self.redactor.value(&mut value);
        let text = Format::Json.document(&value).map_err(|failure| io::Error::other(failure.to_string()))?;
        self.put(pack, name, &text, Keep::Beginning)
    }

    /// The document of an answer, where there is one.
    async fn answer<V: View>(
        &mut self,
        pack: &mut Pack,
        name: &str,
        question: impl Future<Output = Result<V, Failure>>,
    ) -> io::Result<()> {
        match self.ask(name, question).await {
            Some(answer) => self.document(pack, name, &answer),
            None => Ok(()),
        }
    }

    fn text(&mut self, pack: &mut Pack, name: &str, text: &str, keep: Keep) -> io::Result<()> {
        let text = self.redactor.text(text);
        self.put(pack, name, &text, keep)
    }

    /// The host's name, by which the archive is called.
    pub async fn version(&mut self) -> Option<String> {
        let client = self.client;
        let question = async { answer(client.machine().version(VersionRequest {})).await };
        let version = self.ask("version.json", question).await?;
        self.version = Some(object!(client: env!("CARGO_PKG_VERSION"), server: version));
        Some(version.hostname)
    }

    /// All that can be had.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub async fn all(&mut self, pack: &mut Pack, extent: Extent) -> io::Result<()> {
        if let Some(version) = self.version.take() {
            self.document(pack, "version.json", &version)?;
        }
        self.services(pack, extent.lines).await?;
        self.history(pack).await?;
        self.machine(pack, extent.is_remote).await
    }

    async fn services(&mut self, pack: &mut Pack, lines: u32) -> io::Result<()> {
        let client = self.client;
        let question = async { answer(client.services().list(ListRequest::default())).await };
        let services = self.ask("services.json", question).await.map(|list| list.services);
        if let Some(services) = &services {
            self.document(pack, "services.json", services)?;
        }
        for service in services.iter().flatten() {
            let asked = service.name.clone();
            let file = format!("status/{}.json", name(&asked));
            let question =
                async { answer(client.services().status(StatusRequest { name: asked.clone() })).await };
            self.answer(pack, &file, question).await?;
            if !service.up {
                let file = format!("why/{}.json", name(&asked));
                let request = WhyRequest { name: asked.clone() };
                let question =
                    async { Ok(answer(client.services().why(request)).await?.reason.unwrap_or_default()) };
                self.answer(pack, &file, question).await?;
            }
            let file = format!("logs/{}.log", name(&asked));
            let request = ReadRequest { names: vec![asked], tail: Some(lines), ..ReadRequest::default() };
            let question = gather(async { client.logs().read(request).await }, |page| page.lines);
            if let Some(lines) = self.ask(&file, question).await {
                let text = self.log(lines);
                self.put(pack, &file, &text, Keep::End)?;
            }
        }
        let question = async { answer(client.services().graph(GraphRequest {})).await };
        if let Some(answer) = self.ask("graph.dot", question).await {
            self.text(pack, "graph.dot", &graph::dot(&answer), Keep::Beginning)?;
            self.text(pack, "graph.txt", &graph::text(&answer, Palette::None, true), Keep::Beginning)?;
        }
        let question = async {
            let answer = answer(client.health().list(ListHealthRequest {})).await?;
            Ok(joined(answer.node.unwrap_or_default().view(), object!(groups: answer.groups)))
        };
        self.answer(pack, "health.json", question).await
    }

    /// `TIME STREAM TEXT`, a line each. Lines that were written in pieces are put together first: half a
    /// secret looks like none.
    fn log(&mut self, lines: Vec<Line>) -> String {
        let (mut fronts, mut texts) = (Vec::new(), Vec::<String>::new());
        let mut open: Option<i32> = None;
        for line in lines {
            let text = String::from_utf8_lossy(&line.text).into_owned();
            match texts.last_mut().filter(|_| open == Some(line.stream)) {
                Some(last) => last.push_str(&text),
                None => {
                    let at = line.time.as_ref().map(time::rfc3339).unwrap_or_default();
                    let stream = some(stream_name(line.stream())).unwrap_or("-");
                    fronts.push(format!("{at} {stream} "));
                    texts.push(text);
                }
            }
            open = line.partial.then_some(line.stream);
        }
        let texts = self.redactor.lines(texts);
        fronts.into_iter().zip(texts).map(|(front, text)| front + &text + "\n").collect()
    }

    async fn history(&mut self, pack: &mut Pack) -> io::Result<()> {
        let client = self.client;
        let events =
            gather(async { client.services().events(EventsRequest::default()).await }, |page| page.events);
        self.answer(pack, "events.json", events).await?;
        let question = async { answer(client.machine().boot(BootRequest {})).await };
        self.answer(pack, "boot.json", question).await?;
        let timeout = self.timeout * IMAGES;
        let question = async { answer_within(timeout, client.images().list(ListImagesRequest {})).await };
        if let Some(answer) = self.ask_within(timeout, "images.json", question).await {
            self.document(pack, "images.json", &answer.images)?;
            if !answer.notes.is_empty() {
                self.text(pack, "images.txt", &(answer.notes.join("\n") + "\n"), Keep::Beginning)?;
            }
        }
        let question = metrics::ask(client, GetMetricsRequest::default());
        if let Some(families) = self.ask("metrics.txt", question).await {
            let mut text = openmetrics::Text::default();
            families.iter().for_each(|family| text.family(family));
            self.text(pack, "metrics.txt", &(text.take() + openmetrics::END), Keep::Beginning)?;
        }
        let messages =
            gather(async { client.machine().dmesg(DmesgRequest { follow: false }).await }, |page| {
                page.messages
            });
        if let Some(messages) = self.ask("dmesg.txt", messages).await {
            let line = |message: &kelson_proto::v1::KernelMessage| {
                format!("<{}>{} {}\n", message.level, dmesg::stamp(message), message.text)
            };
            let text: String = messages.iter().map(line).collect();
            self.text(pack, "dmesg.txt", &text, Keep::End)?;
        }
        Ok(())
    }

    async fn machine(&mut self, pack: &mut Pack, is_remote: bool) -> io::Result<()> {
        let client = self.client;
        self.answer(pack, "processes.json", processes::ask(client)).await?;
        self.answer(pack, "netstat.json", netstat::ask(client, true)).await?;
        self.answer(pack, "network.json", network::ask(client)).await?;
        self.answer(pack, "mounts.json", mounts::ask(client)).await?;
        self.answer(pack, "disks.json", disks::ask(client)).await?;
        self.answer(pack, "facts.json", facts::ask(client)).await?;
        self.answer(pack, "registry.json", registry::ask(client)).await?;
        self.answer(pack, "fleet.json", fleet::status::ask(client)).await?;
        self.answer(pack, "memory.json", memory::ask(client)).await?;
        let timeout = self.timeout + cpu::INTERVAL;
        if let Some((cpu, _)) = self.ask_within(timeout, "cpu.json", cpu::ask(client, cpu::INTERVAL)).await {
            self.document(pack, "cpu.json", &cpu)?;
        }
        let question =
            async { cgroups::ask(client).await.map(|(root, all)| object!(root: root, cgroups: all)) };
        self.answer(pack, "cgroups.json", question).await?;
        self.answer(pack, "time.json", clock::ask(client, is_remote)).await
    }
}

/// A word of the host as part of a file's name: it leads nowhere and is none that is hidden.
pub fn name(word: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = word.chars().take(64).map(safe).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None if name.is_empty() => "_".to_owned(),
        None => name,
    }
}
