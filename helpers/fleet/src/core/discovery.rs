//! How many instances the store has of what services wait for. Pure.
//!
//! A watch reads the instances of each name and follows them from there. When it ends, the last answers stay as they are,
//! with the time at which the store confirmed them last, until another watch has read all names.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kelson_helper::random::Random;
use kelson_proto::v1::fleet_report::Report;
use kelson_proto::v1::{FleetFound, FleetInterest, FleetWanted};
use serde::{Deserialize, Serialize};

use crate::clock::{Moment, micros};
use crate::entry::ServiceEntry;
use crate::limits::Limits;
use crate::template;

/// An instance: its host and its service.
pub type Instance = (String, String);

/// What a watch has seen.
#[derive(Debug)]
pub enum Seen {
    /// All instances of a name.
    All(String, Vec<(Instance, ServiceEntry)>),
    /// One of a name is there, or is not.
    One(String, Instance, Option<ServiceEntry>),
    /// All names have been read, and are followed.
    Follows,
    /// It has ended: why, for an operator.
    Ended(String),
}

/// What the store confirmed last. Outlives the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// In microseconds of the boot's clock.
    pub at: u64,
    pub found: Vec<Answer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub name: String,
    /// Empty: with any tags or none.
    pub tag: String,
    pub count: u32,
    pub all: u32,
}

/// A name, and a tag or nothing.
type Wanted = (String, String);

pub struct Discovery {
    limits: Limits,
    random: Random,
    /// Of the helper before this one; what is not wanted is left out.
    before: Answers,
    wanted: BTreeSet<Wanted>,
    /// The names that templates need.
    needed: BTreeSet<String>,
    /// How many instances each of those had when all of them were known last.
    shown: BTreeMap<String, u32>,
    /// The names that the present watch has read.
    names: BTreeMap<String, Instances>,
    /// The answers that PID 1 has, with the tag and with it or without.
    found: BTreeMap<Wanted, (u32, u32)>,
    /// When the store confirmed them last.
    at: Option<Moment>,
    follows: bool,
    /// What the present watch knows is as it is now, and nobody has been sent that.
    is_read: bool,
    /// Until then fewer instances than before are not believed.
    returning: Option<Moment>,
    failures: u32,
    /// No watch begins before this.
    retry: Moment,
    is_changed: bool,
    reports: VecDeque<Report>,
}

/// The instances of a name.
#[derive(Default)]
struct Instances {
    entries: BTreeMap<Instance, ServiceEntry>,
    /// How many have each tag.
    counts: BTreeMap<String, u32>,
}

