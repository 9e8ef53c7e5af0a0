//! A plan: what is done, on which hosts in which wave, and how each stands.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Hosts of one part of a plan. With the longest names and reasons they fit into 6 KiB.
const PART: usize = 24;
/// Bytes of the text about a host.
const TEXT_MAX: usize = 140;

/// What is done on each host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Of these services.
    Restart(Vec<String>),
    Apply {
        /// Where the configuration was, on the machine of the operator.
        path: String,
        /// Of all of its files.
        digest: String,
    },
}

impl Action {
    /// `restart web, db`.
    pub fn text(&self) -> String {
        match self {
            Action::Restart(services) => format!("restart {}", services.join(", ")),
            Action::Apply { path, .. } => format!("apply {path}"),
        }
    }
}

/// How a host stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Pending,
    /// The action has begun, or is about to. The mark tells later whether it was done.
    Running(String),
    Done,
    Failed(String),
}

impl Standing {
    pub fn word(&self) -> &'static str {
        match self {
            Standing::Pending => "pending",
            Standing::Running(_) => "running",
            Standing::Done => "done",
            Standing::Failed(_) => "failed",
        }
    }

    /// The mark, or the reason.
    pub fn text(&self) -> &str {
        match self {
            Standing::Pending | Standing::Done => "",
            Standing::Running(text) | Standing::Failed(text) => text,
        }
    }

    fn read(word: &str, text: String) -> Option<Standing> {
        Some(match word {
            "pending" => Standing::Pending,
            "running" => Standing::Running(text),
            "done" => Standing::Done,
            "failed" => Standing::Failed(text),
            _ => return None,
        })
    }
}

/// How far a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It is being carried out, or its coordinator is gone.
    Running,
    /// Too many hosts of a wave have failed.
    Stopped,
    Done,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Stopped => "stopped",
            State::Done => "done",
        }
    }
}

/// Who carries a plan out, until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Tells it from all others.
    pub id: String,
    pub who: String,
    /// Seconds since 1970, by the clock of the host that keeps the plan.
    pub until: i64,
}

/// What is known of a plan without its hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    pub action: Action,
    /// A host has to be healthy for so long, in milliseconds.
    pub healthy_for: u64,
    /// For the action and the health of a host, in milliseconds.
    pub deadline: u64,
    /// How many hosts of a wave may fail.
    pub max_failed: usize,
    /// How many hosts each wave has.
    #[serde(with = "runs")]
    pub waves: Vec<usize>,
    pub state: State,
    pub done: usize,
    pub failed: usize,
    /// Who began it.
    pub by: String,
    /// Seconds since 1970.
    pub began: i64,
    pub claim: Option<Claim>,
}

impl Head {
    pub fn hosts(&self) -> usize {
        self.waves.iter().sum()
    }

