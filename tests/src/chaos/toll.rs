//! The cost of faults of one kind, as one line that hack/chaos makes a row of its table of.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ctl::Service;

/// The cost of a fault that was injected some times.
#[derive(Debug, Clone, Default)]
pub struct Toll {
    pub fault: String,
    pub times: u32,
    /// Services with another PID or in another state than before, or no longer up. `None`: the test does not look.
    pub lost: Option<u64>,
    /// Lines that are missing and not noted as lost, and lines that are there twice. `None`: the test does not look.
    pub lines: Option<u64>,
    /// Restarts that were counted and did not happen. `None`: the test does not look.
    pub miscounted: Option<u64>,
    /// Steps that did not end in time, or not as they should.
    pub hangs: u64,
    /// In words, what is wrong.
    pub problems: Vec<String>,
}

impl Toll {
    pub fn of(fault: &str) -> Toll {
        Toll { fault: fault.to_owned(), ..Toll::default() }
    }

    /// Does it. A panic says what was expected; here it is counted, and its message kept.
    pub fn attempt<T>(&mut self, what: impl FnOnce() -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(what));
        if let Err(panic) = &done {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            self.hangs += 1;
            self.problems.push(text.unwrap_or_default());
        }
        done.ok()
    }

    /// Counts what has become of the services.
    pub fn compare(&mut self, before: &BTreeMap<String, Service>, after: &BTreeMap<String, Service>) {
        self.count_lost(0, String::new);
        for (name, was) in before {
            let Some(now) = after.get(name) else {
                self.count_lost(1, || format!("{name} is not known any more"));
                continue;
            };
            if (now.pid, now.up, &now.state) != (was.pid, was.up, &was.state) {
                self.count_lost(1, || format!("{was:?} is {now:?}"));
            }
            self.count_restarts(now.restarts.abs_diff(was.restarts));
        }
    }

    /// Counts services that are lost.
    pub fn count_lost(&mut self, lost: u64, problem: impl FnOnce() -> String) {
        *self.lost.get_or_insert(0) += lost;
        if lost > 0 {
            self.problems.push(problem());
        }
    }

    /// Counts restarts that did not happen.
    pub fn count_restarts(&mut self, restarts: u32) {
        *self.miscounted.get_or_insert(0) += u64::from(restarts);
    }

    /// Counts lines that are missing or there twice.
    pub fn count_lines(&mut self, wrong: u64, problem: impl FnOnce() -> String) {
        *self.lines.get_or_insert(0) += wrong;
        if wrong > 0 {
            self.problems.push(problem());
        }
    }

    pub fn is_nothing(&self) -> bool {
        let looked_at = [self.lost, self.lines, self.miscounted, Some(self.hangs)];
        looked_at.into_iter().flatten().all(|count| count == 0) && self.problems.is_empty()
    }

    /// Prints the line, and then panics unless it cost nothing.
    #[track_caller]
    pub fn tell(&self) {
        println!("{self}");
        assert!(self.is_nothing(), "{self:#?}");
        assert!(self.times > 0, "nothing was injected: {self:#?}");
    }
}

impl fmt::Display for Toll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Toll { fault, times, lost, lines, miscounted, hangs, .. } = self;
        write!(f, "CHAOS {fault} {times}")?;
        for count in [*lost, *lines, *miscounted] {
            match count {
                Some(count) => write!(f, " {count}")?,
                None => write!(f, " -")?,
            }
        }
        write!(f, " {hangs}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(pid: i32, restarts: u32) -> BTreeMap<String, Service> {
        let json = serde_json::json!({
            "name": "web", "state": "running", "up": true, "healthy": null, "restarts": restarts, "pid": pid,
            "since": "", "waitingFor": [], "message": "", "builtin": false, "stopped": false,
        });
        let service: Service = serde_json::from_value(json).expect("a service");
        BTreeMap::from([(service.name.clone(), service)])
    }

    #[test]
    fn each_kind_of_cost_has_its_column_and_what_nobody_looks_at_has_a_dash() {
        let mut toll = Toll { times: 3, ..Toll::of("flood") };
        assert_eq!((toll.to_string().as_str(), toll.is_nothing()), ("CHAOS flood 3 - - - 0", true));
        toll.count_lines(0, String::new);
        toll.compare(&service(7, 1), &service(7, 1));
        assert_eq!(toll.attempt(|| 5), Some(5));
        assert_eq!((toll.to_string(), toll.is_nothing()), (format!("CHAOS flood 3{}", " 0".repeat(4)), true));
        toll.compare(&service(7, 1), &service(8, 3));
        toll.compare(&service(7, 1), &BTreeMap::new());
        toll.count_lines(4, || "web: 4 lines are missing".to_owned());
        assert!(toll.attempt(|| panic!("not within {}: an answer", 5)).is_none_or(|()| false));
        assert_eq!((toll.to_string().as_str(), toll.is_nothing()), ("CHAOS flood 3 2 4 2 1", false));
        assert_eq!(toll.problems.last().map(String::as_str), Some("not within 5: an answer"));
    }
}
