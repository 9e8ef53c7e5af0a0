//! `events`: what happened on the host, numbered without gaps.

use std::time::{Duration, SystemTime};

use kelson_api::client::Client;
use kelson_proto::v1::{Event, EventsRequest, GraphRequest, ListRequest};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer, answer_about, explain_names};
use crate::follow::Reconnect;
use crate::output::table::NARROWEST;
use crate::output::timeline::text::render;
use crate::output::timeline::{From, Timeline};
use crate::output::{Page, Terminal, Tone, drawing, escape, fit, print, state_name, state_tone, time, width};

/// Show the events of the host and its services
///
/// The host keeps 4096 events. When they are full, it evicts the oldest event of
/// the service with the most events. While following, kelsonctl opens a broken
/// connection again, and continues with the next number. Numbers begin again when
/// the host starts; --since reports it if no event has the number yet.
///
/// --timeline draws one line for each service: its states over time, and at a
/// stop the services that waited for others. It shortens long times without an
/// event. With -f it draws once the host has ended.
///
/// Examples:
///   kelsonctl events db
///   kelsonctl events -f --since 5m
///   kelsonctl events --since 120 -o json
///   kelsonctl events --timeline --since 10s
///   kelsonctl events -f --timeline --format svg > shutdown.svg
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Continue with new events
    #[arg(short, long)]
    follow: bool,
    /// From this number on, or of the last time, such as 10m
    #[arg(long, value_name = "N|D", value_parser = since)]
    since: Option<Since>,
    /// Draw the states of the services over time
    #[arg(long)]
    timeline: bool,
    /// Draw it as
    #[arg(long, value_enum, value_name = "FORMAT", requires = "timeline")]
    format: Option<Language>,
    /// Only of these services
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// How a timeline is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    /// A line of letters for each service
    Text,
    /// A drawing for a browser
    Svg,
}

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Number(u64),
    Last(Duration),
}

fn since(text: &str) -> Result<Since, Failure> {
    match text.parse() {
        Ok(number) => Ok(Since::Number(number)),
        Err(_) => match time::parse(text) {
            Ok(last) => Ok(Since::Last(last)),
            Err(error) => Err(Failure::Usage(format!("{error}, or an event's number"))),
        },
    }
}

impl Run for Arguments {
    /// Two drawings would be none.
    fn several(&self) -> bool {
        self.format != Some(Language::Svg)
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        if self.timeline {
            return timeline(call, &client, self).await;
        }
        let names = self.names;
        let mut request =
            EventsRequest { follow: self.follow, names: names.clone(), ..EventsRequest::default() };
        match self.since {
            Some(Since::Number(number)) => {
                request.since = number;
                tell_of_none(call, &client, number).await;
            }
            Some(Since::Last(last)) => request.last = Some(time::to_wire(last)),
            None => {}
        }
        let seen = |events: &[Event]| {
            let lines = events.iter().map(|event| item(call, event)).collect::<Result<String, Failure>>()?;
            if lines.is_empty() { Ok(()) } else { print(&lines) }
        };
        let Err(failure) = read(call, &client, request, seen).await else { return Ok(()) };
        Err(explain_names(failure, &client, &names).await)
    }
}

/// Says so where no event has the number yet, nor is the next one to have it: it may be of an earlier start of the host.
/// When the host does not answer, none is reported.
async fn tell_of_none(call: &Call, client: &Client, number: u64) {
    let before = number.saturating_sub(1);
    if before > 0
        && newest(client, before).await.is_none()
        && let Some(newest) = newest(client, 0).await
    {
        call.note(&format!("there is no event {number} yet: the newest is {newest}"));
    }
}

/// The number of the newest event, from a number on.
async fn newest(client: &Client, since: u64) -> Option<u64> {
    let request = EventsRequest { since, ..EventsRequest::default() };
    let mut events = answer(client.services().events(request)).await.ok()?;
    let mut newest = None;
    while let Ok(Some(batch)) = events.message().await {
        newest = batch.events.last().map(|event| event.seq).or(newest);
    }
    newest
}

/// Draws all the events that are kept; the start and the services to show are chosen from them.
async fn timeline(call: &Call, client: &Client, arguments: Arguments) -> Result<(), Failure> {
    let names = &arguments.names;
    answer_about(client, names, client.services().list(ListRequest { names: names.clone() })).await?;
    // Asked first: a host that ends answers no more.
    let graph = answer(client.services().graph(GraphRequest {})).await?;
    let mut events = Vec::new();
    let request = EventsRequest { follow: arguments.follow, ..EventsRequest::default() };
    let read = read(call, client, request, |batch| {
        events.extend_from_slice(batch);
        Ok(())
    });
    match read.await {
        // A remote connection ends before the host does, as apid stops first: what came until then is drawn.
        Err(failure) if failure.is_passing() && arguments.follow && !events.is_empty() => {
            call.note(&format!("{failure}; what came until then is drawn"));
        }
        read => read?,
    }
    let from = match arguments.since {
        None => From::Oldest,
        Some(Since::Number(number)) => From::Number(number),
        Some(Since::Last(last)) => From::Last(last),
    };
    let timeline = Timeline::new(&events, &graph.edges, from, names);
    match arguments.format {
        Some(Language::Svg) => print(&drawing::timeline::draw(&timeline)),
        Some(Language::Text) => print(&render(&timeline, &call.terminal)),
        None => call.show(&timeline, || Page::Text(render(&timeline, &call.terminal))),
    }
}

