//! `logs`: what services wrote, byte for byte; on a terminal, what could steer it is shown instead of sent.

mod runs;

use std::time::{Duration, Instant, SystemTime};

use kelson_api::client::Client;
use kelson_proto::v1::line::Stream;
use kelson_proto::v1::{Line, ListRequest, ReadRequest};

use runs::Runs;

use crate::call::{Call, Run};
use crate::failure::{Failure, all_known, answer, explain_names};
use crate::follow::{Log, Reconnect};
use crate::output::{
    Terminal, Tone, escape, escape_bytes, note_of, print, print_bytes, stream_name, text, time, views, width,
};

/// Names that kelson-logd takes in one call.
const MOST: usize = 256;

/// Show the logs of services
///
/// Without a name, or with --all, it shows the logs of all services of the host,
/// in the order of time, with the name before each line.
///
/// On a terminal each line begins with its time, a line marks the start of a new
/// run, and control characters are escaped. Otherwise all bytes are written as
/// they are. While following, kelsonctl opens a broken connection again.
///
/// Examples:
///   kelsonctl logs web
///   kelsonctl logs --since 1m
///   kelsonctl logs -f --tail 20 web db
///   kelsonctl logs --since 10m --until 5m --times web
///   kelsonctl logs --previous web
///   kelsonctl logs --run 7 --grep 'connection refused' web
///   kelsonctl logs --all --tail 100
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Continue with new lines
    #[arg(short, long)]
    follow: bool,
    /// At most the last N lines (-n names nodes)
    #[arg(long, value_name = "N")]
    tail: Option<u32>,
    /// Only lines of the last time, such as 30s or 10m
    #[arg(long, value_name = "D", value_parser = time::parse)]
    since: Option<Duration>,
    /// Only lines that are older, such as 5m
    #[arg(long, value_name = "D", value_parser = time::parse, conflicts_with = "follow")]
    until: Option<Duration>,
    /// Only lines of the service's run with this number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "follow")]
    run: Option<u64>,
    /// Only lines of the run before the current one
    #[arg(short, long, conflicts_with_all = ["follow", "run"])]
    previous: bool,
    /// Only lines that contain this text (no pattern)
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Put the time before each line, not only on a terminal
    #[arg(short, long)]
    times: bool,
    /// Put no time before each line
    #[arg(long, conflicts_with = "times")]
    no_times: bool,
    /// The logs of all services, as without a name
    #[arg(short, long, conflicts_with = "names")]
    all: bool,
    /// The services [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

views! {
    // `stream`: stdout, stderr, or note for what logd itself says. `text`: bytes that are not UTF-8 are replaced.
    // `run`: where it is known. `boot`: the same for all lines of one start of the host; runs count from there.
    Line: line {
        service, time, stream: stream_name(line.stream()), text: text::lossy(&line.text), partial,
        run: Some(line.run).filter(|run| *run > 0),
        boot: Some(line.boot).filter(|boot| *boot > 0).map(|boot| format!("{boot:04x}")),
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let asked_all = self.names.is_empty();
        let names = if asked_all { all(&client).await? } else { self.names };
        if self.follow && !asked_all {
            // Nothing would ever come, and nothing would tell why.
            all_known(&client, &names).await?;
        }
        let times = self.times || (call.terminal.is_terminal && !self.no_times);
        let mut reader = Reader {
            writer: Writer::new(&call.terminal, &names, times, asked_all).of(call),
            call,
            runs: (call.is_table() && call.terminal.is_terminal).then(Runs::default),
            log: Log::new(ReadRequest {
                names: names.clone(),
                follow: self.follow,
                tail: self.tail,
                last: self.since.map(time::to_wire),
                until: self.until.map(time::to_wire),
                run: self.run,
                previous: self.previous,
                text: self.grep.unwrap_or_default().into_bytes(),
            }),
            reconnect: call.reconnect(),
        };
        // logd reported its own end: another one takes its place, unless the host ends too.
        let mut ended: Option<Instant> = None;
        loop {
            let reason = match reader.stream(&client).await {
                Ok(()) if !self.follow => break,
                Ok(()) => {
                    ended = Some(Instant::now());
                    Failure::NotReachable("the stream of logs has ended".to_owned())
                }
                Err(failure) if failure.is_passing() && is_recent(ended) && has_ended(&client).await => break,
                Err(failure) => failure,
            };
            if let Err(failure) = reader.reconnect.follow(self.follow, reason).await {
                return Err(explain_names(failure, &client, &names).await);
            }
            reader.log.begin_again();
        }
        reader.writer.finish()?;
        if reader.log.is_empty() && !self.follow {
            if !asked_all {
                all_known(&client, &names).await?;
            }
            match self.run {
                Some(run) => call.note(&format!("no such line of run {run} is kept")),
                None if self.previous => call.note("no such line of a run before the current one is kept"),
                None => {}
            }
        }
        Ok(())
    }
}

