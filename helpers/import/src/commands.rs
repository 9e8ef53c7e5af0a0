//! Commands of a unit: `ExecStart=` and those around it.

use kelson_spec::kernel::{parse_signal, signal_name};
use kelson_spec::service::Hook;

use crate::draft::Draft;
use crate::environment::{Expanded, Known, is_in_shell};
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::words::Words;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    pub expanded: Expanded,
    /// `-`
    pub may_fail: bool,
    /// `@`
    pub called: Option<String>,
    /// `+`: as root, not confined.
    pub full: bool,
    /// `!`: as root.
    pub as_root: bool,
}

/// The commands of a key, in order.
///
/// # Errors
/// The sentence about one that cannot be read.
pub fn commands(draft: &Draft<'_>, setting: &Setting) -> Result<Vec<Command>, Outcome> {
    let known = Known::of(draft);
    let mut found = Vec::new();
    for value in setting.list() {
        let mut words = Words::new(value);
        loop {
            found.extend(command(draft, &known, &mut words)?);
            if !words.takes(";") {
                break;
            }
        }
    }
    Ok(found)
}

/// The next command up to a `;`.
fn command(draft: &Draft<'_>, known: &Known, words: &mut Words<'_>) -> Result<Option<Command>, Outcome> {
    let unread = |error| Outcome::rejected(format!("a command cannot be read: {error}"));
    let Some(first) = words.next() else { return Ok(None) };
    let first = first.map_err(unread)?;
    let mut command = Command::default();
    let (mut called, mut literal, mut ambient) = (false, false, false);
    let mut program = first.as_str();
    while let Some(prefix) = program.chars().next() {
        match prefix {
            '-' => command.may_fail = true,
            '@' => called = true,
            ':' => literal = true,
            '+' => command.full = true,
            '!' => ambient = std::mem::replace(&mut command.as_root, true),
            _ => break,
        }
        program = program.get(1..).unwrap_or_default();
    }
    if ambient {
        // With ambient capabilities, which every kernel of today has, `!!` does nothing.
        command.as_root = false;
    }
    let program = draft.expanded(program)?;
    if program.is_empty() || (program.contains('/') && !program.starts_with('/')) {
        return Err(Outcome::rejected(format!(
            "{program:?} is neither a path from / nor a name of a program"
        )));
    }
    command.expanded.literal(&program);
    let mut skip = called;
    loop {
        if words.takes("\\;") {
            command.expanded.literal(";");
            continue;
        }
        let mut ahead = words.clone();
        if ahead.takes(";") {
            break;
        }
        let Some(word) = words.next() else { break };
        let word = draft.expanded(&word.map_err(unread)?)?;
        if std::mem::take(&mut skip) {
            command.called = Some(word);
        } else if literal {
            command.expanded.literal(&word);
        } else {
            command.expanded.word(known, &word);
        }
    }
    Ok(Some(command))
}

/// The words by which Kelson runs a command, and what is not kept of it wherever it stands. `hides`: its failure does not
/// count.
fn runs(command: &Command, hides: bool) -> (Vec<String>, Outcome) {
    let Expanded { words, script, open } = &command.expanded;
    let mut outcome = Outcome::default();
    if let Some(called) = &command.called {
        let program = words.first().map_or("", String::as_str);
        outcome = outcome.and(match program.rsplit('/').next() == called.rsplit('/').next() {
            true => Outcome::approximated("the program is called by its path, and not by the name after `@`"),
            false => Outcome::rejected(format!(
                "the program is called by its path; one that looks at the name by which it is called ({called}) does \
                 something else"
            )),
        });
    }
    let (mine, others): (Vec<&String>, Vec<&String>) =
        open.iter().partition(|variable| is_in_shell(variable));
    if !others.is_empty() {
        let names = others.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        outcome = outcome.and(Outcome::rejected(format!(
            "the command has {names}, which Kelson gives no service; write the value in its place"
        )));
    }
    if hides {
        outcome = outcome.and(Outcome::approximated("a shell runs the command and hides its failure (`-`)"));
    }
    let by_shell = |script: String| ["sh".to_owned(), "-c".to_owned(), script].to_vec();
    let script = script.join(" ");
    let words = match (mine.is_empty(), hides) {
        (true, false) => words.clone(),
        (true, true) => {
            let shell = ["sh", "-c", "\"$@\" || :", "sh"].map(str::to_owned);
            shell.into_iter().chain(words.iter().cloned()).collect()
        }
        (false, false) => by_shell(format!("set -f; exec {script}")),
        (false, true) => by_shell(format!("set -f; {script} || :")),
    };
    if !mine.is_empty() {
        let names = mine.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        outcome = outcome.and(Outcome::approximated(format!(
            "a shell puts in the value of {names}, and quotes in the value are letters to it"
        )));
    }
    (words, outcome)
}

