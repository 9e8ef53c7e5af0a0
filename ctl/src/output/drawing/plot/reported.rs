//! The facts that events report about the boot, beside the times at which services were spawned and up.

use std::collections::HashMap;
use std::time::Duration;

use kelson_proto::v1::{BootService, Event, State};

use crate::output::time::duration;

/// A piece of a bar: from, to (`None`: not over yet), class.
pub type Piece = (f64, Option<f64>, &'static str);

/// Events by service. They have times of a clock that may be set in between, so each service is measured from its own spawn.
pub struct Reported<'a> {
    by_name: HashMap<&'a str, Vec<&'a Event>>,
    /// PID 1's start on the clock of the events, as most services have it.
    usual: Option<f64>,
}

impl<'a> Reported<'a> {
    pub fn new(events: &'a [Event], services: &[BootService]) -> Reported<'a> {
        let mut reported = Reported { by_name: HashMap::new(), usual: None };
        // Of a boot whose beginning is no longer kept nothing is known for sure.
        if events.first().is_some_and(|event| event.seq == 1) {
            for event in events {
                reported.by_name.entry(&event.service).or_default().push(event);
            }
        }
        let mut starts: Vec<f64> = services.iter().filter_map(|service| reported.start(service)).collect();
        starts.sort_by(f64::total_cmp);
        reported.usual = starts.get(starts.len() / 2).copied();
        reported
    }

    /// PID 1's start on the clock of this service's events.
    fn start(&self, service: &BootService) -> Option<f64> {
        let events = self.by_name.get(service.name.as_str())?;
        let spawned = ms(duration(service.spawned.as_ref()?));
        // The first event of a run tells that it begins, the next one that its process is there.
        let begun = events.iter().position(|event| event.state() == State::Starting)?;
        let there =
            events.get(begun + 1).filter(|e| matches!(e.state(), State::Starting | State::Running))?;
        Some(clock(there)? - spawned)
    }

    /// Waiting and preparing, until the first process was spawned.
    pub fn before(&self, service: &BootService) -> Vec<Piece> {
        let (Some(events), Some(start)) =
            (self.by_name.get(service.name.as_str()), self.start(service).or(self.usual))
        else {
            return Vec::new();
        };
        let spawned = service.spawned.as_ref().map(|spawned| ms(duration(spawned)));
        let mut pieces: Vec<Piece> = Vec::new();
        for event in events {
            let class = match event.state() {
                State::Waiting => "bar-waiting",
                State::Preparing => "bar-preparing",
                _ => "",
            };
            let Some(time) = clock(event) else { continue };
            let time = (time - start).clamp(0.0, spawned.unwrap_or(f64::MAX));
            match pieces.last_mut() {
                Some(last) if last.2 == class => continue,
                Some(last) => last.1 = Some(time),
                None => {}
            }
            if class.is_empty() {
                break;
            }
            pieces.push((time, None, class));
        }
        if let (Some(last), Some(spawned)) = (pieces.last_mut(), spawned) {
            last.1 = Some(spawned);
        }
        pieces
    }

    /// When it ran and all that was missing were checks.
    pub fn ready(&self, service: &BootService) -> Option<f64> {
        let (events, start) = (self.by_name.get(service.name.as_str())?, self.start(service)?);
        let running = events.iter().find(|event| event.state() == State::Running)?;
        Some((clock(running)? - start).max(ms(duration(service.spawned.as_ref()?))))
    }

    /// When it was not up any more.
    pub fn gone(&self, service: &BootService) -> Option<f64> {
        let (events, start) = (self.by_name.get(service.name.as_str())?, self.start(service)?);
        let ended = |event: &&&Event| {
            matches!(event.state(), State::Backoff | State::Failed | State::Stopping | State::Waiting)
        };
        let running = events.iter().position(|event| event.state() == State::Running)?;
        Some(clock(events.get(running..)?.iter().find(ended)?)? - start)
    }
}

fn clock(event: &Event) -> Option<f64> {
    let time = event.time.as_ref()?;
    Some(time.seconds as f64 * 1000.0 + f64::from(time.nanos) / 1e6)
}

/// In milliseconds.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
