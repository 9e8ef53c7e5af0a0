//! Where a log goes over from one run of its service to another, and the line shown there.

use std::collections::HashMap;
use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{Event, EventsRequest, Line, State};
use prost_types::Timestamp;

use crate::output::{escape, time};

/// The line about a run is an addition: nobody waits long for it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How much older an event may be than a line that was written before it: logd reads the line a little later.
const LATE: i64 = 2;

/// A run of a service: the number, and which start of the host it counts from.
type Run = (u64, u32);

/// The log of a service goes over from one run to another.
#[derive(Debug, PartialEq)]
pub struct Change {
    pub service: String,
    from: Run,
    to: Run,
    /// When the last line before it was read, and the first one behind it.
    before: Option<Timestamp>,
    behind: Option<Timestamp>,
}

/// The runs of several services, as their lines come.
#[derive(Debug, Default)]
pub struct Runs {
    last: HashMap<String, (Run, Option<Timestamp>)>,
    /// The events of a service.
    events: HashMap<String, Vec<Event>>,
}

impl Runs {
    /// `Some` before a line of another run than the line before it. Lines whose run is not known are of any.
    pub fn change(&mut self, line: &Line) -> Option<Change> {
        let to = (line.run, line.boot);
        if line.run == 0 {
            return None;
        }
        let (from, before) = self.last.insert(line.service.clone(), (to, line.time))?;
        let service = line.service.clone();
        (from != to).then_some(Change { service, from, to, before, behind: line.time })
    }

    /// `run 7, started 12:00:03; run 6: exited with status 1`, as far as the host still knows.
    pub async fn describe(&mut self, client: &Client, change: &Change) -> String {
        let known = self.events.get(&change.service);
        let is_known = known.is_some_and(|events| events.iter().any(|event| event.run >= change.to.0));
        if !is_known {
            let events = tokio::time::timeout(TIMEOUT, events(client, &change.service)).await;
            self.events.insert(change.service.clone(), events.unwrap_or_default());
        }
        change.text(self.events.get(&change.service).map(Vec::as_slice).unwrap_or_default())
    }
}

/// All events of the service that the host keeps; none where it cannot be asked.
async fn events(client: &Client, service: &str) -> Vec<Event> {
    let request = EventsRequest { names: vec![service.to_owned()], ..EventsRequest::default() };
    let mut events = Vec::new();
    if let Ok(answer) = client.services().events(request).await {
        let mut batches = answer.into_inner();
        while let Ok(Some(batch)) = batches.message().await {
            events.extend(batch.events);
        }
    }
    events
}

impl Change {
    fn text(&self, events: &[Event]) -> String {
        let mut text = format!("run {}", self.to.0);
        let of = |run: Run| events.iter().filter(move |event| event.run == run.0 && self.is_between(event));
        if let Some(start) = of(self.to).next().and_then(|event| event.time.as_ref()) {
            text += &format!(", started {}", time::clock(start));
        }
        if self.from.1 != self.to.1 {
            return text + ", after a new start of the host";
        }
        let ended = |event: &&Event| {
            matches!(event.state(), State::Backoff | State::Failed | State::Finished | State::Skipped)
        };
        if let Some(end) = of(self.from).rfind(ended) {
            text += &format!("; run {}: {}", self.from.0, escape(&end.message));
        }
        text
    }

    /// Numbers of runs come again after a reboot, and events are those of the present start of the host.
    fn is_between(&self, event: &Event) -> bool {
        let order = |time: &Timestamp| (time.seconds, time.nanos);
        let Some(at) = event.time.as_ref().map(order) else { return false };
        let not_before = self
            .before
            .as_ref()
            .is_none_or(|before| at >= (before.seconds.saturating_sub(LATE), before.nanos));
        not_before && self.behind.as_ref().is_none_or(|behind| at <= order(behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::at;

    fn line(service: &str, seconds: i64, run: u64, boot: u32) -> Line {
        Line { service: service.to_owned(), time: at(seconds), run, boot, ..Line::default() }
    }

    fn event(seconds: i64, run: u64, state: State, message: &str) -> Event {
        Event { time: at(seconds), run, ..crate::samples::event(0, "", state, message) }
    }

    #[test]
    fn a_change_is_seen_once_and_for_each_service_by_itself() {
        let mut runs = Runs::default();
        let lines =
            [("web", 1), ("web", 1), ("db", 4), ("web", 0), ("web", 1), ("web", 2), ("db", 4), ("web", 2)];
        let changes: Vec<(u64, u64)> = lines
            .iter()
            .zip(1..)
            .filter_map(|((name, run), second)| runs.change(&line(name, second, *run, 9)))
            .map(|change| (change.from.0, change.to.0))
            .collect();
        assert_eq!(changes, [(1, 2)]);
        // After a reboot the numbers begin again.
        let change = runs.change(&line("web", 100, 2, 8)).unwrap();
        assert_eq!(change.text(&[]), "run 2, after a new start of the host");
    }

    #[test]
    fn what_is_said_is_what_happened_between_the_two_lines() {
        let change = |second: i64| {
            let mut runs = Runs::default();
            runs.change(&line("web", second, 6, 9));
            runs.change(&line("web", second + 10, 7, 9)).unwrap()
        };
        let events = [
            event(3, 6, State::Running, "running"),
            event(11, 6, State::Backoff, "exited with status 1, \x1b[2J"),
            event(13, 7, State::Starting, "starting"),
            event(14, 7, State::Running, "running"),
            event(30, 7, State::Failed, "exited with status 2"),
        ];
        assert_eq!(
            change(10).text(&events),
            "run 7, started 00:00:13; run 6: exited with status 1, \\x1b[2J"
        );
        // Lines of an earlier start of the host, whose runs had the same numbers.
        assert_eq!(change(-1000).text(&events), "run 7");
        assert_eq!(change(10).text(&[]), "run 7");
    }
}
