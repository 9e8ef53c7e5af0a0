//! `process.stdin` and `process.terminal`: what a process reads, and the terminal that controls it.

use std::path::PathBuf;

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::seen::Seen;
use super::values::{boolean, choice, number, path, text, word};
use crate::decode::{Decoder, quoted};
use kelson_spec::service::{Input, ProcessSpec, ServiceSpec, Stdout, TerminalOutput, TerminalSpec};

const LONGEST: usize = Input::LONGEST;

/// Where `stdin` belongs.
pub fn stdin_at() -> At<ProcessSpec, Option<Input>> {
    At::new(
        |process: &ProcessSpec| match &process.input {
            Input::File(_) | Input::Text(_) => Some(Some(process.input.clone())),
            Input::Nothing | Input::Terminal(_) => None,
        },
        |process, input| process.input = input.unwrap_or_default(),
    )
}

/// Where `terminal` belongs.
pub fn terminal_at() -> At<ProcessSpec, Option<TerminalSpec>> {
    At::new(
        |process: &ProcessSpec| process.input.terminal().cloned().map(Some),
        |process, terminal| process.input = terminal.map_or(Input::Nothing, Input::Terminal),
    )
}

pub fn stdin() -> Mapping<Input> {
    let file_at = At::new(
        |input: &Input| if let Input::File(path) = input { Some(path.clone()) } else { None },
        |input, path: PathBuf| *input = Input::File(path),
    );
    let text_at = At::new(
        |input: &Input| if let Input::Text(text) = input { Some(text.clone()) } else { None },
        |input, text: String| *input = Input::Text(text),
    );
    let mapping = keys! {
        Mapping::new("stdin", Input::default);
        alternative "file" (file_at) = path(), "a file, FIFO or device, which Kelson opens for each run, with its own rights";
        alternative "text" (text_at) = own_text(), "the program reads this, and then the end; at most 64 KiB";
    };
    mapping.one_of(&["file", "text"])
}

fn own_text() -> Codec<String> {
    text().but(|text| {
        let length = text.len();
        (length > LONGEST)
            .then(|| format!("this text has {length} bytes; write one of {LONGEST} at most, or a file"))
    })
}

pub fn terminal() -> Mapping<TerminalSpec> {
    let outputs = [("terminal", TerminalOutput::Terminal), ("log", TerminalOutput::Log)];
    let lines = || number(1..=u16::MAX).optional();
    keys! {
        Mapping::new("terminal", TerminalSpec::default);
        needed "path" path = device(), "path: /dev/tty1", "the terminal, a device below `/dev`";
        key "output" output = choice(outputs),
            "`terminal`: what the program writes goes there too. `log`: it goes to the log of the service";
        key "force" force = boolean(),
            "`true`: it is taken from another program that it controls; otherwise the start fails then";
        key "hangUp" hang_up = boolean(), "`true`: before each run every program that has it open loses it (vhangup(2))";
        key "reset" reset = boolean(), "`true`: before each run it gets its usual modes, and a screen shows text";
        key "clear" clear = boolean(), "`true`: before each run its screen is cleared, with what was scrolled away";
        means "rows" rows = lines(), "as they are", "its height";
        means "columns" columns = lines(), "as they are", "its width";
    }
}

fn device() -> Codec<PathBuf> {
    word("path of a terminal", "^/dev/[^/]", "/dev/tty1").parsed(
        |text| {
            let path = PathBuf::from(text);
            let wrong =
                || format!("{} is not the path of a terminal; write one such as /dev/tty1", quoted(text));
            TerminalSpec::is_path(&path).then_some(path).ok_or_else(wrong)
        },
        |path: &PathBuf| path.to_string_lossy().into_owned(),
    )
}

/// A process has one standard input. The first key that is read is not shown in what comes of it.
pub fn one_input(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, _: &mut ProcessSpec) {
    if seen.has("stdin") && seen.has("terminal") {
        seen.wrong_key(d, "stdin", "the program reads from its terminal; leave one of the two out");
    }
}

/// Notes mistakes that other keys make, and names the kind of the terminal to the service.
pub fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut ServiceSpec) {
    let input = spec.input();
    if *input == Input::Nothing {
        return;
    }
    if spec.sockets.iter().any(|socket| socket.options.stdin) {
        let text = "the program reads from its socket with stdin: true; leave one of the two out";
        seen.wrong_value(d, "process", text);
    }
    if input.takes_output() && spec.logs.stdout == Some(Stdout::Only) {
        let text = "the program writes to its terminal; leave stdout out, or write terminal: {output: log}";
        seen.wrong_value(d, "logs", text);
    }
    if let Some(kind) = input.terminal().map(|terminal| TerminalSpec::kind(&terminal.path))
        && spec.environment.iter().all(|(name, _)| name != "TERM")
    {
        spec.environment.push(("TERM".to_owned(), kind.to_owned()));
    }
}
