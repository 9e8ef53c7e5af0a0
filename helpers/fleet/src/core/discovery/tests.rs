use std::time::Duration;

use super::*;

const fn secs(seconds: u64) -> Moment {
    Duration::from_secs(seconds)
}

fn interest(wanted: &[(&str, &str)]) -> FleetInterest {
    let wanted = wanted.iter().map(|(name, tag)| FleetWanted { name: (*name).into(), tag: (*tag).into() });
    FleetInterest { wanted: wanted.collect() }
}

fn instance(host: &str, tags: &[&str]) -> (Instance, ServiceEntry) {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    ((host.to_owned(), "db".to_owned()), ServiceEntry { tags, ..ServiceEntry::default() })
}

fn one(host: &str, tags: Option<&[&str]>) -> Seen {
    let (place, _) = instance(host, &[]);
    Seen::One("postgres".into(), place, tags.map(|tags| instance(host, tags).1))
}

struct Helper(Discovery);

impl Helper {
    fn new(before: Option<Answers>) -> Helper {
        let mut discovery = Discovery::new(Limits::default(), before);
        discovery.want(interest(&[("postgres", ""), ("postgres", "primary")]));
        Helper(discovery)
    }

    fn sees(&mut self, at: u64, seen: Vec<Seen>) {
        seen.into_iter().for_each(|seen| self.0.see(seen, secs(at)));
        self.0.settle(secs(at));
    }

    /// A watch begins, and finds these.
    fn reads(&mut self, at: u64, all: Vec<(Instance, ServiceEntry)>) {
        assert!(self.0.is_due(secs(at)));
        self.sees(at, vec![Seen::All("postgres".into(), all), Seen::Follows]);
    }

    /// All reports: `TAG COUNT/ALL`, `@SECONDS` or the trouble.
    fn reports(&mut self) -> Vec<String> {
        let mut reports = Vec::new();
        while let Some(report) = self.0.next_report() {
            reports.push(match report {
                Report::Found(FleetFound { wanted, count, all }) => {
                    format!("{} {count}/{all}", wanted.unwrap().tag)
                }
                Report::FoundAt(micros) => format!("@{}", micros / 1_000_000),
                Report::Trouble(text) => text,
                other => panic!("{other:?}"),
            });
        }
        reports
    }
}

#[test]
fn instances_are_counted_with_the_tag_and_without() {
    let mut helper = Helper::new(None);
    assert_eq!(helper.0.names().len(), 1);
    helper.reads(10, vec![instance("a", &["primary"]), instance("b", &["standby"])]);
    assert_eq!(helper.reports(), ["@10", " 2/2", "primary 1/2"]);
    helper.0.confirmed(secs(20));
    assert_eq!(helper.reports(), ["@20"]);
    // The same again with another address is no change.
    helper.sees(21, vec![one("a", Some(&["primary"]))]);
    assert_eq!(helper.reports(), [""; 0]);
    helper.sees(22, vec![one("b", Some(&["primary"])), one("a", None), one("never", None)]);
    assert_eq!(helper.reports(), [" 1/1", "primary 1/1"]);
    helper.sees(23, vec![one("b", None)]);
    assert_eq!(helper.reports(), [" 0/0", "primary 0/0"]);
}

#[test]
fn the_last_answer_stays_while_there_is_no_watch() {
    let mut helper = Helper::new(None);
    helper.reads(10, vec![instance("a", &["primary"])]);
    helper.reports();
    helper.0.ended();
    helper.0.confirmed(secs(12));
    helper.sees(12, vec![one("a", None)]);
    assert_eq!(helper.reports(), [""; 0]);
    // Of the next one only the whole counts.
    helper.sees(13, vec![Seen::All("postgres".into(), vec![])]);
    assert_eq!(helper.reports(), [""; 0]);
    helper.sees(13, vec![Seen::Follows]);
    assert_eq!(helper.reports(), ["@13", " 0/0", "primary 0/0"]);
}

#[test]
fn after_a_long_silence_others_have_time_to_return() {
    let mut helper = Helper::new(None);
    helper.reads(10, vec![instance("a", &["primary"]), instance("b", &[])]);
    helper.reports();
    helper.0.ended();
    helper.reads(50, vec![instance("b", &[])]);
    helper.0.confirmed(secs(51));
    assert_eq!(helper.reports(), [""; 0]);
    assert_eq!(helper.0.wake(true), Some(secs(80)));
    // One of them is back, and with it the store is as before.
    helper.sees(60, vec![one("a", Some(&["primary"]))]);
    assert_eq!((helper.reports(), helper.0.wake(true)), (vec!["@60".to_owned()], None));

    helper.0.ended();
    helper.reads(100, vec![]);
    helper.sees(129, vec![]);
    assert_eq!(helper.reports(), [""; 0]);
    helper.sees(130, vec![]);
    helper.0.confirmed(secs(131));
    assert_eq!(helper.reports(), ["@130", " 0/0", "primary 0/0", "@131"]);
}

#[test]
fn the_next_helper_says_what_was_known() {
    let mut helper = Helper::new(None);
    helper.reads(10, vec![instance("a", &["primary"])]);
    let known = helper.0.changed().unwrap();
    assert_eq!((known.at, helper.0.changed()), (10_000_000, None));
    let mut next = Helper::new(Some(known.clone()));
    assert_eq!(next.reports(), ["@10", " 1/1", "primary 1/1"]);
    assert_eq!(next.0.changed(), Some(known.clone()));
    // What is no longer wanted is not said, and not kept.
    let mut other = Discovery::new(Limits::default(), Some(known));
    other.want(interest(&[("web", "")]));
    assert!(other.next_report().is_none());
    assert_eq!(other.changed().unwrap(), Answers::default());
}

#[test]
fn a_watch_that_fails_begins_again_later_each_time() {
    let mut helper = Helper::new(None);
    for (at, next) in [(10, 11), (20, 22), (30, 34)] {
        assert!(helper.0.is_due(secs(at)));
        helper.sees(at, vec![Seen::Ended("permission denied".into())]);
        assert!(helper.0.wake(false).unwrap() <= secs(next));
    }
    let text = "what others have registered cannot be followed: permission denied";
    assert_eq!(helper.reports(), [text]);
    // Another interest is another try.
    helper.0.want(interest(&[("web", "")]));
    assert!(helper.0.is_due(secs(14)));
    helper.0.want(interest(&[]));
    assert!(!helper.0.is_due(secs(14)) && helper.0.wake(false).is_none());
}
