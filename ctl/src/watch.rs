//! A command that is done again and again: `--watch`.
//!
//! Each time is a call of its own, so that a host that was gone is there again as soon as it is. It goes on until it is
//! interrupted; only what fails the first time, with nothing to show, ends at once.

use std::rc::Rc;
use std::time::Duration;

use crate::cli::Command;
use crate::commands::{self, Call};
use crate::failure::Failure;
use crate::nodes;
use crate::output::screen::Screen;
use crate::output::terminal::Terminal;
use crate::output::time;

/// Shorter than this a host would do little but answer.
const SHORTEST: Duration = Duration::from_millis(100);

/// The words of a command that can be done again and again.
#[derive(Debug, Clone, clap::Args)]
pub struct Watching {
    /// Show it again every 2s, or every so-and-so often
    #[arg(short, long, value_name = "D", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
          value_parser = parse_period)]
    pub watch: Option<Duration>,
}

/// Reads how long it is between two times.
pub fn parse_period(text: &str) -> Result<Duration, String> {
    match time::parse_timeout(text)? {
        period if period < SHORTEST => Err("it must be 100ms or longer".to_owned()),
        period => Ok(period),
    }
}

/// Does what the command says, once or again and again.
pub async fn run(command: Command, call: Call, names: &[String]) -> Result<(), Failure> {
    let Some(period) = commands::watched(&command) else {
        return nodes::run(command, call, names).await;
    };
    let screen = Rc::new(Screen::new(call.format));
    let mut first = true;
    loop {
        // The terminal may have another size by now.
        let terminal = Terminal { headers: call.terminal.headers, ..Terminal::stdout() };
        let (format, chosen, choice) = (call.format, call.chosen, call.choice.clone());
        let again = Call { format, chosen, terminal, choice, node: None, screen: Some(Rc::clone(&screen)) };
        if let Err(failure) = nodes::run(command.clone(), again, names).await {
            if first && screen.is_empty() {
                screen.tell();
                return Err(failure);
            }
            if let Some(said) = failure.unsaid() {
                screen.say(said);
            }
        }
        screen.show(&terminal)?;
        first = false;
        tokio::time::sleep(period).await;
    }
}