    pub fn healthy_for(&self) -> Duration {
        Duration::from_millis(self.healthy_for)
    }

    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline)
    }

    /// How many parts the hosts have.
    pub fn parts(&self) -> usize {
        self.hosts().div_ceil(PART)
    }

    /// # Errors
    /// The value is none of a plan.
    pub fn read(value: &[u8]) -> Result<Head, String> {
        serde_json::from_slice(value).map_err(|error| error.to_string())
    }

    pub fn value(&self) -> Vec<u8> {
        // It has texts and numbers alone, so it can be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Many waves of one size are short in the store: `[size, how often]`.
mod runs {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub fn serialize<S: Serializer>(waves: &[usize], serializer: S) -> Result<S::Ok, S::Error> {
        let runs: Vec<(usize, usize)> = waves
            .chunk_by(|one, next| one == next)
            .filter_map(|run| Some((*run.first()?, run.len())))
            .collect();
        runs.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
        let runs = Vec::<(usize, usize)>::deserialize(deserializer)?;
        // A wave has a host at least, and a plan has no more than this number.
        let most = 24 * 1024;
        if runs.iter().map(|(size, count)| size.saturating_mul(*count)).fold(0, usize::saturating_add) > most
            || runs.iter().any(|(size, _)| *size == 0)
        {
            return Err(serde::de::Error::custom("it has waves of too many hosts"));
        }
        Ok(runs.into_iter().flat_map(|(size, count)| std::iter::repeat_n(size, count)).collect())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub host: String,
    pub standing: Standing,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// These hosts of this wave, which are pending or running.
    Wave(usize, Vec<usize>),
    /// This wave has failed.
    Stop(usize),
    Done,
}

/// A plan as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub head: Head,
    /// In the order of the waves.
    pub places: Vec<Place>,
}

impl Plan {
    pub fn new(head: Head, hosts: impl IntoIterator<Item = String>) -> Plan {
        let place = |host| Place { host, standing: Standing::Pending };
        Plan { head, places: hosts.into_iter().map(place).collect() }
    }

    /// A plan from its parts, in their order.
    ///
    /// # Errors
    /// A part is missing, or is none of a plan.
    pub fn read(head: Head, parts: &[Vec<u8>]) -> Result<Plan, String> {
        let mut places = Vec::new();
        for part in parts {
            let hosts: Vec<(String, String, String)> =
                serde_json::from_slice(part).map_err(|error| error.to_string())?;
            for (host, word, text) in hosts {
                let standing =
                    Standing::read(&word, text).ok_or_else(|| format!("{host} is {word:?} in it"))?;
                places.push(Place { host, standing });
            }
        }
        if places.len() != head.hosts() {
            return Err(format!("it has {} of {} hosts", places.len(), head.hosts()));
        }
        let mut plan = Plan { head, places };
        // The head is written less often than its hosts.
        plan.count();
        Ok(plan)
    }

    /// The number of the part with this host. Part 0 is the head.
    pub fn part_of(index: usize) -> usize {
        index / PART + 1
    }

    /// The value of a part.
    pub fn part(&self, number: usize) -> Vec<u8> {
        let first = number.saturating_sub(1).saturating_mul(PART);
        let hosts = self.places.iter().skip(first).take(PART);
        let hosts: Vec<_> =
            hosts.map(|place| (&place.host, place.standing.word(), short(place.standing.text()))).collect();
        serde_json::to_vec(&hosts).unwrap_or_default()
    }

    /// The hosts of each wave.
    pub fn waves(&self) -> impl Iterator<Item = Range<usize>> {
        self.head.waves.iter().scan(0, |first, count| {
            let wave = *first..*first + count;
            *first = wave.end;
            Some(wave)
        })
    }

    /// What is to be done now.
    pub fn next(&self) -> Next {
        for (number, wave) in self.waves().enumerate() {
            let places = wave.clone().filter_map(|index| Some((index, self.places.get(index)?)));
            let open = |standing: &Standing| matches!(standing, Standing::Pending | Standing::Running(_));
            let open: Vec<usize> =
                places.filter(|(_, place)| open(&place.standing)).map(|(index, _)| index).collect();
            if self.failed_in(wave) > self.head.max_failed {
                // What has begun is brought to its end, and nothing else begins.
                let running = |index: &usize| {
                    matches!(self.places.get(*index), Some(Place { standing: Standing::Running(_), .. }))
                };
                let running: Vec<usize> = open.into_iter().filter(running).collect();
                return if running.is_empty() { Next::Stop(number) } else { Next::Wave(number, running) };
            }
            if !open.is_empty() {
                return Next::Wave(number, open);
            }
        }
        Next::Done
    }

    /// Whether the action may begin on a host: its wave has not failed.
    pub fn may_begin(&self, index: usize) -> bool {
        let wave = self.waves().find(|wave| wave.contains(&index));
        wave.is_some_and(|wave| self.failed_in(wave) <= self.head.max_failed)
    }

    fn failed_in(&self, wave: Range<usize>) -> usize {
        let places = self.places.get(wave).unwrap_or_default();
        places.iter().filter(|place| matches!(place.standing, Standing::Failed(_))).count()
    }

    /// Takes up how a host stands now.
    pub fn set(&mut self, index: usize, standing: Standing) {
        if let Some(place) = self.places.get_mut(index) {
            place.standing = standing;
        }
        self.count();
    }

    /// Hosts that have failed are to be done once more.
    pub fn retry(&mut self) {
        for place in &mut self.places {
            if matches!(place.standing, Standing::Failed(_)) {
                place.standing = Standing::Pending;
            }
        }
        self.head.state = State::Running;
        self.count();
    }

    fn count(&mut self) {
        let count = |word: &str| self.places.iter().filter(|place| place.standing.word() == word).count();
        (self.head.done, self.head.failed) = (count("done"), count("failed"));
    }
}

/// The beginning of a text, without what would be longer in JSON.
fn short(text: &str) -> String {
    let mut short = String::new();
    for letter in text.chars().map(|letter| match letter {
        '"' | '\\' => '\'',
        letter if letter.is_control() => ' ',
        letter => letter,
    }) {
        if short.len() + letter.len_utf8() > TEXT_MAX {
            break;
        }
        short.push(letter);
    }
    short
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn plan(waves: &[usize], max_failed: usize) -> Plan {
        let head = Head {
            action: Action::Restart(vec!["web".to_owned()]),
            healthy_for: 10_000,
            deadline: 60_000,
            max_failed,
            waves: waves.to_vec(),
            state: State::Running,
            done: 0,
            failed: 0,
            by: "ann@desk".to_owned(),
            began: 0,
            claim: None,
        };
        let hosts = head.hosts();
        Plan::new(head, (0..hosts).map(|number| format!("edge-{number}")))
    }

    #[test]
    fn a_wave_begins_once_the_one_before_is_done() {
        let mut plan = plan(&[1, 2], 0);
        assert_eq!(plan.next(), Next::Wave(0, vec![0]));
        plan.set(0, Standing::Running("1".to_owned()));
        assert_eq!(plan.next(), Next::Wave(0, vec![0]), "it is resumed");
        plan.set(0, Standing::Done);
        assert_eq!(plan.next(), Next::Wave(1, vec![1, 2]));
        plan.set(2, Standing::Done);
        assert_eq!(plan.next(), Next::Wave(1, vec![1]));
        plan.set(1, Standing::Done);
        assert_eq!((plan.next(), plan.head.done), (Next::Done, 3));
    }

    #[test]
    fn a_wave_with_too_many_failures_is_the_last() {
        let failed = || Standing::Failed("no answer".to_owned());
        let mut none = plan(&[1, 2], 0);
        none.set(0, failed());
        assert_eq!(none.next(), Next::Stop(0));
        none.retry();
        assert_eq!((none.next(), none.head.failed), (Next::Wave(0, vec![0]), 0));

        let mut one = plan(&[3, 2], 1);
        one.set(0, failed());
        assert_eq!(one.next(), Next::Wave(0, vec![1, 2]));
        one.set(1, Standing::Done);
        one.set(2, Standing::Done);
        assert_eq!(one.next(), Next::Wave(1, vec![3, 4]), "one may fail");
        one.set(3, failed());
        one.set(4, Standing::Done);
        assert_eq!(one.next(), Next::Done, "the failures of each wave count alone");

        let mut begun = plan(&[4], 0);
        begun.set(0, failed());
        begun.set(1, Standing::Running("7".to_owned()));
        assert_eq!(begun.next(), Next::Wave(0, vec![1]), "what has begun is brought to its end");
        begun.set(1, Standing::Done);
        assert_eq!(begun.next(), Next::Stop(0));
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let mut whole = plan(&[1, 10, 89], 2);
        whole.set(0, Standing::Done);
        whole.set(1, Standing::Running("3,4".to_owned()));
        whole.set(40, Standing::Failed("exited with status 3".to_owned()));
        let parts: Vec<Vec<u8>> = (1..=whole.head.parts()).map(|number| whole.part(number)).collect();
        assert_eq!((parts.len(), Plan::part_of(0), Plan::part_of(24), Plan::part_of(99)), (5, 1, 2, 5));
        let head = Head::read(&whole.head.value()).unwrap();
        assert_eq!(Plan::read(head.clone(), &parts), Ok(whole));
        assert_eq!(Plan::read(head.clone(), &parts[..4]).unwrap_err(), "it has 96 of 100 hosts");
        assert!(Plan::read(head, &[b"[[\"a\",\"odd\",\"\"]]".to_vec()]).unwrap_err().contains("odd"));
    }

    #[test]
    fn a_part_is_short_whatever_is_in_it() {
        let mut long = plan(&[PART], 0);
        for index in 0..PART {
            long.places[index].host = "h".repeat(63);
            long.set(index, Standing::Failed("\"\\\n\u{e4}".repeat(100)));
        }
        assert!(long.part(1).len() < 6 << 10, "{}", long.part(1).len());
        let huge = plan(&[1; 10_000], 0);
        let value = huge.head.value();
        assert!(value.len() < 1 << 10 && huge.head.parts() < 1024, "{}", value.len());
        assert_eq!(Head::read(&value), Ok(huge.head));
        let odd = String::from_utf8(value).unwrap().replace("[1,10000]", "[0,10000000000]");
        assert!(Head::read(odd.as_bytes()).unwrap_err().contains("too many hosts"));
    }
}
