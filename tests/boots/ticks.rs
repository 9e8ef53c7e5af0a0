//! Services that write numbered lines, and what of their logs is missing.

use std::time::Duration;

use kelson_tests::Vm;
use serde::Deserialize;

/// The pause between two lines.
pub const TICK: Duration = Duration::from_millis(10);

/// The steps of such a service.
pub fn steps() -> String {
    format!("print=begin, 'ticker={}ms'", TICK.as_millis())
}

#[derive(Debug, Deserialize)]
pub struct LogLine {
    pub stream: String,
    pub text: String,
}

/// The log of a service as `kelsonctl logs` shows it.
#[track_caller]
pub fn log(vm: &Vm, name: &str, more: &[&str]) -> Vec<LogLine> {
    vm.ctl(&[&["-o", "json", "logs"], more, &[name]].concat()).ok().json_lines()
}

pub fn number(line: &LogLine) -> Option<u64> {
    line.text.strip_prefix("tick ")?.parse().ok().filter(|_| line.stream == "stdout")
}

/// The losses of a log.
#[derive(Debug, Default)]
pub struct Missing {
    pub lines: u64,
    pub told: Vec<String>,
    /// The last number of the last run but one.
    pub end_of_run_before: u64,
}

/// Looks for what is missing in the middle of a run. Its end may be missing, where the host went down; a line that lost
/// its end must be told as that.
pub fn missing(lines: &[LogLine]) -> Missing {
    let mut found = Missing::default();
    let mut next: Option<u64> = None;
    let is_told = |line: &LogLine| line.stream == "note" && line.text.contains("is not whole");
    let is_end = |line: &LogLine| line.stream == "note" && line.text.contains("lines are missing here");
    for (at, line) in lines.iter().enumerate() {
        if is_end(line) || is_told(line) || lines.get(at + 1).is_some_and(is_told) {
            continue;
        }
        if line.text == "begin" {
            found.end_of_run_before = next.map_or(0, |next| next - 1);
            next = Some(1);
            continue;
        }
        let tick = number(line);
        if tick.is_none() || next.is_some_and(|next| Some(next) != tick) {
            found.lines += tick.and_then(|tick| tick.checked_sub(next?)).unwrap_or(1);
            found.told.push(format!("{line:?} stands where tick {next:?} should"));
        }
        next = tick.map(|tick| tick + 1).or(next);
    }
    found
}

#[test]
fn what_is_missing_is_found() {
    let line = |stream: &str, text: &str| LogLine { stream: stream.to_owned(), text: text.to_owned() };
    let out = |texts: &[&str]| texts.iter().map(|text| line("stdout", text)).collect::<Vec<_>>();
    assert_eq!(missing(&out(&["tick 7", "tick 8", "begin", "tick 1"])).lines, 0);
    assert_eq!(missing(&out(&["begin", "tick 1", "tick 4"])).lines, 2);
    assert_eq!(missing(&out(&["tick 12", "tick 1", "begin"])).lines, 1, "a torn line that is not told");
    let mut torn = out(&["tick 12", "tick 1"]);
    torn.push(line("note", "the line before this one is not whole: …"));
    assert_eq!(missing(&torn).lines, 0);
    torn.push(line("note", "3 lines (12 bytes) were lost here: …"));
    assert_eq!(missing(&torn).lines, 1);
    assert_eq!(missing(&out(&["begin", "tick 1", "tick 2", "begin"])).end_of_run_before, 2);
}
