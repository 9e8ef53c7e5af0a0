//! What is known of how full the volumes are, who waits for it, and which plugins are being asked.
//!
//! Each plugin is asked at most once at a time, about all its volumes. A question that takes answers of some age gets those
//! that are known, so the plugins are not asked by each scrape of the metrics.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use kelson_proto::v1::{VolumeStatistics, VolumeStatisticsQuestion};
use tokio::time::Instant;

use crate::job::Subject;

/// The published volumes, by their plugins.
pub type Subjects = BTreeMap<String, Vec<Subject>>;

/// See the module.
#[derive(Debug, Default)]
pub struct Gauges {
    known: HashMap<String, Known>,
    /// The plugins that are being asked.
    asked: BTreeSet<String>,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Known {
    at: Instant,
    found: VolumeStatistics,
}

/// A question that is not answered yet.
#[derive(Debug)]
struct Waiting {
    number: u64,
    /// Until then it waits for these plugins.
    until: Instant,
    plugins: BTreeSet<String>,
}

impl Gauges {
    /// Takes a question of PID 1. Returns what has to be asked of which plugins for it.
    pub fn ask(
        &mut self,
        question: &VolumeStatisticsQuestion,
        mut subjects: Subjects,
        now: Instant,
    ) -> Subjects {
        let volumes: BTreeSet<&String> = subjects.values().flatten().map(|subject| &subject.volume).collect();
        self.known.retain(|volume, _| volumes.contains(volume));
        let age = Duration::from_millis(question.age_ms.into());
        let is_old = |subject: &Subject| {
            let known = self.known.get(&subject.volume);
            known.is_none_or(|known| now.saturating_duration_since(known.at) >= age)
        };
        subjects.retain(|_, of_plugin| of_plugin.iter().any(is_old));
        let plugins: BTreeSet<String> = subjects.keys().cloned().collect();
        subjects.retain(|plugin, _| self.asked.insert(plugin.clone()));
        let within = Duration::from_millis(question.within_ms.into());
        let until = now.checked_add(within).unwrap_or(now);
        self.waiting.push(Waiting { number: question.number, until, plugins });
        subjects
    }

    /// Takes the answers of a plugin.
    pub fn answered(&mut self, plugin: &str, found: Vec<(String, VolumeStatistics)>, now: Instant) {
        self.asked.remove(plugin);
        for waiting in &mut self.waiting {
            waiting.plugins.remove(plugin);
        }
        self.known.extend(found.into_iter().map(|(volume, found)| (volume, Known { at: now, found })));
    }

    /// Takes out the questions that are to be answered now.
    pub fn due(&mut self, now: Instant) -> Vec<u64> {
        let is_due = |waiting: &mut Waiting| waiting.plugins.is_empty() || waiting.until <= now;
        self.waiting.extract_if(.., is_due).map(|waiting| waiting.number).collect()
    }

    /// When [`Gauges::due`] has to be asked again, whatever else comes.
    pub fn wake(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    /// What is known of a volume.
    pub fn of(&self, volume: &str) -> Option<VolumeStatistics> {
        self.known.get(volume).map(|known| known.found.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Place;
    use crate::path::HostPath;

    fn subjects(all: &[(&str, &str)]) -> Subjects {
        let mut subjects = Subjects::new();
        for (plugin, volume) in all {
            let place = Place { target: HostPath::new("/a"), usage: crate::usage::Usage::default() };
            let volume = (*volume).to_owned();
            let subject = Subject { id: format!("id-{volume}"), volume, place, stage: None };
            subjects.entry((*plugin).to_owned()).or_default().push(subject);
        }
        subjects
    }

    fn question(number: u64, age_ms: u32, within_ms: u32) -> VolumeStatisticsQuestion {
        VolumeStatisticsQuestion { number, within_ms, age_ms }
    }

    fn size(size: u64) -> VolumeStatistics {
        VolumeStatistics { size, ..VolumeStatistics::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_is_asked_once_for_all_who_ask_meanwhile() {
        let (mut gauges, now) = (Gauges::default(), Instant::now());
        let all = subjects(&[("nfs", "a"), ("nfs", "b"), ("zfs", "c")]);
        let asked = gauges.ask(&question(1, 0, 6000), all.clone(), now);
        assert_eq!(asked.keys().collect::<Vec<_>>(), ["nfs", "zfs"]);
        assert!(gauges.ask(&question(2, 0, 1000), all.clone(), now).is_empty());
        gauges.answered("nfs", vec![("a".to_owned(), size(1)), ("b".to_owned(), size(2))], now);
        assert_eq!(gauges.due(now), [0; 0]);
        assert_eq!(gauges.wake(), Some(now + Duration::from_secs(1)));
        // The second one has waited long enough for the plugin that hangs.
        let later = now + Duration::from_secs(1);
        assert_eq!(gauges.due(later), [2]);
        assert_eq!((gauges.of("b"), gauges.of("c")), (Some(size(2)), None));
        gauges.answered("zfs", vec![("c".to_owned(), size(3))], later);
        assert_eq!(gauges.due(later), [1]);
        assert_eq!(gauges.of("c"), Some(size(3)));
        assert_eq!(gauges.wake(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_of_the_wanted_age_are_not_asked_for_again() {
        let (mut gauges, now) = (Gauges::default(), Instant::now());
        let all = subjects(&[("nfs", "a")]);
        gauges.ask(&question(1, 30_000, 1000), all.clone(), now);
        gauges.answered("nfs", vec![("a".to_owned(), size(1))], now);
        assert_eq!(gauges.due(now), [1]);
        let at = |seconds| now + Duration::from_secs(seconds);
        assert!(gauges.ask(&question(2, 30_000, 1000), all.clone(), at(29)).is_empty());
        assert_eq!(gauges.due(at(29)), [2]);
        // Another volume has come.
        let more = subjects(&[("nfs", "a"), ("nfs", "b")]);
        assert_eq!(gauges.ask(&question(3, 30_000, 1000), more, at(29)).len(), 1);
        gauges.answered("nfs", vec![("a".to_owned(), size(5)), ("b".to_owned(), size(6))], at(29));
        assert_eq!(gauges.ask(&question(4, 30_000, 1000), all, at(59)).len(), 1);
        assert_eq!(gauges.of("b"), None, "a volume that is in use no more is forgotten");
        assert_eq!(gauges.ask(&question(5, 0, 0), Subjects::new(), at(60)).len(), 0);
        assert_eq!(gauges.of("a"), None);
    }
}