/// Reads events to the end, over breaks of the connection where it follows; each is seen once.
async fn read(
    call: &Call,
    client: &Client,
    mut request: EventsRequest,
    mut seen: impl FnMut(&[Event]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut reconnect = call.reconnect();
    // It ends without a failure when the host has ended, after its last event.
    while let Err(failure) = stream(call, client, &mut request, &mut reconnect, &mut seen).await {
        reconnect.follow(request.follow, failure).await?;
    }
    Ok(())
}

/// One stream to its end; `request` asks for what comes after the last event that was seen.
async fn stream(
    call: &Call,
    client: &Client,
    request: &mut EventsRequest,
    reconnect: &mut Reconnect,
    seen: &mut impl FnMut(&[Event]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut events = client.services().events(request.clone()).await?.into_inner();
    reconnect.works();
    while let Some(mut batch) = events.message().await? {
        reconnect.works();
        if batch.missed > 0 {
            call.note(&missed(batch.missed, batch.events.last()));
        }
        if request.last.is_none() {
            // A number that was seen does not come again, whatever the other side thinks.
            batch.events.retain(|event| event.seq >= request.since);
        }
        if let Some(event) = batch.events.last() {
            // From here on the number tells, not the time.
            request.since = event.seq.saturating_add(1);
            request.last = None;
        }
        seen(&batch.events)?;
    }
    Ok(())
}

fn missed(count: u64, last: Option<&Event>) -> String {
    let (events, are) = if count == 1 { ("event", "is") } else { ("events", "are") };
    match last {
        Some(event) => format!("{count} {events} before number {} {are} no longer kept", event.seq),
        None => format!("{count} {events} {are} no longer kept"),
    }
}

/// One event of a stream, to be printed.
pub fn item(call: &Call, event: &Event) -> Result<String, Failure> {
    call.item(event, || line(event, &call.line_terminal(), SystemTime::now()))
}

/// One event as a line: number, time, service, state, and as much of the message as there is room for.
fn line(event: &Event, terminal: &Terminal, now: SystemTime) -> String {
    let palette = terminal.palette;
    let when = event.time.as_ref().map_or(String::new(), |at| terminal.time(at, now));
    let (service, state) = match event.service.as_str() {
        "" => ("-", ""),
        service => (service, state_name(event.state())),
    };
    let (seq, service) = (format!("{:>5}", event.seq), format!("{:<16}", escape(service)));
    let state = format!("{state:<11}");
    let before = [&seq, &when, &service, &state].map(|part| width(part) + 2).iter().sum::<usize>();
    let message = escape(&event.message);
    let message = match terminal.width {
        Some(columns) => fit(&message, columns.saturating_sub(before).max(NARROWEST)),
        None => message.as_ref().into(),
    };
    let line = format!(
        "{}  {}  {service}  {}  {message}",
        palette.paint(Tone::Quiet, &seq),
        palette.paint(Tone::Quiet, &when),
        palette.paint(state_tone(event.state(), true), &state),
    );
    line.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_proto::v1::State;

    #[test]
    fn a_number_or_a_duration() {
        assert_eq!(since("120"), Ok(Since::Number(120)));
        assert_eq!(since("5m"), Ok(Since::Last(Duration::from_secs(300))));
        assert!(since("never").unwrap_err().to_string().ends_with("or an event's number"));
    }

    #[test]
    fn an_event_is_a_line() {
        let line = |event: &Event, terminal: &Terminal| line(event, terminal, SystemTime::UNIX_EPOCH);
        let mut event = Event {
            seq: 42,
            time: Some(prost_types::Timestamp { seconds: 0, nanos: 5_000_000 }),
            service: "db".to_owned(),
            message: "exited\x1b[1m with status 3\n".to_owned(),
            ..Event::default()
        };
        event.set_state(State::Backoff);
        assert_eq!(
            line(&event, &Terminal::plain()),
            "   42  1970-01-01T00:00:00.005Z  db                backoff      exited\\x1b[1m with status 3\\n\n"
        );
        event.service.clear();
        event.message = "the boot is done".to_owned();
        assert_eq!(
            line(&event, &Terminal::plain()),
            "   42  1970-01-01T00:00:00.005Z  -                              the boot is done\n"
        );
        let narrow = Terminal { width: Some(56), ..Terminal::plain() };
        assert_eq!(line(&event, &narrow), "   42  00:00:00.005  -                              the boo…\n");
        event.service = "a-name-that-is-longer-than-its-column".to_owned();
        assert!(line(&event, &narrow).contains(&event.service), "a name is never cut");
    }

    #[test]
    fn what_was_missed_is_counted() {
        assert_eq!(missed(1, None), "1 event is no longer kept");
        let event = Event { seq: 34, ..Event::default() };
        assert_eq!(missed(12, Some(&event)), "12 events before number 34 are no longer kept");
    }
}
