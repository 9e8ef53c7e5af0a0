//! Colours, and what they mean. Only on a terminal, and never where NO_COLOR is set.
//!
//! The colours of a terminal with 256 of them are picked for equal contrast on black and on white (about 4.5 to 1
//! on both); on others the terminal's own sixteen are used.

use kelson_proto::v1::check::Standing;
use kelson_proto::v1::line::Stream;
use kelson_proto::v1::{Service, State, health_report};

/// The meaning of a text's colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    /// A heading.
    Strong,
    /// As it should be.
    Good,
    /// On its way.
    Busy,
    /// Waits or tries again.
    Waiting,
    /// Needs an operator.
    Bad,
    /// Of less interest.
    Quiet,
}

impl Tone {
    /// The class of CSS that the drawings use.
    pub fn class(self) -> &'static str {
        match self {
            Tone::Plain | Tone::Strong => "plain",
            Tone::Good => "good",
            Tone::Busy => "busy",
            Tone::Waiting => "waiting",
            Tone::Bad => "bad",
            Tone::Quiet => "quiet",
        }
    }
}

/// The number of a colour as an escape sequence has it: the first sixteen as terminals without more of them know them.
pub fn code(colour: u8) -> String {
    match colour {
        0..8 => format!("3{colour}"),
        8..16 => format!("9{}", colour - 8),
        _ => format!("38;5;{colour}"),
    }
}

/// Turns tones into escape sequences, or into nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    None,
    Sixteen,
    Full,
}

impl Palette {
    /// The palette of a terminal, by the environment's words.
    pub fn choose(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Palette {
        let term = variable("TERM").unwrap_or_default();
        if !is_terminal || variable("NO_COLOR").is_some_and(|v| !v.is_empty()) || term == "dumb" {
            Palette::None
        } else if term.contains("256color") || variable("COLORTERM").is_some_and(|v| !v.is_empty()) {
            Palette::Full
        } else {
            Palette::Sixteen
        }
    }

    /// The number of the colour of a tone.
    pub fn colour(self, tone: Tone) -> Option<u8> {
        let (sixteen, full) = match tone {
            Tone::Plain | Tone::Strong => return None,
            Tone::Good => (2, 28),
            Tone::Busy => (6, 27),
            Tone::Waiting => (3, 130),
            Tone::Bad => (1, 160),
            Tone::Quiet => (8, 243),
        };
        match self {
            Palette::None => None,
            Palette::Sixteen => Some(sixteen),
            Palette::Full => Some(full),
        }
    }

    /// The text in the colour of the tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        match (self.colour(tone), tone) {
            _ if text.is_empty() => String::new(),
            (Some(colour), _) => format!("\x1b[{}m{text}\x1b[0m", code(colour)),
            (None, Tone::Strong) if self != Palette::None => format!("\x1b[1m{text}\x1b[0m"),
            (None, _) => text.to_owned(),
        }
    }
}

/// The word for a state, in tables and in JSON; empty where none is meant.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::Unspecified => "",
        State::Initialized => "initialized",
        State::Waiting => "waiting",
        State::Preparing => "preparing",
        State::Starting => "starting",
        State::Running => "running",
        State::Stopping => "stopping",
        State::Finished => "finished",
        State::Failed => "failed",
        State::Skipped => "skipped",
        State::Backoff => "backoff",
        State::Stopped => "stopped",
    }
}

/// The word for how a check stands.
pub fn standing_name(standing: Standing) -> &'static str {
    match standing {
        Standing::Unspecified | Standing::Pending => "pending",
        Standing::Passing => "passing",
        Standing::Failing => "failing",
    }
}

/// The word for where a line was written; empty where it is not known.
pub fn stream_name(stream: Stream) -> &'static str {
    match stream {
        Stream::Unspecified => "",
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
        Stream::Note => "note",
    }
}

/// The word for the health of the host or of a group; empty where none is meant.
pub fn health_name(state: health_report::State) -> &'static str {
    match state {
        health_report::State::Unspecified => "",
        health_report::State::Pending => "pending",
        health_report::State::Healthy => "healthy",
        health_report::State::Unhealthy => "unhealthy",
        health_report::State::Failed => "failed",
    }
}

/// The colour of a state; `up` tells a service that runs and is well from one that only runs.
pub fn state_tone(state: State, up: bool) -> Tone {
    match state {
        State::Unspecified => Tone::Plain,
        State::Initialized | State::Skipped => Tone::Quiet,
        State::Waiting => Tone::Waiting,
        State::Preparing | State::Starting | State::Stopping => Tone::Busy,
        State::Running if up => Tone::Good,
        State::Running => Tone::Waiting,
        State::Finished if up => Tone::Good,
        State::Finished | State::Stopped => Tone::Quiet,
        State::Failed | State::Backoff => Tone::Bad,
    }
}

/// The colour of a service as it is now.
pub fn service_tone(service: &Service) -> Tone {
    if service.healthy == Some(false) { Tone::Bad } else { state_tone(service.state(), service.up) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn palette(terminal: bool, set: &[(&str, &str)]) -> Palette {
        Palette::choose(terminal, |name| {
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn colour_only_on_a_terminal_that_wants_it() {
        assert_eq!(palette(true, &[("TERM", "xterm-256color")]), Palette::Full);
        assert_eq!(palette(true, &[("TERM", "linux")]), Palette::Sixteen);
        assert_eq!(palette(true, &[("TERM", "vt220"), ("COLORTERM", "truecolor")]), Palette::Full);
        assert_eq!(palette(true, &[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), Palette::None);
        assert_eq!(
            palette(true, &[("TERM", "linux"), ("NO_COLOR", "")]),
            Palette::Sixteen,
            "empty: as if not set"
        );
        assert_eq!(palette(true, &[("TERM", "dumb")]), Palette::None);
        assert_eq!(palette(false, &[("TERM", "xterm-256color")]), Palette::None);
    }

    #[test]
    fn paint_is_closed_again() {
        assert_eq!(Palette::Full.paint(Tone::Good, "up"), "\x1b[38;5;28mup\x1b[0m");
        assert_eq!(Palette::Sixteen.paint(Tone::Bad, "failed"), "\x1b[31mfailed\x1b[0m");
        assert_eq!(Palette::None.paint(Tone::Bad, "failed"), "failed");
        assert_eq!(Palette::Full.paint(Tone::Plain, "x"), "x");
        assert_eq!(Palette::Full.paint(Tone::Good, ""), "");
    }

    #[test]
    fn a_service_that_is_not_healthy_is_bad() {
        let mut service = Service { up: true, ..Service::default() };
        service.set_state(State::Running);
        assert_eq!(service_tone(&service), Tone::Good);
        service.healthy = Some(false);
        assert_eq!(service_tone(&service), Tone::Bad);
    }
}