impl Instances {
    fn set(&mut self, instance: Instance, entry: Option<ServiceEntry>) {
        let old = match entry {
            Some(entry) => {
                for tag in &entry.tags {
                    let count = self.counts.entry(tag.clone()).or_default();
                    *count = count.saturating_add(1);
                }
                self.entries.insert(instance, entry)
            }
            None => self.entries.remove(&instance),
        };
        for tag in old.into_iter().flat_map(|old| old.tags) {
            if let Some(count) = self.counts.get_mut(&tag) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// In the order of hosts and services.
    fn list(&self) -> Vec<template::Instance> {
        let all = self.entries.iter().map(|((host, service), entry)| {
            let ServiceEntry { address, port, tags, meta, since: _ } = entry.clone();
            template::Instance { host: host.clone(), service: service.clone(), address, port, tags, meta }
        });
        all.collect()
    }

    /// With this tag, and with it or without.
    fn count(&self, tag: &str) -> (u32, u32) {
        let all = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        match tag {
            "" => (all, all),
            tag => (self.counts.get(tag).copied().unwrap_or_default(), all),
        }
    }
}

impl Discovery {
    /// `before`: what the helper before this one knew in this boot.
    pub fn new(limits: Limits, before: Option<Answers>) -> Discovery {
        Discovery {
            limits,
            random: Random::seeded(),
            before: before.unwrap_or_default(),
            wanted: BTreeSet::new(),
            needed: BTreeSet::new(),
            shown: BTreeMap::new(),
            names: BTreeMap::new(),
            found: BTreeMap::new(),
            at: None,
            follows: false,
            is_read: false,
            returning: None,
            failures: 0,
            retry: Moment::ZERO,
            is_changed: false,
            reports: VecDeque::new(),
        }
    }

    /// Takes all that services wait for. The present watch has to end, and its last answers stay.
    pub fn want(&mut self, interest: FleetInterest) {
        self.wanted = interest.wanted.into_iter().map(|one| (one.name, one.tag)).collect();
        self.found.retain(|wanted, _| self.wanted.contains(wanted));
        let before = std::mem::take(&mut self.before);
        if before.at > 0 && self.at.is_none() {
            let answers = before.found.into_iter();
            let answers = answers.map(|one| ((one.name, one.tag), (one.count, one.all)));
            let known: Vec<_> = answers.filter(|(wanted, _)| self.wanted.contains(wanted)).collect();
            if !known.is_empty() {
                self.confirm(Moment::from_micros(before.at));
            }
            known.into_iter().for_each(|(wanted, answer)| self.answer(wanted, answer));
        }
        (self.retry, self.is_changed) = (Moment::ZERO, true);
        self.ended();
    }

    /// Takes the names that templates need. Returns whether the present watch has to end for one of them.
    pub fn need(&mut self, names: BTreeSet<String>) -> bool {
        let watched = self.names();
        self.needed = names;
        if self.needed.is_subset(&watched) {
            return false;
        }
        self.retry = Moment::ZERO;
        self.ended();
        true
    }

    /// The instances of the names that templates need, as far as they are as the store has them now.
    pub fn registry(&self) -> BTreeMap<String, Vec<template::Instance>> {
        let names = self.needed.iter().filter(|_| self.is_current());
        names.filter_map(|name| Some((name.clone(), self.names.get(name)?.list()))).collect()
    }

    /// What the present watch has seen is what the store has now, and all hosts that were cut off with this one are back.
    pub fn is_current(&self) -> bool {
        self.follows && self.returning.is_none()
    }

    /// The names to watch.
    pub fn names(&self) -> BTreeSet<String> {
        self.wanted.iter().map(|(name, _)| name).chain(&self.needed).cloned().collect()
    }

    fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.needed.is_empty()
    }

    /// Whether a watch is to begin now, unless one is under way.
    pub fn is_due(&self, now: Moment) -> bool {
        !self.is_idle() && now >= self.retry
    }

    /// There is no watch any more.
    pub fn ended(&mut self) {
        self.names.clear();
        (self.follows, self.is_read, self.returning) = (false, false, None);
    }

    /// Takes what a watch has seen.
    pub fn see(&mut self, seen: Seen, now: Moment) {
        match seen {
            Seen::All(name, all) => {
                let mut instances = Instances::default();
                all.into_iter().for_each(|(instance, entry)| instances.set(instance, Some(entry)));
                self.names.insert(name, instances);
            }
            Seen::One(name, instance, entry) => {
                if let Some(instances) = self.names.get_mut(&name) {
                    instances.set(instance, entry);
                }
            }
            Seen::Follows => {
                (self.follows, self.is_read, self.failures) = (true, true, 0);
            }
            Seen::Ended(problem) => {
                self.ended();
                let longest = self.limits.longest_pause(self.failures);
                self.retry = now.saturating_add(self.random.part_of(longest));
                // The first may be the end of the connection, which is reported as such.
                if self.failures == 1 {
                    let text = format!("what others have registered cannot be followed: {problem}");
                    self.reports.push_back(Report::Trouble(text));
                }
                self.failures = self.failures.saturating_add(1);
            }
        }
    }

    /// The store has answered a request that was made at this time, over the connection of the present watch.
    pub fn confirmed(&mut self, at: Moment) {
        if self.follows && self.returning.is_none() && self.at.is_none_or(|before| before < at) {
            self.confirm(at);
        }
    }

    fn confirm(&mut self, at: Moment) {
        (self.at, self.is_changed) = (Some(at), true);
        self.reports.push_back(Report::FoundAt(micros(at)));
    }

    /// Takes note of the time, and of all that was seen.
    pub fn settle(&mut self, now: Moment) {
        if !self.follows {
            return;
        }
        let was_silent = self.at.is_some_and(|at| now.saturating_sub(at) >= self.limits.ttl);
        match self.returning {
            // Hosts that were cut off together with this one are back in the store only some time later.
            None if was_silent => {
                let spread = self.limits.spread.saturating_add(self.limits.call);
                self.returning = Some(now.saturating_add(spread));
            }
            Some(until) if now >= until => (self.returning, self.is_read) = (None, true),
            _ => {}
        }
        let counts = self
            .wanted
            .iter()
            .filter_map(|wanted| Some((wanted, self.names.get(&wanted.0)?.count(&wanted.1))));
        let counts: Vec<(Wanted, (u32, u32))> =
            counts.map(|(wanted, count)| (wanted.clone(), count)).collect();
        let is_less = |known: &BTreeMap<Wanted, (u32, u32)>, wanted: &Wanted, count: u32| {
            known.get(wanted).is_some_and(|(known, _)| count < *known)
        };
        let shown: BTreeMap<String, u32> = self
            .needed
            .iter()
            .filter_map(|name| Some((name.clone(), self.names.get(name)?.count("").1)))
            .collect();
        let is_fewer =
            shown.iter().any(|(name, count)| self.shown.get(name).is_some_and(|before| count < before));
        if !is_fewer && !counts.iter().any(|(wanted, (count, _))| is_less(&self.found, wanted, *count)) {
            self.returning = None;
        }
        if self.returning.is_none() {
            self.shown = shown;
        }
        // Before the answers: they are not older than that.
        if self.returning.is_none() && std::mem::take(&mut self.is_read) {
            self.confirm(now);
        }
        for (wanted, answer) in counts {
            let is_believed = self.returning.is_none() || !is_less(&self.found, &wanted, answer.0);
            if is_believed && self.found.get(&wanted) != Some(&answer) {
                self.answer(wanted, answer);
            }
        }
    }

    fn answer(&mut self, wanted: Wanted, (count, all): (u32, u32)) {
        let (name, tag) = wanted.clone();
        self.reports.push_back(Report::Found(FleetFound {
            wanted: Some(FleetWanted { name, tag }),
            count,
            all,
        }));
        self.found.insert(wanted, (count, all));
        self.is_changed = true;
    }

    /// When to look again although nothing comes.
    pub fn wake(&self, has_watch: bool) -> Option<Moment> {
        let retry = (!has_watch && !self.is_idle()).then_some(self.retry);
        retry.into_iter().chain(self.returning).min()
    }

    /// What the next helper has to know, where it has changed. To be written before the reports are sent: a helper must not
    /// say less than PID 1 has been sent.
    pub fn changed(&mut self) -> Option<Answers> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        let found = self.found.iter().map(|((name, tag), (count, all))| Answer {
            name: name.clone(),
            tag: tag.clone(),
            count: *count,
            all: *all,
        });
        Some(Answers { at: self.at.map_or(0, micros), found: found.collect() })
    }

    /// The next report to PID 1.
    pub fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }
}
