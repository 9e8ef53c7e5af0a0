//! Which templates are to be rendered, and when. Pure.
//!
//! A text that there is stays as it is until there is another one. Changes are gathered: many hosts that restart one after the
//! other give one new text.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kelson_proto::v1::FleetTemplate;
use kelson_proto::v1::fleet_report::Report;

use crate::clock::Moment;
use crate::limits::Limits;
use crate::template::Outcome;

/// A change that has not been rendered.
#[derive(Clone, Copy)]
struct Change {
    first: Moment,
    last: Moment,
}

#[derive(Default)]
struct Template {
    /// `None`: nobody has looked at it since the helper has begun.
    state: Option<State>,
    /// The names whose instances it needs.
    names: BTreeSet<String>,
    change: Option<Change>,
}

#[derive(Clone, PartialEq, Eq)]
struct State {
    is_rendered: bool,
    problem: String,
}

pub struct Templates {
    limits: Limits,
    all: BTreeMap<String, Template>,
    /// The one that is being rendered.
    under_way: Option<String>,
    reports: VecDeque<Report>,
}

impl Templates {
    pub fn new(limits: Limits) -> Templates {
        Templates { limits, all: BTreeMap::new(), under_way: None, reports: VecDeque::new() }
    }

    /// Takes the sources of all templates.
    pub fn want(&mut self, sources: Vec<String>, now: Moment) {
        let mut before = std::mem::take(&mut self.all);
        for source in sources {
            let mut template = before.remove(&source).unwrap_or_default();
            match &template.state {
                Some(state) => self.reports.push_back(report(&source, state)),
                None => template.change = Some(Change { first: now, last: now }),
            }
            self.all.insert(source, template);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn sources(&self) -> impl Iterator<Item = &String> {
        self.all.keys()
    }

    /// The names whose instances they need.
    pub fn names(&self) -> BTreeSet<String> {
        self.all.values().flat_map(|template| template.names.iter().cloned()).collect()
    }

    /// Something that these may depend on has changed.
    fn touch(&mut self, now: Moment, is_concerned: impl Fn(&str, &Template) -> bool) {
        for (source, template) in &mut self.all {
            if is_concerned(source, template) {
                let first = template.change.map_or(now, |change| change.first);
                template.change = Some(Change { first, last: now });
            }
        }
    }

    pub fn touch_all(&mut self, now: Moment) {
        self.touch(now, |_, _| true);
    }

    /// What is registered under this name has changed.
    pub fn touch_name(&mut self, name: &str, now: Moment) {
        self.touch(now, |_, template| template.names.contains(name));
    }

    /// The file of a template has changed.
    pub fn touch_source(&mut self, source: &str, now: Moment) {
        self.touch(now, |other, _| other == source);
    }

    /// When a template is to be rendered. One without a text waits for nothing: a service may wait for it.
    fn due(&self, template: &Template) -> Option<Moment> {
        let Change { first, last } = template.change?;
        if !template.state.as_ref().is_some_and(|state| state.is_rendered) {
            return Some(first);
        }
        let quiet = last.saturating_add(self.limits.quiet);
        Some(quiet.min(first.saturating_add(self.limits.gathered)))
    }

    /// When to ask for the [next](Templates::next) although nothing comes.
    pub fn wake(&self) -> Option<Moment> {
        if self.under_way.is_some() {
            return None;
        }
        self.all.values().filter_map(|template| self.due(template)).min()
    }

    /// The source that is to be rendered now; none while one is under way.
    pub fn next(&mut self, now: Moment) -> Option<String> {
        if self.under_way.is_some() {
            return None;
        }
        let is_due = |template: &Template| self.due(template).is_some_and(|due| due <= now);
        let source =
            self.all.iter().find(|(_, template)| is_due(template)).map(|(source, _)| source.clone())?;
        if let Some(template) = self.all.get_mut(&source) {
            template.change = None;
        }
        self.under_way = Some(source.clone());
        Some(source)
    }

    /// What came of it. `names`: those that it needs, where the template could be read; `has_text`: there is a text of it in
    /// its file; `is_new`: it is not the one that there was.
    pub fn rendered(
        &mut self,
        source: &str,
        names: Option<BTreeSet<String>>,
        outcome: Outcome,
        (has_text, is_new): (bool, bool),
    ) {
        self.under_way = None;
        let Some(template) = self.all.get_mut(source) else { return };
        if let Some(names) = names {
            template.names = names;
        }
        let before = template.state.take();
        let problem = match outcome {
            Outcome::Text(_) => String::new(),
            Outcome::Problem(problem) => problem,
            // The text is that of the last answer, and what was wrong then still is.
            Outcome::Unknown(_) if has_text => {
                before.as_ref().map(|before| before.problem.clone()).unwrap_or_default()
            }
            Outcome::Unknown(what) => what,
        };
        let state = State { is_rendered: has_text, problem };
        if is_new || before.as_ref() != Some(&state) {
            self.reports.push_back(report(source, &state));
        }
        template.state = Some(state);
    }

    /// The next report to PID 1.
    pub fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }
}

fn report(source: &str, state: &State) -> Report {
    let State { is_rendered, problem } = state.clone();
    Report::Template(FleetTemplate { source: source.to_owned(), is_rendered, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "/etc/proxy.cfg";

    fn secs(seconds: u64) -> Moment {
        Moment::from_secs(seconds)
    }

    fn templates() -> Templates {
        let mut templates = Templates::new(Limits::default());
        templates.want(vec![SOURCE.to_owned()], secs(100));
        templates
    }

    /// Renders it, so that there is a text of it.
    fn render(templates: &mut Templates, now: Moment) {
        assert_eq!(templates.next(now).as_deref(), Some(SOURCE));
        assert_eq!(templates.next(now), None, "one at a time");
        let names = BTreeSet::from(["postgres".to_owned()]);
        templates.rendered(SOURCE, Some(names), Outcome::Text("x".to_owned()), (true, true));
    }

    fn reported(templates: &mut Templates) -> Vec<(bool, String)> {
        std::iter::from_fn(|| templates.next_report())
            .map(|report| match report {
                Report::Template(FleetTemplate { is_rendered, problem, .. }) => (is_rendered, problem),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn changes_are_gathered_once_there_is_a_text() {
        let mut templates = templates();
        assert_eq!(templates.wake(), Some(secs(100)));
        render(&mut templates, secs(100));
        assert_eq!((templates.wake(), templates.next(secs(1000))), (None, None));
        templates.touch_name("other", secs(200));
        assert_eq!(templates.wake(), None);
        templates.touch_name("postgres", secs(200));
        assert_eq!((templates.next(secs(200)), templates.wake()), (None, Some(secs(201))));
        // One change each half second: the first one waits for 10 s at most.
        for half in 0..40 {
            templates.touch_name("postgres", secs(200) + Moment::from_millis(500 * half));
        }
        assert_eq!(templates.wake(), Some(secs(210)));
        render(&mut templates, secs(210));
        assert_eq!(templates.wake(), None);
    }

    #[test]
    fn a_text_stays_while_nothing_is_known_and_only_news_are_reported() {
        let mut templates = templates();
        let (unknown, missing) =
            (Outcome::Unknown("not yet".to_owned()), Outcome::Problem("no instance of web".to_owned()));
        templates.next(secs(100));
        templates.rendered(SOURCE, None, unknown.clone(), (false, false));
        assert_eq!(reported(&mut templates), [(false, "not yet".to_owned())]);
        templates.touch_all(secs(101));
        render(&mut templates, secs(101));
        assert_eq!(reported(&mut templates), [(true, String::new())]);
        for outcome in [unknown.clone(), Outcome::Text("x".to_owned())] {
            templates.rendered(SOURCE, None, outcome, (true, false));
        }
        assert_eq!(reported(&mut templates), []);
        // What is missing stays so while the store is away.
        for outcome in [missing.clone(), missing, unknown] {
            templates.rendered(SOURCE, None, outcome, (true, false));
        }
        assert_eq!(reported(&mut templates), [(true, "no instance of web".to_owned())]);
        templates.want(vec![SOURCE.to_owned()], secs(102));
        assert_eq!(reported(&mut templates).len(), 1, "another PID 1 asks for all of them");
        templates.want(Vec::new(), secs(103));
        templates.rendered(SOURCE, None, Outcome::Text("y".to_owned()), (true, true));
        assert!(templates.is_empty() && reported(&mut templates).is_empty());
    }
}