/// The names of all services.
///
/// # Errors
/// The host cannot be asked, or has more services than one call takes.
async fn all(client: &Client) -> Result<Vec<String>, Failure> {
    let listed = answer(client.services().list(ListRequest::default())).await?.services;
    let names: Vec<String> = listed.into_iter().map(|service| service.name).collect();
    match names.len() {
        0 => Err(Failure::Failed("the host has no services".to_owned())),
        1..=MOST => Ok(names),
        count => Err(Failure::Usage(format!(
            "the host has {count} services, and one call takes {MOST}; name those to read"
        ))),
    }
}

/// So long before the host's end logd may have ended: it is among the last to stop.
fn is_recent(ended: Option<Instant>) -> bool {
    ended.is_some_and(|at| at.elapsed() < Duration::from_secs(10))
}

/// Nobody is there any more who could start another logd.
async fn has_ended(client: &Client) -> bool {
    matches!(answer(client.services().list(ListRequest::default())).await, Err(failure) if failure.is_passing())
}

struct Reader<'a> {
    call: &'a Call,
    writer: Writer,
    /// Set if the output names the run of lines.
    runs: Option<Runs>,
    log: Log,
    reconnect: Reconnect,
}

impl Reader<'_> {
    /// One stream to its end.
    async fn stream(&mut self, client: &Client) -> Result<(), Failure> {
        let mut batches = client.logs().read(self.log.request.clone()).await?.into_inner();
        self.reconnect.reached = true;
        self.log.connected();
        while let Some(batch) = batches.message().await? {
            self.reconnect.works();
            for line in &self.log.news(batch.lines) {
                if self.call.is_table() {
                    if let Some(runs) = &mut self.runs
                        && let Some(change) = runs.change(line)
                    {
                        self.writer.mark(&change.service, &runs.describe(client, &change).await)?;
                    }
                    self.writer.line(line)?;
                } else {
                    print(&self.call.item(line, String::new)?)?;
                }
            }
            self.writer.flush()?;
        }
        Ok(())
    }
}

/// Writes lines as they are, or safe for a terminal.
struct Writer {
    terminal: Terminal,
    times: bool,
    /// How wide the names in front are; `None`: one service, no name.
    names: Option<usize>,
    /// One of several hosts, by its name, and what stands for it in front of each line.
    node: Option<(String, String)>,
    buffer: Vec<u8>,
    /// The last line has no end yet: it goes on with the next of the same service and stream.
    open: Option<(String, i32)>,
}

impl Writer {
    /// `named`: the name of the service stands before each line, also if there is one alone.
    fn new(terminal: &Terminal, names: &[String], times: bool, named: bool) -> Writer {
        let widest = names.iter().map(|name| width(name)).max();
        Writer {
            terminal: *terminal,
            times,
            names: widest.filter(|_| named || names.len() > 1),
            node: None,
            buffer: Vec::new(),
            open: None,
        }
    }

    /// For one of several hosts, whose lines come between those of the others.
    fn of(self, call: &Call) -> Writer {
        let node = call.node.as_ref().map(|node| (node.name().to_owned(), node.front(&call.terminal)));
        Writer { node, ..self }
    }