pub fn exec_start(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let mut commands = match commands(draft, setting) {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    let Some(last) = commands.pop() else { return Outcome::as_table() };
    let (words, mut outcome) = runs(&last, last.may_fail && draft.is_oneshot());
    for earlier in &commands {
        let (hook, of_it) = before_main(draft, earlier);
        outcome = outcome.and(of_it);
        draft.earlier.push(hook);
    }
    if !commands.is_empty() {
        outcome = outcome.and(match draft.is_oneshot() {
            true => Outcome::kept("the commands before the last become `hooks: {pre: …}`"),
            false => Outcome::rejected("only a one-shot has several commands; systemd refuses this unit"),
        });
    }
    if (last.full || last.as_root) && confined(draft) {
        outcome = outcome.and(Outcome::rejected(
            "`+` or `!` runs the program as root; in Kelson the whole service has one user: leave `user` out if the \
             program gives up root by itself",
        ));
    }
    let policy = draft.settings.service("Restart");
    if last.may_fail && !draft.is_oneshot() {
        outcome = outcome.and(match policy {
            "" | "no" | "always" => Outcome::approximated(
                "a failure shows as one (systemd hides it for `-`), and is followed by the same",
            ),
            _ => Outcome::rejected(
                "an exit with another status than 0 (`-`) counts as a failure, and the service restarts",
            ),
        });
    }
    if let kelson_spec::service::Workload::Process(process) = &mut draft.spec.workload {
        process.command = words;
    }
    outcome
}

/// Whether a user or a restriction holds for the service, which `+` would lift.
fn confined(draft: &Draft<'_>) -> bool {
    let has = |key: &str| !draft.settings.service_list(key).is_empty();
    has("User")
        || has("CapabilityBoundingSet")
        || has("AmbientCapabilities")
        || draft.is_on("NoNewPrivileges")
}

fn hook(draft: &Draft<'_>, command: &Command, words: Vec<String>, timeout: &str) -> Hook {
    let mut hook = Hook::new(words, draft.hook_timeout(timeout));
    let root = command.full || command.as_root || draft.is_on("PermissionsStartOnly");
    hook.as_root = root && confined(draft);
    hook
}

/// A hook whose failure keeps the service from starting.
fn before_main(draft: &Draft<'_>, command: &Command) -> (Hook, Outcome) {
    let (words, outcome) = runs(command, command.may_fail);
    (hook(draft, command, words, "TimeoutStartSec"), outcome)
}

pub fn exec_start_pre(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match commands(draft, setting) {
        Ok(commands) => {
            let each = commands.iter().map(|command| {
                let (hook, outcome) = before_main(draft, command);
                draft.spec.hooks.pre.push(hook);
                outcome
            });
            each.collect::<Vec<_>>().into_iter().collect::<Outcome>().and(many(&commands))
        }
        Err(outcome) => outcome,
    }
}

/// More commands than a service file takes.
fn many(commands: &[Command]) -> Outcome {
    match commands.len() > 32 {
        true => Outcome::rejected("a service file takes 32 commands here, and the others are left out"),
        false => Outcome::default(),
    }
}

/// A hook beside the main process, which has the user of the service.
fn beside_main(draft: &Draft<'_>, command: &Command, timeout: &str) -> (Hook, Outcome) {
    let (words, mut outcome) = runs(command, false);
    let mut hook = hook(draft, command, words, timeout);
    if std::mem::take(&mut hook.as_root) {
        outcome = outcome.and(Outcome::rejected(
            "the command runs as the user of the service, and not as root: only hooks before and after a run can",
        ));
    }
    (hook, outcome)
}

pub fn exec_start_post(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let commands = match commands(draft, setting) {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    let mut outcome = many(&commands);
    for command in &commands {
        let (hook, of_it) = beside_main(draft, command, "TimeoutStartSec");
        outcome = outcome.and(of_it);
        if !command.may_fail {
            outcome = outcome.and(Outcome::approximated(
                "the service is up before these commands have ended, and runs on if one fails",
            ));
        }
        draft.spec.hooks.post_start.push(hook);
    }
    outcome
}

pub fn exec_stop(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let commands = match commands(draft, setting) {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    if commands.is_empty() {
        return Outcome::as_table();
    }
    if draft.is_oneshot() {
        return Outcome::rejected(
            "a one-shot that has ended has no command for its stop; what it did is undone by nobody",
        );
    }
    if let [only] = commands.as_slice()
        && let Some(signal) = killed_with(only)
    {
        draft.spec.stop.signal = signal;
        return Outcome::kept("`stop: {signal: …}`: the command sends a signal to the main process");
    }
    let mut outcome = many(&commands);
    for command in &commands {
        let (hook, of_it) = beside_main(draft, command, "TimeoutStopSec");
        outcome = outcome.and(of_it);
        draft.spec.hooks.pre_stop.push(hook);
    }
    outcome
}

pub fn exec_stop_post(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let commands = match commands(draft, setting) {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    let mut outcome = many(&commands);
    for command in &commands {
        let (words, of_it) = runs(command, false);
        outcome = outcome.and(of_it);
        draft.spec.hooks.post.push(hook(draft, command, words, "TimeoutStopSec"));
    }
    outcome
}

pub fn exec_reload(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let commands = commands(draft, setting);
    let signal = match commands.as_deref() {
        Ok([]) => return Outcome::kept("there is no command"),
        Ok([only]) => killed_with(only),
        _ => None,
    };
    match signal.map(signal_name) {
        Some(signal) => {
            let name = &draft.spec.name;
            Outcome::approximated(format!("`kelsonctl signal {name} {signal}` sends the signal of a reload"))
        }
        None => Outcome::as_table(),
    }
}

/// The signal that a command such as `/bin/kill -s HUP $MAINPID` sends to the main process.
pub fn killed_with(command: &Command) -> Option<i32> {
    if command.expanded.open != ["$MAINPID"] || command.full || command.as_root || command.called.is_some() {
        return None;
    }
    let words: Vec<&str> = command.expanded.words.iter().map(String::as_str).collect();
    let signal = match words.as_slice() {
        ["/bin/kill" | "/usr/bin/kill" | "kill", "-s" | "--signal", signal, "$MAINPID"] => *signal,
        ["/bin/kill" | "/usr/bin/kill" | "kill", option, "$MAINPID"] => option.strip_prefix('-')?,
        ["/bin/kill" | "/usr/bin/kill" | "kill", "$MAINPID"] => "TERM",
        _ => return None,
    };
    parse_signal(signal).ok()
}
