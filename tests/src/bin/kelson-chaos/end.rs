//! After the last fault: everything comes to an end, and what was written and counted is added up.

use std::fs;
use std::time::{Duration, Instant};

use kelson_tests::chaos::Ledger;
use kelson_tests::chaos::ledger::{log, number_after};
use kelson_tests::chaos::load::{BOXED, ENOUGH, ONCE, RESTLESS, WRITER};
use kelson_tests::{Service, until};

use crate::judge::{Judge, Streams};

/// Lets what is restless come to its end, stops what writes, and counts.
pub fn look(judge: &mut Judge) {
    let restless = end_restless(judge);
    let writers = stop_writers(judge);
    follow_up(judge);
    for service in restless {
        count_runs(judge, &service);
    }
    for name in writers {
        count_writer(judge, &name);
    }
    count_boxed(judge);
    count_lives(judge);
    let once = runs(judge, ONCE);
    if once != 1 && !named(judge, ONCE).is_empty() {
        judge.verdict.miscounted += 1;
        judge.problem(format!("{ONCE} was run {once} times"));
    }
}

fn named(judge: &Judge, begin: &str) -> Vec<Service> {
    let all = until("an answer", judge.plan.bound, || judge.ask().ok());
    all.into_iter().filter(|service| service.name.starts_with(begin)).collect()
}

fn end_restless(judge: &Judge) -> Vec<Service> {
    fs::write(judge.plan.files.join(ENOUGH), "").expect("the folder of the services can be written");
    until("what is restless to end", 10 * judge.plan.bound, || {
        let all = named(judge, RESTLESS);
        all.iter().all(|service| ["finished", "failed"].contains(&service.state.as_str())).then_some(all)
    })
}

/// Their names, once they have ended.
fn stop_writers(judge: &Judge) -> Vec<String> {
    let names: Vec<String> = named(judge, WRITER).into_iter().map(|service| service.name).collect();
    if !names.is_empty() {
        let timeout = format!("{}s", 10 * judge.plan.bound.as_secs());
        let mut words = vec!["stop", "--wait", "--timeout", &timeout];
        words.extend(names.iter().map(String::as_str));
        judge.ctl.run(&words).ok();
    }
    names
}

/// The streams went on: no number is missing, none came twice.
fn follow_up(judge: &mut Judge) {
    let Some(Streams { mut events, from, lines }) = judge.streams.take() else { return };
    let last = judge.ctl.events().last().map_or(0, |event| event.seq);
    let mut seen = Vec::new();
    let deadline = Instant::now() + 10 * judge.plan.bound;
    while seen.last().is_none_or(|seen| *seen < last) {
        let Some(event) = events.next(deadline.saturating_duration_since(Instant::now())) else { break };
        seen.push(event.seq);
    }
    judge.count_lines("events -f", Ledger::of(seen, from, last..=u64::MAX));

    let Some(mut lines) = lines else { return };
    let name = format!("{WRITER}0");
    let last = board(judge, &name);
    let mut seen: Vec<u64> = Vec::new();
    while seen.last().is_none_or(|seen| *seen < last) {
        let Some(line) = lines.next(deadline.saturating_duration_since(Instant::now())) else { break };
        seen.extend(number_after(&line, "beat "));
    }
    let first = seen.first().copied().unwrap_or_default();
    judge.count_lines(&format!("logs -f {name}"), Ledger::of(seen, first, last..=last + 1));
}

/// The log of a service from its files, which logd writes a little later, once it is so or the time for that is over.
fn log_once(judge: &Judge, name: &str, is_so: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + judge.plan.bound;
    loop {
        let text = log(&judge.plan.logs, name);
        if is_so(&text) || Instant::now() > deadline {
            return text;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How many runs have noted that they began.
fn runs(judge: &Judge, name: &str) -> usize {
    let file = judge.plan.files.join(format!("{name}.runs"));
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

/// Each run but the first is a restart that was counted, and each has left its line.
fn count_runs(judge: &mut Judge, service: &Service) {
    let name = &service.name;
    let runs = runs(judge, name);
    if service.state != "finished" {
        judge.verdict.lost += 1;
        judge.problem(format!("{name} has not come to its end: {service:?}"));
    }
    if service.restarts as usize + 1 != runs {
        judge.verdict.miscounted += 1;
        judge.problem(format!("{name} was run {runs} times, and {} restarts were counted", service.restarts));
    }
    let count = |text: &str| text.lines().filter(|line| line.ends_with(" ran")).count();
    let lines = count(&log_once(judge, name, |text| count(text) >= runs));
    judge.verdict.written += lines as u64;
    if lines != runs {
        judge.verdict.lines += lines.abs_diff(runs) as u64;
        judge.problem(format!("{name} was run {runs} times, and {lines} lines are in its log"));
    }
}

/// The number of the last line that a writer has noted.
fn board(judge: &Judge, name: &str) -> u64 {
    let text = fs::read_to_string(judge.plan.files.join(name)).unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// Its lines are in its log from the first to the last; it may have been ended before it noted that one.
fn count_writer(judge: &mut Judge, name: &str) {
    let last = board(judge, name);
    let word = format!(" beat {last} ");
    let text = log_once(judge, name, |text| text.contains(&word));
    let numbers = text.lines().filter_map(|line| number_after(line, " beat "));
    judge.count_lines(name, Ledger::of(numbers, 1, last.max(1)..=last + 1));
    if let Some(note) = text.lines().find(|line| line.contains(" note F ")) {
        judge.problem(format!("{name}: its log tells: {note}"));
    }
    let text = fs::read_to_string(judge.plan.files.join(name)).unwrap_or_default();
    let blocked: u64 = text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    if u128::from(blocked) > judge.plan.bound.as_millis() {
        judge.verdict.hangs += 1;
        judge.problem(format!("{name}: a write took {blocked} ms"));
    }
}

/// It goes on, so what it wrote last is not known; what is there is without a gap.
fn count_boxed(judge: &mut Judge) {
    let text = log(&judge.plan.logs, BOXED);
    if !text.is_empty() {
        let numbers = text.lines().filter_map(|line| number_after(line, " tick "));
        judge.count_lines(BOXED, Ledger::of(numbers, 1, 1..=u64::MAX));
    }
}

/// Each fault was a life of its own, and PID 1 knows of it.
fn count_lives(judge: &mut Judge) {
    let (reexecs, crashes) = judge.lives().unwrap_or_default();
    let told = (reexecs.saturating_sub(judge.counted.0), crashes.saturating_sub(judge.counted.1));
    if told != judge.asked {
        let asked = judge.asked;
        judge.problem(format!("{asked:?} times executed anew and crashed, and {told:?} are told of"));
    }
}