    fn line(&mut self, line: &Line) -> Result<(), Failure> {
        if line.stream() == Stream::Note {
            self.flush()?;
            let text = format!("{}: {}", line.service, String::from_utf8_lossy(&line.text));
            note_of(self.node.as_ref().map(|(name, _)| name.as_str()), &text);
            return Ok(());
        }
        let source = (line.service.clone(), line.stream);
        if self.open.as_ref().is_some_and(|open| *open != source) {
            self.buffer.push(b'\n');
            self.open = None;
        }
        if self.open.is_none() {
            self.front(line);
        }
        if self.terminal.is_terminal {
            let text = escape_bytes(&line.text);
            let tone = if line.stream() == Stream::Stderr { Tone::Waiting } else { Tone::Plain };
            self.buffer.extend(self.terminal.palette.paint(tone, &text).as_bytes());
        } else {
            self.buffer.extend(&line.text);
        }
        // An open line here would continue behind a line of another host.
        self.open = if line.partial && self.node.is_none() {
            Some(source)
        } else {
            self.buffer.push(b'\n');
            None
        };
        if self.buffer.len() > 1 << 16 {
            self.flush()?;
        }
        Ok(())
    }

    /// A line between those of two runs.
    fn mark(&mut self, service: &str, text: &str) -> Result<(), Failure> {
        if self.open.take().is_some() {
            self.buffer.push(b'\n');
        }
        self.node_front();
        let dash = if self.terminal.unicode { "──" } else { "--" };
        let service = if self.names.is_some() { format!("{}: ", escape(service)) } else { String::new() };
        let mark = format!("{dash} {service}{text} {dash}");
        self.buffer.extend(self.terminal.palette.paint(Tone::Quiet, &mark).as_bytes());
        self.buffer.push(b'\n');
        self.flush()
    }

    fn node_front(&mut self) {
        if let Some((_, front)) = &self.node {
            self.buffer.extend(front.as_bytes());
        }
    }

    fn front(&mut self, line: &Line) {
        let palette = self.terminal.palette;
        self.node_front();
        if let (true, Some(when)) = (self.times, &line.time) {
            let when = self.terminal.time(when, SystemTime::now());
            self.buffer.extend(format!("{} ", palette.paint(Tone::Quiet, &when)).as_bytes());
        }
        if let Some(widest) = self.names {
            let name = format!("{:<widest$} |", escape(&line.service));
            self.buffer.extend(format!("{} ", palette.paint(Tone::Quiet, &name)).as_bytes());
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        print_bytes(&std::mem::take(&mut self.buffer))
    }

    /// The end: on a terminal the prompt begins on a line of its own.
    fn finish(&mut self) -> Result<(), Failure> {
        if self.open.is_some() && self.terminal.is_terminal {
            self.buffer.push(b'\n');
        }
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn line(service: &str, seconds: i64, text: &[u8], partial: bool) -> Line {
        Line { time: samples::at(seconds), partial, ..samples::line(service, text) }
    }

    fn written(terminal: &Terminal, names: &[&str], times: bool, lines: &[Line]) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut writer = Writer::new(terminal, &names, times, false);
        for line in lines {
            assert!(writer.line(line).is_ok());
        }
        writer.buffer
    }

    #[test]
    fn to_a_file_all_bytes_go_as_they_are() {
        let raw = b"\x1b[31mred\xff\x00\r";
        let lines =
            [line("web", 1, raw, true), line("web", 1, b" and more", false), line("web", 2, b"end", true)];
        assert_eq!(
            written(&Terminal::plain(), &["web"], false, &lines),
            b"\x1b[31mred\xff\x00\r and more\nend",
            "a last line without its newline has none"
        );
    }

    #[test]
    fn to_a_terminal_nothing_that_steers_it() {
        let terminal = Terminal { is_terminal: true, width: Some(80), ..Terminal::plain() };
        let text = written(&terminal, &["web"], false, &[line("web", 1, b"\x1b[31mred\xff\x07\ttab", false)]);
        assert_eq!(text, b"\\x1b[31mred\\xff\\x07\ttab\n");
    }

    #[test]
    fn several_services_are_told_apart() {
        let lines = [line("web", 0, b"a", true), line("mail", 1, b"b", false), line("web", 2, b"c", false)];
        assert_eq!(
            String::from_utf8(written(&Terminal::plain(), &["web", "mail"], true, &lines)).unwrap(),
            "1970-01-01T00:00:00.000Z web  | a\n1970-01-01T00:00:01.000Z mail | b\n1970-01-01T00:00:02.000Z web  | c\n"
        );
    }
}
