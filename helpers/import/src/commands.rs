//! Commands of a unit: `ExecStart=` and those around it.

use kelson_spec::kernel::parse_signal;
use kelson_spec::service::Hook;

use crate::draft::Draft;
use crate::environment::unknown_variables;
use crate::finding::Outcome;
use crate::input::has_terminal;
use crate::settings::Setting;
use crate::words::Words;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    pub words: Vec<String>,
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
    let mut found = Vec::new();
    for value in setting.list() {
        let mut words = Words::new(value);
        loop {
            found.extend(command(draft, &mut words)?);
            if !words.takes(";") {
                break;
            }
        }
    }
    Ok(found)
}

/// The next command up to a `;`.
fn command(draft: &Draft<'_>, words: &mut Words<'_>) -> Result<Option<Command>, Outcome> {
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
    command.words.push(program);
    let mut skip = called;
    loop {
        if words.takes("\\;") {
            command.words.push(";".to_owned());
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
            command.words.push(word.replace('$', "$$"));
        } else {
            command.words.push(word);
        }
    }
    Ok(Some(command))
}

/// What is not kept of a command wherever it stands. `of_hook`: it knows the PID of the main process.
fn in_common(draft: &mut Draft<'_>, command: &Command, of_hook: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let arguments = command.words.get(1..).unwrap_or_default();
    if arguments.iter().any(|word| word.contains('$')) {
        draft.spec.expand = true;
    }
    let lacking = arguments.iter().flat_map(|word| unknown_variables(word, of_hook));
    // The terminal of a service has a kind.
    let lacking: Vec<String> = lacking.filter(|name| name != "$TERM" || !has_terminal(draft)).collect();
    if !lacking.is_empty() {
        outcome = outcome.and(Outcome::rejected(format!(
            "the command has {}, which Kelson gives no such command, so it is empty; write the value in its place",
            lacking.join(", ")
        )));
    }
    if let Some(called) = &command.called {
        let program = command.words.first().map_or("", String::as_str);
        outcome = outcome.and(match program.rsplit('/').next() == called.rsplit('/').next() {
            true => Outcome::approximated("the program is called by its path, and not by the name after `@`"),
            false => Outcome::rejected(format!(
                "the program is called by its path; one that looks at the name by which it is called ({called}) does \
                 something else"
            )),
        });
    }
    outcome
}

pub fn exec_start(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let mut commands = match commands(draft, setting) {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    let Some(last) = commands.pop() else { return Outcome::as_table() };
    let mut outcome = in_common(draft, &last, false);
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
    if (last.full || last.as_root) && draft.is_confined() {
        outcome = outcome.and(Outcome::rejected(
            "`+` or `!` runs the program as root; in Kelson the whole service has one user: leave `user` out if the \
             program gives up root by itself",
        ));
    }
    let policy = draft.settings.service("Restart");
    let mut words = last.words;
    if last.may_fail && draft.is_oneshot() {
        outcome = outcome.and(Outcome::approximated("a shell runs the command and hides its failure (`-`)"));
        let shell = ["sh", "-c", "\"$@\" || :", "sh"].map(str::to_owned);
        words.splice(0..0, shell);
    } else if last.may_fail {
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

fn hook(draft: &Draft<'_>, command: &Command, timeout: &str) -> Hook {
    let mut hook = Hook::new(command.words.iter().cloned(), draft.hook_timeout(timeout));
    let root = command.full || command.as_root || draft.is_on("PermissionsStartOnly");
    hook.as_root = root && draft.is_confined();
    hook
}

/// A hook before the main process.
fn before_main(draft: &mut Draft<'_>, command: &Command) -> (Hook, Outcome) {
    let outcome = in_common(draft, command, false);
    let mut hook = hook(draft, command, "TimeoutStartSec");
    hook.may_fail = command.may_fail;
    (hook, outcome)
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

pub fn exec_condition(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let commands = match commands(draft, setting) {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    let mut outcome = many(&commands);
    for command in &commands {
        let (mut hook, of_it) = before_main(draft, command);
        hook.condition = true;
        draft.conditions.push(hook);
        outcome = outcome.and(of_it);
    }
    outcome
}

/// More commands than a service file takes.
fn many(commands: &[Command]) -> Outcome {
    match commands.len() > 32 {
        true => Outcome::rejected("a service file takes 32 commands here, and the others are left out"),
        false => Outcome::default(),
    }
}

/// A hook beside the main process.
fn beside_main(draft: &mut Draft<'_>, command: &Command, timeout: &str) -> (Hook, Outcome) {
    let outcome = in_common(draft, command, true);
    (hook(draft, command, timeout), outcome)
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
    if draft.is_oneshot() && !draft.is_on("RemainAfterExit") {
        // Its stop follows its end at once.
        return exec_stop_post(draft, setting)
            .and(Outcome::approximated("`hooks: {post: …}`: the commands run after a failure too"));
    }
    if draft.is_oneshot() {
        let mut outcome = many(&commands);
        for command in &commands {
            outcome = outcome.and(in_common(draft, command, false));
            let hook = hook(draft, command, "TimeoutStopSec");
            draft.spec.hooks.undo.push(hook);
        }
        return outcome.and(Outcome::kept("`hooks: {undo: …}`"));
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
        outcome = outcome.and(in_common(draft, command, false));
        let hook = hook(draft, command, "TimeoutStopSec");
        draft.spec.hooks.post.push(hook);
    }
    outcome
}

pub fn exec_reload(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let mut commands = match commands(draft, setting) {
        Ok(commands) => commands,
        Err(outcome) => return outcome,
    };
    // Kelson sends the signal after the commands.
    draft.spec.reload.signal = commands.last().and_then(killed_with);
    if draft.spec.reload.signal.is_some() {
        commands.pop();
    }
    let mut outcome = many(&commands);
    for command in &commands {
        let (mut hook, of_it) = beside_main(draft, command, "TimeoutStartSec");
        outcome = outcome.and(of_it);
        if std::mem::take(&mut hook.as_root) {
            outcome = outcome
                .and(Outcome::rejected("the command runs as the user of the service, and not as root"));
        }
        if command.may_fail {
            outcome = outcome.and(Outcome::approximated("a command that fails (`-`) ends the reload"));
        }
        draft.spec.reload.hooks.push(hook);
    }
    draft.spec.reload.hooks.truncate(32);
    outcome
}

/// The signal that a command such as `/bin/kill -s HUP $MAINPID` sends to the main process.
pub fn killed_with(command: &Command) -> Option<i32> {
    if command.called.is_some() {
        return None;
    }
    let words = command.words.iter().map(String::as_str);
    let words: Vec<&str> = words.map(|word| if word == "${MAINPID}" { "$MAINPID" } else { word }).collect();
    let signal = match words.as_slice() {
        ["/bin/kill" | "/usr/bin/kill" | "kill", "-s" | "--signal", signal, "$MAINPID"] => *signal,
        ["/bin/kill" | "/usr/bin/kill" | "kill", option, "$MAINPID"] => option.strip_prefix('-')?,
        ["/bin/kill" | "/usr/bin/kill" | "kill", "$MAINPID"] => "TERM",
        _ => return None,
    };
    parse_signal(signal).ok()
}
