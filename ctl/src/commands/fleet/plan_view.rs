//! How a plan is shown: in lines while it is carried out, and as a table.

use std::cell::RefCell;

use super::chosen::first_of;
use crate::call::Call;
use crate::output::{Page, Progress, Table, Terminal, Tone, cell, toned, views};
use crate::rolling::plan::{Head, Place, Plan, Standing};
use crate::rolling::runner::Watcher;

/// The lines of a plan that is carried out.
pub struct Lines<'a> {
    call: &'a Call,
    progress: RefCell<Progress>,
    /// The hosts of the present wave.
    wave: RefCell<Vec<usize>>,
}

impl<'a> Lines<'a> {
    pub fn new(call: &'a Call) -> Lines<'a> {
        Lines { call, progress: RefCell::new(call.progress()), wave: RefCell::default() }
    }

    fn line(&self, text: &str) {
        if self.call.is_table() {
            self.progress.borrow().erase();
            // A reader that is gone does not end the plan.
            drop(self.call.print(&format!("{text}\n")));
        }
    }

    fn note(&self, text: &str) {
        self.progress.borrow().erase();
        self.call.note(text);
    }
}

impl Watcher for Lines<'_> {
    fn wave(&self, plan: &Plan, number: usize, open: &[usize]) {
        self.wave.replace(open.to_vec());
        let names: Vec<&str> = open.iter().filter_map(|index| plan.places.get(*index)).map(name_of).collect();
        self.line(&format!("wave {} of {}: {}", number + 1, plan.head.waves.len(), first_of(&names)));
    }

    fn host(&self, plan: &Plan, index: usize) {
        let Some(place) = plan.places.get(index) else { return };
        match &place.standing {
            Standing::Pending | Standing::Running(_) => {}
            Standing::Done => self.line(&format!("{}: done", place.host)),
            Standing::Failed(why) => self.note(&format!("{}: failed: {why}", place.host)),
        }
        let wave = self.wave.borrow();
        let places = wave.iter().filter_map(|index| plan.places.get(*index));
        let running = places.filter(|place| matches!(place.standing, Standing::Running(_)));
        let running: Vec<&str> = running.map(name_of).collect();
        if self.call.is_table() && !running.is_empty() {
            let Head { done, .. } = plan.head;
            let text =
                format!("{done} of {} hosts done, waiting for {}", plan.head.hosts(), first_of(&running));
            self.progress.borrow_mut().show(&text);
        }
    }
}

fn name_of(place: &Place) -> &str {
    &place.host
}

/// A plan as it is shown.
pub struct Shown {
    host: String,
    name: String,
    plan: Plan,
}

views! {
    // `host`: the one that keeps the plan. `state`: running, stopped, done.
    Shown: shown {
        name, host, action: shown.plan.head.action.text(), state: shown.plan.head.state.word(),
        healthy_for_ms: shown.plan.head.healthy_for(), deadline_ms: shown.plan.head.deadline(),
        max_failed: shown.plan.head.max_failed, by: shown.plan.head.by,
        waves: shown.plan.waves().map(|wave| shown.plan.places.get(wave).unwrap_or_default()).collect::<Vec<_>>(),
    }
    // `state`: pending, running, done, failed. `reason`: why it has failed.
    Place: place {
        host, state: place.standing.word(),
        reason: Some(place.standing.text()).filter(|_| matches!(place.standing, Standing::Failed(_))),
    }
}

impl Shown {
    /// `host`: the one that keeps the plan.
    pub fn new(host: &str, name: &str, plan: &Plan) -> Shown {
        Shown { host: host.to_owned(), name: name.to_owned(), plan: plan.clone() }
    }

    /// A row for each wave.
    pub fn waves(&self) -> Table {
        let waves = self.plan.waves().enumerate().map(|(number, wave)| {
            let places = self.plan.places.get(wave).unwrap_or_default();
            (number + 1, places.iter().map(name_of).collect::<Vec<_>>())
        });
        Table::of(waves.collect::<Vec<_>>())
            .right("WAVE", |(number, _)| number.to_string())
            .right("HOSTS", |(_, names)| names.len().to_string())
            .cut("NAMES", |(_, names)| names.join(", "))
            .into()
    }

    /// A row for each host.
    pub fn page(&self, _: &Terminal) -> Page {
        let waves = self.plan.waves().enumerate();
        let rows = waves.flat_map(|(number, wave)| {
            let places = self.plan.places.get(wave).unwrap_or_default();
            places.iter().map(move |place| (number + 1, place))
        });
        let tone = |standing: &Standing| match standing {
            Standing::Pending => Tone::Plain,
            Standing::Running(_) => Tone::Busy,
            Standing::Done => Tone::Good,
            Standing::Failed(_) => Tone::Bad,
        };
        let reason = |standing: &Standing| match standing {
            Standing::Failed(why) => cell(why),
            _ => cell(""),
        };
        let table = Table::of(rows.collect::<Vec<_>>())
            .right("WAVE", |(number, _)| number.to_string())
            .left("HOST", |(_, place)| &place.host)
            .left("STATE", |(_, place)| toned(tone(&place.standing), place.standing.word()))
            .cut("REASON", |(_, place)| reason(&place.standing));
        Page::Table(table.into())
    }
}
