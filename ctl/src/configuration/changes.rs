//! What a configuration changes on a host, for people and for programs.

use std::time::SystemTime;

use kelson_proto::v1::service_change::Change;
use kelson_proto::v1::{ApplyResponse, ConfigurationMistake, ServiceChange};
use serde_yaml::Value;

use crate::output::views::value::word;
use crate::output::{escape, escape_lines, object, time, views};

views! {
    // `change`: unchanged, added, removed or changed. `acts`: it is started, stopped or restarted.
    ServiceChange: change { name, change: word(change.change().as_str_name(), "CHANGE_"), acts }
    ConfigurationMistake: mistake { file, line, column, message, warning }
}

pub fn view(answer: &ApplyResponse) -> Value {
    object!(answer => generation, before, applied, mistakes, services, groups, machine_keys, reboot_keys, rollback_at)
}

/// `services/web.yaml:3:1: what is wrong`, with the path that the file has here.
pub fn mistake(mistake: &ConfigurationMistake, place: &impl Fn(&str) -> String) -> String {
    let file = if mistake.file.starts_with('/') { mistake.file.clone() } else { place(&mistake.file) };
    match mistake.line {
        0 => format!("{file}: {}", mistake.message),
        line => format!("{file}:{line}:{}: {}", mistake.column, mistake.message),
    }
}

/// A line for each service, group and key that changes, and one for the end.
pub fn lines(answer: &ApplyResponse, dry_run: bool) -> String {
    if answer.mistakes.iter().any(|found| !found.warning) {
        return String::new();
    }
    let service = |change: &ServiceChange| {
        let what = match (change.change(), change.acts) {
            (Change::Added, true) => "new, starts",
            (Change::Added, false) => "new, does not start",
            (Change::Removed, true) => "removed, stops",
            (Change::Removed, false) => "removed",
            (Change::Changed, true) => "changed, restarts",
            (Change::Changed, false) => "changed; its next run uses it",
            (Change::Unchanged | Change::Unspecified, _) => return None,
        };
        Some(format!("{}: {what}", change.name))
    };
    let lines = answer.services.iter().filter_map(service);
    let lines =
        lines.chain(answer.groups.iter().map(|name| format!("group {name}: changed, takes effect at once")));
    let key = |name: &String| format!("machine.yaml, {name}: changed, takes effect at once");
    let lines = lines.chain(answer.machine_keys.iter().map(key));
    let key = |name: &String| format!("machine.yaml, {name}: changed; needs a reboot");
    let lines = lines.chain(answer.reboot_keys.iter().map(key));
    let mut text: String = lines.map(|line| escape(&line).into_owned() + "\n").collect();
    if text.is_empty() {
        text = "no service changes\n".to_owned();
    }
    text + &escape_lines(&end(answer, dry_run))
}

fn end(answer: &ApplyResponse, dry_run: bool) -> String {
    let ApplyResponse { generation, before, .. } = answer;
    if dry_run {
        return format!("dry run: generation {generation} stays in force\n");
    }
    let mut text = match generation == before {
        true => format!("generation {generation} is in force, as before\n"),
        false => format!("generation {generation} is in force, generation {before} was before\n"),
    };
    if let Some(at) = &answer.rollback_at {
        let left = time::relative(time::left(at, SystemTime::now()).saturating_add(HALF));
        text += &format!(
            "unless you call `kelsonctl confirm` within {left}, or if the host boots before, it returns to generation {before}\n"
        );
        if !answer.reboot_keys.is_empty() {
            text += "the keys that need a reboot cannot be tried this way: confirm before you reboot\n";
        }
    }
    text
}

/// A time that was just begun is shown whole.
const HALF: std::time::Duration = std::time::Duration::from_millis(500);
